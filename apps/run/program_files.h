// SPDX-License-Identifier: BSD-3-Clause
// What the supervisor does at a program's system calls: files are recorded so that they can be taken back (files/), an
// fsync is the end of an epoch, and a program that replaces itself gets its descriptors anew.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "apps/run/files/history.h"
#include "apps/run/files/watch.h"
#include "apps/run/shared.h"

namespace perdure::run {

class ProgramFiles {
 public:
  /// `on_exec`: before the program (not its children) replaces itself; not the first time, when it begins.
  ProgramFiles(const std::string& directory, bool power, Shared& shared,
               std::function<void(const files::Call&, int listener)> on_exec);
  ~ProgramFiles();

  /// Gives the descriptor that the program's process needs until exec a number from `least` on. Errors: Exception: kIo.
  int prepare(int least);
  /// In the program's process, last before exec. Ends the process when the kernel refuses.
  void enter_program() const;
  /// Waits until the program has come to that. False: it ended before.
  bool start();
  void stop();

  /// What the epoch did to files is on the device, with power. Errors: kIo.
  Result<void> before_commit();
  void after_commit(std::uint64_t epoch);
  /// Epochs that were asked for did not end, or not yet: whoever waits in fsync for one goes on.
  void give_up_waiting();

 private:
  struct Waiting {
    std::uint64_t epoch;  // that has to be committed first
    std::optional<std::uint64_t>
        call;  // which waits; none: its thread was parked, and will call again
  };
  /// The history's epoch is the program's. Every thread has been parked since it began.
  void follow_epoch();
  bool on_sync(const files::Call& call);
  bool is_program(pid_t thread) const;

  const bool power_;
  Shared& shared_;
  const std::function<void(const files::Call&, int listener)> on_exec_;
  files::FileHistory history_;
  std::mutex epoch_mutex_;
  Descriptor ours_, programs_;  // a pair of sockets
  std::unique_ptr<files::SyscallWatch> watch_;
  std::thread thread_;
  pid_t program_ = 0;

  std::mutex mutex_;
  std::map<pid_t, Waiting> waiting_;  // by thread
  std::uint64_t committed_ = 0;
  bool told_ = false;  // that something cannot be taken back
};

}  // namespace perdure::run
