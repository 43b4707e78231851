// SPDX-License-Identifier: BSD-3-Clause
// Runs a part of a program in a process of its own.
#pragma once

#include <functional>

namespace perdure::bench::comparison {

/// Memory in which both processes see what either writes; zeroed.
class SharedMemory {
 public:
  /// Errors: throws Exception kIo.
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

/// Runs `work()` in a forked process and waits for it.
/// Requires: this process has no other thread.
/// Errors: rethrows an Exception that leaves `work`; kIo when the process cannot be made, or is
///         ended by a signal.
void run_apart(const std::function<void()>& work);

}  // namespace perdure::bench::comparison
