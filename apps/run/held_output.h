// SPDX-License-Identifier: BSD-3-Clause
// Held output: what a program writes to standard output and error waits until the epoch in which it was written is
// committed. Then it can never be written again.
//
// The program writes to pipes. One output's bytes, counted from the program's beginning, lie in the state directory's
// `held-<descriptor>` at their own offsets, until they have been released; what was released is cut out of the file,
// which grows in length only.
//
//   1. a byte is read from the pipe and written to the file         crash here => it was written after the last epoch, or
//                             that epoch is not committed: the program writes it once more
//   2. its epoch is committed; the image says how long the output was at its end
//                          crash here => a resume releases it
//   3. one sendfile() writes it to where it belongs, and its new offset to `released`, which is mapped: a SIGKILL comes
//      before both or after both. (Where sendfile() cannot write, as to a file opened for appending only, write() does
//      in pieces of 4 KiB; a kill right after one repeats it.)
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/run/shared.h"
#include "perdure/region/file.h"

namespace perdure::run {

class HeldOutput {
 public:
  /// Which of this process's outputs can be held: those that are no regular files, which are taken back by themselves.
  struct Which {
    bool output = false, error = false;
    bool error_is_output = false;  // the same pipe, so that their order stays
  };
  static Which of_this_process();
  /// `ends`: how long each was when the epoch ended from which the program goes on.
  /// Errors: Exception: kIo.
  HeldOutput(const std::string& directory, bool power, Shared& shared, Which which,
             const std::uint64_t (&ends)[kOutputs]);
  ~HeldOutput();
  HeldOutput(const HeldOutput&) = delete;
  HeldOutput& operator=(const HeldOutput&) = delete;

  /// For the program's descriptors 1 and 2: the writing end of a pipe, or -1: it keeps this process's.
  int writing_end(int descriptor) const;
  /// Releases what a resume owes, and begins.
  void start();
  /// What was written before the epoch's end is on the device, with power. Requires: the staged epoch.
  /// Failure: no epoch ends any more (Shared::poisoned). Threads: the committing one.
  void before_commit();
  /// It may be released. Requires: the epoch that was staged. Threads: the committing one.
  void after_commit();
  /// Ends. `all`: the program ended by itself, and what it wrote is released.
  void stop(bool all);

 private:
  struct Output {
    Descriptor reading, writing, file;
    std::atomic<std::uint64_t> may_release{0};
    std::atomic<bool> unwanted{false};  // Who should read it is gone.
  };
  void drain(int index);
  /// For a disk that is full: after what is held, straight to where it belongs.
  void pass_on(int index, std::vector<char>& bytes, std::size_t count);
  void release();
  /// False: nothing is owed.
  bool release_piece(int index);
  ssize_t write_piece(int index, std::size_t count);

  const std::string directory_;
  const bool power_;
  Shared& shared_;
  const Which which_;
  std::unique_ptr<Output> outputs_[kOutputs];  // by descriptor - 1; null: not held
  Descriptor counts_file_;
  std::uint64_t* released_ = nullptr;  // mapped: one for each output
  std::atomic<bool> gone_{false};      // the program
  bool ended_ = false;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::vector<std::thread> drains_;
  std::thread releases_;
};

}  // namespace perdure::run
