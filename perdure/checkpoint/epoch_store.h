// SPDX-License-Identifier: BSD-3-Clause
// EpochStore: keeps the memory images of the last two epochs in a file, at whatever moment the
// power fails.
//
// Names: L is the last committed epoch, H the one that the state slots say home holds; H < L once
// there is an epoch. L and L - 1 are recoverable at every moment: the second, should L be found
// damaged.
//
// Committing epoch L + 1 (commit(), one thread):
//   1. records of what changed, and the commit record, are appended to the segment in use
//                          crash here => some may be there, and recovery takes L; if all are, the
//                          epoch counts
//   2. sync                crash here => the epoch counts; the program had not been told
//   3. L is L + 1          the program is told
//
// Beginning a segment (commit(), when the one in use has no room or holds log_bytes; before its
// step 1):
//   1. bring_home(), if the other segment still matters
//   2. where commits do not sync: sync. Else the new segment's first epochs might be there and the
//      last of the old one not; with it, a power cut takes back the newest epochs only
//   3. a new head over the other segment's, in the same sync interval as the first group
//                          crash here => the old head with records of the new use, which do not
//                          check; or the new head with none: the log goes on to L in the segment
//                          before
//
// Bringing home (bring_home(), another thread; commits go on meanwhile). Only a segment that is not
// in use, and only when the one in use holds a commit: H never passes L - 1.
//   1. the segment is durable: it was when its successor began
//   2. the segment's epochs after H are written to their places, oldest first
//                          crash here => home is a mix; the log has all after H and says what each
//                          changed part is
//   3. sync; 4. the state slot that is not the newest says that home holds the segment's last epoch
//                          crash here => this slot or the other counts; home and log suit both
//   5. sync: from now on the segment may be begun anew
//
// Recovery (open()): the newest state slot says H; the segments, older first, what epochs there are
// after it. A gap is damage, and refused. So is a commit of a later epoch behind the last one that
// checks, in a segment whose head says that each was durable before the next: power cuts take the
// newest only. So is a segment with later epochs whose head is damaged.
//   1. the last group and its head are written anew, as they were read: after a failed sync, or a
//      kill, what can be read need not be what the device has; 2. sync
//   3. the epochs up to L - 1 are brought home, as above; the state says so in any case
//                          crash here => H, or L - 1, and the group of L in its segment, in which
//                          nothing is written before L + 1 is committed in the other
// The image of L is home and what the group of L says: for_each_piece_of_last().
//
// A failed write or sync is final: the store refuses all further ones.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perdure/checkpoint/arena_layout.h"
#include "perdure/checkpoint/log_reader.h"
#include "perdure/checkpoint/storage.h"
#include "perdure/error.h"

namespace perdure::checkpoint {

/// What an epoch changed: blocks of a page, a page (mask of all ones), or `zeros` pages that are
/// all zeros.
struct Change {
  std::uint32_t page;
  std::uint32_t zeros;  // 0: mask says
  std::uint64_t mask;
};

class EpochStore {
 public:
  /// What the protocol rests on; a test that leaves one out must see recovery fail.
  struct Rules {
    bool home_before_reuse = true;
    bool newer_commit_before_home = true;
    bool check_records = true;
  };
  struct Options {
    bool power = true;            // commits survive a power cut; else the process's end only
    std::uint64_t log_bytes = 0;  // a segment is left when it holds so much; 0: when it is full
    Rules rules{};
    std::function<std::uint64_t()> salt{};  // random by default
    std::uint64_t features = 0;             // that the file must have, and no others
    bool accept_older = false;              // open() also if lost() was durable
  };

  /// The superblock of a new arena. Errors: kInvalid.
  static Result<ArenaSuperblock> plan(const std::string& name, std::uint64_t capacity_bytes,
                                      std::uint64_t log_bytes, std::uint64_t address,
                                      std::uint64_t features = 0);
  /// Writes what a new arena's file needs beside zeros; the caller syncs.
  static bool format(Storage& storage, const ArenaSuperblock& super);
  /// Errors: kForeign, kVersion, kCorrupt, kTruncated, kIo.
  static Result<ArenaSuperblock> read_superblock(Storage& storage, const std::string& name,
                                                 std::uint64_t features = 0);

  /// Recovers. An epoch that is missing although a later one was begun behind it is damage, where
  /// each was durable before the next one began, and refused unless Options::accept_older.
  /// `log` and `home` are the same file; the first is used by commit(), the other by
  /// bring_home(). `inspect`: nothing is written, and the image is home with all that
  /// for_each_piece_of_last() tells.
  /// Errors: as read_superblock(), kPoisoned when the storage refuses. To inspect, nothing is refused
  ///         for what lost() tells.
  static Result<std::unique_ptr<EpochStore>> open(Storage& log, Storage& home,
                                                  const std::string& name, Options options,
                                                  bool inspect = false);

  /// Makes the last committed epoch one that never was: the next open() finds the one before.
  /// Requires: opened with `inspect`. Errors: kNotFound: it is the only one; kPoisoned.
  Result<void> forget_last();

  /// A segment of the log: its head (zeros: none that checks), and how far its epochs reach.
  struct Segment {
    SegmentHead head{};
    std::uint64_t last_epoch = 0;  // 0: none
    std::uint64_t used = 0;        // bytes
  };

  /// Epochs that the log had and that cannot be recovered.
  struct Lost {
    std::uint64_t newest = 0;  // those from L + 1 up to it, at least; 0: none is known of
    bool was_durable = false;  // damage; else a power cut may have taken them, too
    std::string proof{};       // what says that they were there
  };

  const ArenaSuperblock& superblock() const { return super_; }
  /// As opening found it.
  const Lost& lost() const { return lost_; }
  /// As opening found it. Requires: opened to inspect.
  const Segment& segment(int number) const { return segments_[number]; }
  /// L; 0: nothing was ever committed, the image is zeros.
  std::uint64_t epoch() const { return committed_.load(std::memory_order_acquire); }
  std::uint64_t home_epoch() const { return home_epoch_.load(std::memory_order_acquire); }

  /// visit(Piece) for all in which the image of L differs from home, as recovery found it; oldest
  /// first.
  /// Requires: before the first commit. Errors: kCorrupt, kIo.
  Result<void> for_each_piece_of_last(const std::function<void(const Piece&)>& visit);

  /// Commits the next epoch, whose image, as far as it changed, is at `image`. Threads: one.
  /// Durable: on return, with Options::power. Errors: kPoisoned; the store takes no more.
  Result<void> commit(std::span<const Change> changes, const std::byte* image);
  /// Brings home what may be; nothing to do is fine. Threads: any, one at a time works.
  Result<void> bring_home();

  /// Bytes of log written since open(), and of home.
  std::uint64_t log_bytes_written() const { return log_written_.load(std::memory_order_relaxed); }
  std::uint64_t home_bytes_written() const { return home_written_.load(std::memory_order_relaxed); }

 private:
  struct Placed {
    int segment;
    Group group;
  };

  EpochStore(Storage& log, Storage& home, std::string name, const ArenaSuperblock& super,
             Options options);
  Result<void> read_state();
  Result<void> read_segments();
  Result<void> look_behind(int newest);
  Result<void> look_without_head(int segment, bool spoilt, bool synced);
  Result<void> settle();
  Result<void> rewrite(const Placed& placed);
  LogReader reader(Storage& storage, int segment) const {
    return {storage, super_, segment, segments_[segment].head, !options_.rules.check_records};
  }

  Result<void> begin_segment();
  Result<void> append(std::span<const std::byte> bytes);
  Result<void> apply(int segment, std::uint64_t through);
  Result<void> write_state(std::uint64_t epoch);
  Result<void> sync(Storage& storage, Barrier why);
  Error failed(const std::string& step);
  bool refused() const { return poisoned_.load(std::memory_order_acquire); }
  Error refusal() const;

  Storage& log_;
  Storage& home_;
  const std::string name_;
  const ArenaSuperblock super_;
  const Options options_;
  std::atomic<bool> poisoned_{false};
  std::atomic<std::uint64_t> committed_{0};
  std::atomic<std::uint64_t> home_epoch_{0};
  std::atomic<std::uint64_t> log_written_{0}, home_written_{0};
  // Held while home is written, and while a segment is begun.
  std::mutex home_mutex_;
  Lost lost_;
  Segment segments_[2];
  int active_ = -1;       // the segment in use; -1: the next commit begins one
  int next_segment_ = 0;  // that one
  int newest_state_ = 0;  // slot
  std::uint64_t generation_ = 0;
  std::vector<Placed> found_;  // after H, by recovery
  std::vector<std::byte> buffer_;
};

}  // namespace perdure::checkpoint
