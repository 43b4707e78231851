// SPDX-License-Identifier: BSD-3-Clause
// Where `run` and `resume` put a program: the lock on its state directory, the namespaces it comes back in.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace perdure::run {

/// Holds a state directory for this process.
class DirectoryLock {
 public:
  /// Errors: Exception: kBusy, kIo.
  explicit DirectoryLock(const std::string& directory);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  ~DirectoryLock();

 private:
  int file_ = -1;
};

/// Enters fresh namespaces: of process ids (for children) and mounts; without root, of users, too.
/// Errors: Exception kIo with the remedy.
void enter_namespaces();
/// After a reboot: children have a clock (CLOCK_MONOTONIC) that goes on from there, in nanoseconds; it never goes back.
/// Requires: enter_namespaces(). Errors: Exception kIo.
void keep_clock_going(std::uint64_t from_ns);
/// In the first process of the namespace: /proc shows it. False: it is not allowed.
bool mount_proc();

}  // namespace perdure::run
