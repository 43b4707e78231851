// SPDX-License-Identifier: BSD-3-Clause
// ArenaWreck: a damaged arena file, of which the newest epoch that can be proved is to be saved.
//
// An arena is memory with the program's own pointers in it: pages of two epochs beside each other are
// worse than an older epoch. So it is one epoch as a whole, or nothing: the newest one E such that the
// log has each epoch after the one that home holds, up to E (log_salvage.h), and home shows nothing
// that is later. What is in the log is proved by its checksums. The rest stands at home, which has
// none: it is taken as it is, except
//   - what can neither be read nor is in the log: refused, or zeros if that is asked for
//   - what differs from what the log says that home holds: the log's is taken, and what stands beside
//     it, in the same page, is told to be in doubt
//   - tables of the heap that contradict themselves (ArenaHeap::mend())
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "perdure/checkpoint/arena_layout.h"
#include "perdure/checkpoint/log_salvage.h"
#include "perdure/checkpoint/storage_with_gaps.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::checkpoint {

class ArenaWreck {
 public:
  /// Whether the file claims to be an arena, or was one before its superblock was damaged.
  static bool seems_one(const std::string& path);

  /// Nothing is written to the file.
  /// Errors: kNotFound, kBusy (open elsewhere), kForeign, kVersion, kCorrupt (nothing can be proved),
  ///         kIo, kInvalid (a symbolic link).
  static Result<std::unique_ptr<ArenaWreck>> open(const std::string& path);

  /// The new arena has these addresses and sizes, too.
  const ArenaSuperblock& superblock() const { return super_; }
  /// The epoch that is saved; 0: the arena was never saved to.
  std::uint64_t epoch() const { return log_->epoch(); }
  /// Later ones that were committed, at least.
  std::uint64_t dropped_epochs() const;

  /// Makes the file, which is new and empty, an arena that holds epoch() and no log. Once.
  /// `zero_lost_pages`: pages of home that cannot be read are zeros then.
  /// Errors: kCorrupt (pages cannot be read; the heap cannot be mended), kIo, kNoSpace.
  Result<void> write(int fd, const std::string& path, bool zero_lost_pages);

  /// What was put right, with nothing lost by it.
  const std::vector<std::string>& mended() const { return mended_; }
  /// What is lost, or cannot be proved although something tells that it should be.
  const std::vector<std::string>& lost() const { return lost_; }
  /// Known when it is written: how much of the image the log proves, and how much is what home has.
  std::uint64_t proved_bytes() const { return proved_bytes_; }
  std::uint64_t unproved_bytes() const { return unproved_bytes_; }

 private:
  ArenaWreck(std::string path, LockedFile file)
      : path_(std::move(path)), storage_(std::move(file.fd), file.bytes) {}
  Result<void> find_superblock();
  bool rebuild_superblock(const ArenaSuperblock& found);
  bool agrees(std::uint64_t capacity, std::uint64_t segment, const ArenaSuperblock& found);
  Result<void> find_epoch();
  Result<void> judge_home();
  std::uint64_t recorded_address();
  Result<void> copy_home(Storage& to);
  Result<void> apply_log(Storage& to);
  void compare_home(Storage& copy, const std::unordered_map<std::uint64_t, std::uint64_t>& blocks);
  Result<void> judge_heap(int fd);
  std::uint64_t covered(std::uint64_t page) const {
    const auto found = covered_.find(page);
    return found == covered_.end() ? 0 : found->second;
  }
  Offset byte_of(std::uint64_t page) const { return super_.home_offset + page * kPageBytes; }
  Error refusal(const std::string& what) const { return {Code::kCorrupt, path_ + ": " + what}; }

  std::string path_;
  StorageWithGaps storage_;
  ArenaSuperblock super_{};
  std::unique_ptr<LogSalvage> log_;
  std::unordered_map<std::uint64_t, std::uint64_t> covered_;  // blocks of pages that the log has
  std::vector<std::uint64_t> unreadable_;                     // pages that nothing tells of
  std::vector<std::string> mended_, lost_;
  std::uint64_t proved_bytes_ = 0, unproved_bytes_ = 0;
};

}  // namespace perdure::checkpoint
