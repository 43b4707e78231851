// SPDX-License-Identifier: BSD-3-Clause
// FileHistory: what a program does to files since an epoch, recorded before it is done, so that it can be taken back. For
// the process that supervises the program (watch.h calls it before each system call goes on); memory is not its matter.
//
// undo-<e> holds what happened between the end of epoch e-1 and the end of e. The last two committed epochs, E and E-1,
// can be resumed; to go back to E-1 takes undo-<E> and all after it.
//
// A change of files in epoch e:
//   1. a file that loses a name is linked into kept/: inode, contents and open descriptors stay what they are
//                          crash here => a link that nobody needs; it goes at a later commit
//   2. records that take the change back are appended to undo-<e>; with power: synced
//                          crash here => records of a change that did not come about: taking it back does nothing
//   3. the system call goes on
//                          crash here => the change is there or not; the record suits both
//
// Recorded at most once an epoch: each block of each file; size, mode, owner and times of each file and directory, when
// it is first touched. A file that was made in this epoch needs its name recorded only.
//
// Going back to epoch E (roll_back()):
//   1. all undo files after E are read and checked   damage => an error; nothing was changed
//   2. the newest record is taken back; 3. it is cut off its undo file; and so on to the oldest
//                          crash here => the record is taken back once more, which does nothing. Older ones have not been
//                             touched: paths mean what they meant when the record was written
//   4. the undo files after E, which have no records any more, are removed, newest first
// With power, step 2 is made durable before step 3. Runs of records whose order does not matter are cut off at once.
//
// The process leaves SIGURG ignored, as it is by default: leases on files that are removed may send it.
//
// Not taken back: times of last change (ctime), contents of files that are written through shared mappings after the epoch
// in which they were mapped, or that mprotect(2) has made writable, inode flags, changes by processes that are not
// watched. System calls that race with each other for a name are taken back in the order in which they were let through.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "apps/run/files/kept_files.h"
#include "apps/run/files/undo_layout.h"
#include "apps/run/files/undo_log.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {

/// A file that an epoch refers to, so that a resume can tell whether it is still what it was. The path of one without a
/// name ends with " (deleted)": have kept_path() checked instead.
struct FileFact {
  std::string path;
  FileId id;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
};

class FileHistory {
 public:
  /// What it rests on; a test that leaves one out must see roll_back() restore something else.
  struct Rules {
    bool contents = true;
    bool keep = true;
  };

  /// Threads: calls of before_*() and cannot_take_back() need gate() when other threads call anything here;
  /// all other functions take it themselves.
  /// Errors: Exception: kNotFound: no such directory; kNoSpace; kIo.
  FileHistory(std::string state_directory, bool power, Rules rules);
  FileHistory(std::string state_directory, bool power)
      : FileHistory(std::move(state_directory), power, Rules{}) {}

  /// Held from before a change is recorded until its system call has been let through.
  std::mutex& gate() { return gate_; }

  /// What is recorded from now on belongs to `epoch`.
  /// Requires: the program stands still: no system call that was let through is still at work.
  /// Errors: Exception: kMisuse: what an earlier run did in this epoch or later was not taken back.
  void begin_epoch(std::uint64_t epoch);
  std::uint64_t epoch() const { return epoch_; }
  /// As above, when the caller holds the gate.
  void begin_epoch(std::uint64_t epoch, const std::unique_lock<std::mutex>& held);

  // Before each change. `file` is a descriptor of this process, of any kind, also O_PATH; paths are absolute, and
  // without symbolic links but for the last part, which is meant itself.
  // Durable: with power, on return. Errors: why this change cannot be taken back; then broken() says so until the next
  // epoch begins, and roll_back() to an epoch before this one refuses. The call may go on.
  Result<void> before_write(int file, std::uint64_t offset, std::uint64_t bytes);
  Result<void> before_resize(int file, std::uint64_t bytes);
  /// Of mode, owner or times.
  Result<void> before_change(int file);
  Result<void> before_attribute(int file, const std::string& name);
  /// Of a name that is not there yet: file, directory, symbolic link, and so on.
  Result<void> before_create(const std::string& path);
  Result<void> before_link(int file, const std::string& path);
  /// Of a file or an empty directory.
  Result<void> before_remove(const std::string& path);
  Result<void> before_rename(const std::string& from, const std::string& to, bool exchange = false);

  /// Nothing that before_write() would record of this file: it was made in this epoch, all of it is
  /// recorded, or it is not a file that a program keeps data in (/proc, the state directory).
  bool all_taken(const struct stat& state) const;
  /// The same, of a range of it.
  bool taken(const struct stat& state, std::uint64_t offset, std::uint64_t bytes) const;

  /// Where a file is that has no name any more, if it could be linked there as it lost it.
  static std::string kept_path(const std::string& state_directory, FileId file);

  /// Waits until what the epochs before the current one did to files is on the devices. Call before an epoch commits, with
  /// power. Errors: kIo.
  Result<void> sync_touched();
  /// `epoch` can be resumed now, and so can the one before; none older. `still_open`: what it has open without a name.
  void committed(std::uint64_t epoch, std::span<const FileId> still_open);

  /// Why the current epoch's changes cannot be taken back.
  std::optional<std::string> broken();
  /// The same, without the cause. Requires: the gate.
  bool is_broken() const { return broken_.has_value(); }
  void cannot_take_back(const std::string& cause);

  struct RollBack {
    std::function<void()> before_step;  // of tests: before whatever is changed
    bool newest_first = true;           // a rule, as above
  };
  /// Takes back what happened after `epoch`. May be cut at any point and called again.
  /// Requires: the program and its children are gone.
  /// Errors: Exception, before anything is changed: kInvalid: something was done that cannot be taken back, with the
  ///         cause; kCorrupt, kForeign, kVersion, kNotFound: an undo file or kept file; later: kIo, kNoSpace, and
  ///         kMisuse: somebody else has changed what is to be taken back. Call again once it has been put right.
  static void roll_back(const std::string& state_directory, std::uint64_t epoch,
                        const RollBack& options);
  static void roll_back(const std::string& state_directory, std::uint64_t epoch) {
    roll_back(state_directory, epoch, RollBack{});
  }

  /// From now on roll_back() can go to `epoch`, and to none before it: who goes back twice would find too few undo files.
  /// Errors: Exception, as roll_back() before anything is changed.
  static void make_oldest(const std::string& state_directory, std::uint64_t epoch);

  /// Whether the path, which is not followed, names the file, or what a roll-back made anew in its place.
  static bool is(const std::string& state_directory, FileId file, const std::string& path);

  /// Checks that files are what they were, but for those that a roll-back to `epoch` changes.
  /// Errors: kMisuse, which names the first that is not, and what is different; as roll_back(), of undo files.
  static Result<void> check_untouched(const std::string& state_directory, std::uint64_t epoch,
                                      std::span<const FileFact> facts);

 private:
  struct Touched {
    bool all_taken = false;         // as all_taken()
    bool made = false;              // in this epoch
    std::uint64_t first_bytes = 0;  // its size when first touched in the epoch
    std::vector<bool> taken;        // by block
    unsigned pieces = 0;            // of contents taken
    std::uint64_t generation = 0;
  };

  template <class Do>
  Result<void> recorded(Do&& record);
  Touched& touch(int file, const struct stat& state);
  void touch_parent(const std::string& path);
  void take(int file, Touched& touched, std::uint64_t offset, std::uint64_t end,
            const struct stat& state);
  std::optional<std::string> name_of(int file, const struct stat& state);
  bool holds_data(int file, const std::string& path, const struct stat& state);
  bool is_own(const std::string& path) const;
  bool keep(const std::string& path, const struct stat& state);
  void copy(const std::string& path, const struct stat& state, std::uint64_t generation);
  void remove(const std::string& path, const struct stat& state);
  void changed(std::uint64_t device, const std::string& directory);
  std::uint64_t last_before() const { return epoch_ == 0 ? 0 : epoch_ - 1; }

  const std::string directory_;
  const bool power_;
  const Rules rules_;
  std::mutex gate_;
  KeptFiles kept_;
  std::uint64_t epoch_ = 0;
  std::uint64_t previous_undo_ = 0;
  std::optional<UndoLog> log_;
  std::optional<Error> broken_;
  Descriptor broken_mark_;

  // Of this epoch.
  std::unordered_map<FileId, Touched, FileIdHash> touched_;
  std::unordered_set<std::string> created_, parents_;
  std::unordered_map<std::uint64_t, bool> data_devices_;  // false: /proc and its like
  // File systems with changes that are not known to be on the device: a descriptor each.
  std::unordered_map<std::uint64_t, Descriptor> changed_now_, changed_before_;
};

}  // namespace perdure::run::files
