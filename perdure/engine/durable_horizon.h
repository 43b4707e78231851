// SPDX-License-Identifier: BSD-3-Clause
// DurableHorizon: how far the commits that others see are durable. On files a strict commit becomes
// visible when its record is in the ordered log, and its thread then waits for the device. Whoever
// has seen more than the device has waits as well before it returns anything:
//   1. a transaction that updates needs no rule: its own record stands behind what it has seen
//   2. one that only read remembers the newest version that it met beyond the horizon, and waits
//   3. what a relaxed commit wrote is waited for by nobody, unless a strict one came after it
// Source: early lock release; controlled lock violation (SIGMOD 2013).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "perdure/base/words.h"

namespace perdure {

class DurableHorizon {
 public:
  /// `durable`: all commits up to this timestamp are (a domain's durable_mark()).
  explicit DurableHorizon(const std::atomic<std::uint64_t>& durable) : durable_(&durable) {}

  /// What was committed up to this can be returned at once.
  std::uint64_t durable() const { return durable_->load(std::memory_order_acquire); }
  /// For which timestamp a transaction that has seen a version has to wait.
  std::uint64_t wait_target(std::uint64_t seen) const {
    return std::min(seen, last_strict_.load(std::memory_order_acquire));
  }
  /// Called by a strict commit between the post of its record and the release of its locks.
  /// Requires: timestamps grow from call to call.
  void strict_commit(std::uint64_t timestamp) {
    // Release is enough: whoever meets the commit's version has acquired its ownership record.
    last_strict_.store(timestamp, std::memory_order_release);
  }

 private:
  const std::atomic<std::uint64_t>* durable_;
  alignas(kLineBytes) std::atomic<std::uint64_t> last_strict_{0};
};

}  // namespace perdure
