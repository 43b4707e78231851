// SPDX-License-Identifier: BSD-3-Clause
// ArenaInspection: tells what an arena file holds, and what is wrong with it, without opening the
// arena. The file is untrusted, nothing is written, and the arena's addresses are not needed.
//
// Opening takes the newest epoch that it can prove, and cannot ask for more. Inspection also says
// where something was lost:
//   - a state slot or a segment's head that is neither empty nor checks; each lies in one sector,
//     so no power cut leaves that
//   - an epoch that does not check although a later one behind it was committed
// What home holds has no checksums: of it only the heap's tables and the roots are judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "perdure/checkpoint/arena_heap.h"
#include "perdure/checkpoint/arena_layout.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/error.h"

namespace perdure::checkpoint {

/// Whether the file claims to be an arena. False for a file that cannot be read.
bool is_arena(const std::string& path);

class ArenaInspection {
 public:
  /// `part`: superblock, state, log, heap.
  struct Finding {
    std::string part;
    std::string message;  // "file: what … byte N …; remedy"
  };

  /// Damage is no error, but told by findings().
  /// Errors: kNotFound, kBusy (open elsewhere), kForeign, kVersion, kIo, kInvalid (a symbolic
  ///         link).
  static Result<ArenaInspection> of(const std::string& path);

  const std::vector<Finding>& findings() const { return findings_; }
  /// Null when the superblock is damaged; then nothing else is known.
  const ArenaSuperblock* superblock() const { return has_super_ ? &super_ : nullptr; }

  // Known when there is an image:
  bool has_image() const { return image_ != nullptr; }
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t home_epoch() const { return home_epoch_; }
  /// Of the log, that home does not have yet.
  std::uint64_t log_bytes() const { return log_bytes_; }
  /// The log goes on with a part of an epoch that was not committed.
  bool unfinished() const { return unfinished_; }
  /// Null: it is damaged, or nothing was ever saved.
  const ArenaHeap* heap() const { return heap_; }

 private:
  struct Unmap {
    std::uint64_t bytes;
    void operator()(std::byte* image) const;
  };

  ArenaInspection() = default;
  Result<void> look(const std::string& path, int fd, std::uint64_t file_bytes);
  Result<void> judge_slots(Storage& storage, const std::string& path);
  Result<void> judge_log_end(Storage& storage, const EpochStore& store, const std::string& path);
  Result<void> load(EpochStore& store, int fd, const std::string& path);
  void find(const char* part, const std::string& message) { findings_.push_back({part, message}); }

  std::vector<Finding> findings_;
  bool has_super_ = false;
  ArenaSuperblock super_{};
  std::uint64_t epoch_ = 0;
  std::uint64_t home_epoch_ = 0;
  std::uint64_t log_bytes_ = 0;
  bool unfinished_ = false;
  std::unique_ptr<std::byte, Unmap> image_{nullptr, Unmap{0}};
  const ArenaHeap* heap_ = nullptr;
};

}  // namespace perdure::checkpoint
