// SPDX-License-Identifier: BSD-3-Clause
// How many instructions a piece of code takes, where the processor's counter can be asked
// (perf_event_open; many virtual machines have none).
#pragma once

#include <cstdint>
#include <optional>

namespace perdure::bench {

/// Counts the instructions of the calling thread, without the kernel's.
class InstructionCounter {
 public:
  InstructionCounter();
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;

  /// What `work()` takes; nothing where there is no counter.
  template <class Work>
  std::optional<std::uint64_t> count(Work work) {
    const std::optional<std::uint64_t> before = read();
    work();
    const std::optional<std::uint64_t> after = read();
    if (!before || !after) return std::nullopt;
    return *after - *before;
  }

 private:
  std::optional<std::uint64_t> read() const;
  int fd_;  // -1: there is no counter
};

}  // namespace perdure::bench
