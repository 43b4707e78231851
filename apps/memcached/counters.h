// SPDX-License-Identifier: BSD-3-Clause
// What happened, counted by each worker for itself and added up when somebody asks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace perdure::memcached {

// In the order, and by the names, of memcached's `stats`.
#define PERDURE_MEMCACHED_COUNTERS(X) \
  X(cmd_get)                          \
  X(cmd_set)                          \
  X(cmd_flush)                        \
  X(cmd_touch)                        \
  X(cmd_meta)                         \
  X(get_hits)                         \
  X(get_misses)                       \
  X(delete_misses)                    \
  X(delete_hits)                      \
  X(incr_misses)                      \
  X(incr_hits)                        \
  X(decr_misses)                      \
  X(decr_hits)                        \
  X(cas_misses)                       \
  X(cas_hits)                         \
  X(cas_badval)                       \
  X(touch_hits)                       \
  X(touch_misses)                     \
  X(store_too_large)                  \
  X(store_no_memory)                  \
  X(total_items)                      \
  X(idle_kicks)                       \
  X(bytes_read)                       \
  X(bytes_written)

enum class Counter : std::uint8_t {
#define PERDURE_COUNTER(name) name,
  PERDURE_MEMCACHED_COUNTERS(PERDURE_COUNTER)
#undef PERDURE_COUNTER
      kCount
};
inline constexpr std::size_t kCounters = static_cast<std::size_t>(Counter::kCount);
inline constexpr std::array<std::string_view, kCounters> kCounterNames = {
#define PERDURE_COUNTER(name) #name,
    PERDURE_MEMCACHED_COUNTERS(PERDURE_COUNTER)
#undef PERDURE_COUNTER
};

using CounterValues = std::array<std::uint64_t, kCounters>;

/// Threads: one adds, any read.
class Counters {
 public:
  void add(Counter counter, std::uint64_t count = 1) {
    auto& value = values_[static_cast<std::size_t>(counter)];
    value.store(value.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  /// Makes them what add_to() told before.
  void take_back_to(const CounterValues& before) {
    for (std::size_t i = 0; i < kCounters; ++i)
      values_[i].store(before[i], std::memory_order_relaxed);
  }
  void add_to(CounterValues& sums) const {
    for (std::size_t i = 0; i < kCounters; ++i)
      sums[i] += values_[i].load(std::memory_order_relaxed);
  }

 private:
  alignas(64) std::array<std::atomic<std::uint64_t>, kCounters> values_{};
};

}  // namespace perdure::memcached
