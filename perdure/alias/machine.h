// SPDX-License-Identifier: BSD-3-Clause
// What the alias tables need of the machine: atomics, a fence, a pause. A parameter, so that a
// model checker can take its place (sim/interleave).
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace perdure::alias {

/// The rules on which the states of the tables rely. A test leaves out each one, and must notice.
enum class Rule : std::uint8_t {
  kLookAgain,      // a wrap that opens looks whether the states changed while it said which it saw
  kFillWhenEmpty,  // a table becomes active only when it is empty
  kCloseWhenLeft,  // a table is closed when the wraps that may store there have closed
  kRecycleWhenLeft,  // a table is cleared when the wraps that may look there have closed
  kLookSecond,       // what is not home is looked up in the table before
  kSayFence,         // a wrap says which states it saw before it looks again
  kChangeFence,      // the manager changes the states before it looks at the wraps
};

struct Hardware {
  static constexpr bool keeps(Rule) { return true; }
  template <class T>
  using Atomic = std::atomic<T>;
  static void fence(Rule) { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static void pause() { std::this_thread::yield(); }
};

}  // namespace perdure::alias
