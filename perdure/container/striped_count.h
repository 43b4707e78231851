// SPDX-License-Identifier: BSD-3-Clause
// A counter that many threads move at the same time: each counts on a cache line of its own, the
// sum is the count. One shared word would make every two insertions into a map conflict.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "perdure/base/words.h"

namespace perdure::detail {

class StripedCount {
 public:
  /// To zero. A count in fresh memory is undefined before.
  template <class Tx>
  void reset(Tx& tx) {
    for (Stripe& stripe : stripes_) tx.store(stripe.count, 0);
  }
  /// Adds `delta` (may wrap below zero) and returns this thread's share, for decisions that need
  /// not be exact.
  template <class Tx>
  std::uint64_t add(Tx& tx, std::uint64_t delta) {
    std::uint64_t& mine = stripes_[stripe_of_thread()].count;
    const std::uint64_t count = tx.load(mine) + delta;
    tx.store(mine, count);
    return count;
  }
  /// Conflicts with every concurrent add().
  template <class Tx>
  std::uint64_t sum(Tx& tx) const {
    std::uint64_t total = 0;
    for (const Stripe& stripe : stripes_) total += tx.load(stripe.count);
    return total;
  }

 private:
  struct Stripe {
    std::uint64_t count;  // modulo 2^64: a thread that only erases counts below zero
    std::array<std::byte, kLineBytes - sizeof(std::uint64_t)> padding;
  };
  static std::size_t stripe_of_thread() {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t mine =
        next.fetch_add(1, std::memory_order_relaxed) % std::tuple_size_v<Stripes>;
    return mine;
  }

  using Stripes = std::array<Stripe, 16>;
  Stripes stripes_;
};
static_assert(sizeof(StripedCount) == 16 * kLineBytes);

}  // namespace perdure::detail
