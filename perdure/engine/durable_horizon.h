// SPDX-License-Identifier: BSD-3-Clause
// DurableHorizon: how far the commits that others see are durable. On files a strict commit becomes
// visible when its record is in the ordered log, and its thread then waits for the device. Whoever
// has seen more than the device has waits as well before it returns anything:
//   1. a transaction that updates needs no rule: its own record stands behind what it has seen
//   2. one that only read remembers the newest version that it met beyond the horizon, and waits
//   3. what a relaxed commit wrote is waited for by nobody, unless a strict one came after it
// Source: early lock release; controlled lock violation (SIGMOD 2013).
// Threads: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "perdure/base/shared.h"
#include "perdure/base/words.h"

namespace perdure {

class DurableHorizon {
 public:
  /// `durable`: all commits up to this timestamp are (a domain's durable_mark()).
  explicit DurableHorizon(const Shared<std::uint64_t>& durable) : durable_(&durable) {}

  /// What was committed up to this can be returned at once.
  std::uint64_t durable() const { return durable_->load(std::memory_order_acquire); }
  /// For which timestamp a transaction that has seen a version has to wait.
  std::uint64_t wait_target(std::uint64_t seen) const {
    return std::min(seen, last_strict_.load(std::memory_order_acquire));
  }
  /// Called by a strict commit between the post of its record and the release of its locks. A later
  /// commit may come first, as the log latch is released by then: what it said stays.
  void strict_commit(std::uint64_t timestamp) {
    std::uint64_t last = last_strict_.load(std::memory_order_relaxed);
    // Release is enough: whoever meets the commit's version has acquired its ownership record.
    while (last < timestamp &&
           !last_strict_.compare_exchange_weak(last, timestamp, std::memory_order_release,
                                               std::memory_order_relaxed)) {
    }
  }

 private:
  const Shared<std::uint64_t>* durable_;
  alignas(kLineBytes) Shared<std::uint64_t> last_strict_{0};
};

}  // namespace perdure
