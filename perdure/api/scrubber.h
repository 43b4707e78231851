// SPDX-License-Identifier: BSD-3-Clause
// Scrubber: compares a pool's pages with their checksums now and then, in the background, while the
// program has it open.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "perdure/engine/worker.h"
#include "perdure/region/region.h"

namespace perdure {

class DeviceReader;

class Scrubber {
 public:
  /// Begins a look every `interval`, which takes half of that, or as long as the device needs.
  /// Errors: kIo; std::system_error.
  static Result<std::unique_ptr<Scrubber>> start(const Region& region,
                                                 std::chrono::milliseconds interval);
  /// Waits for a read that is under way.
  ~Scrubber();
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  /// What the last look that found anything has found; empty: nothing was found yet. Threads: any.
  std::string damage() const;
  /// How many looks have ended. Threads: any.
  std::uint64_t looks() const { return looks_.load(std::memory_order_acquire); }

 private:
  Scrubber(const Region& region, DeviceReader device, std::chrono::milliseconds interval);
  void look();
  void wait(std::chrono::nanoseconds time) const;

  const Region* region_;
  std::unique_ptr<DeviceReader> device_;
  const std::chrono::milliseconds interval_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> looks_{0};
  mutable std::mutex mutex_;
  std::string damage_;
  Worker worker_;  // last: it uses all of the above
};

}  // namespace perdure
