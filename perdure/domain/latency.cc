// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/latency.h"

#include <chrono>

namespace perdure {
namespace {

double calibrate() {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  // The best of several: an interruption only makes a round look as if ticks were slow to come by.
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    const std::uint64_t from = TscClock::now();
    while (Clock::now() - start < std::chrono::milliseconds(2)) {
    }
    const std::uint64_t to = TscClock::now();
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::max(best, static_cast<double>(to - from) / ns);
  }
  return best;
}

}  // namespace

double TscClock::ticks_per_ns() {
  static const double ticks = calibrate();
  return ticks;
}

double TscClock::spin_error_ns(double ns) {
  constexpr int kRounds = 1000;
  const double ticks = ticks_per_ns();
  const auto wanted = static_cast<std::uint64_t>(ns * ticks);
  std::uint64_t over = 0;
  for (int i = 0; i < kRounds; ++i) {
    const std::uint64_t end = now() + wanted;
    spin_until(end);
    over += now() - end;
  }
  return static_cast<double>(over) / kRounds / ticks;
}

}  // namespace perdure
