// SPDX-License-Identifier: BSD-3-Clause
// When epochs end with `--epoch auto`: as often as a part of the program's time pays for.
//
// What epochs cost, less what the time since has paid, is debt. An epoch is due when the time since the one before has
// paid the debt and what an epoch would cost now; and that is the more, the more pages were touched meanwhile. So a
// program that has just filled its memory gets its epoch later, and if it ends before, never pays for it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace perdure::run {

class Budget {
 public:
  static constexpr std::uint64_t kLeastPeriodNs = 5'000'000, kMostPeriodNs = 60'000'000'000;

  /// Of the program's time; 1 to 999,999.
  explicit constexpr Budget(std::uint64_t millionths) : millionths_(millionths) {}

  /// From the end of the epoch before, since which so many pages were touched.
  std::uint64_t period_ns(std::uint64_t pages) const {
    const std::uint64_t owed = debt_ns_ + few_pages_ns_ + pages * page_ns_;
    return std::clamp(owed * (kMillion - millionths_) / millionths_, kLeastPeriodNs, kMostPeriodNs);
  }

  /// An epoch has ended, or has failed to, `time_ns` after the one before.
  void spend(std::uint64_t cost_ns, std::uint64_t time_ns, std::uint64_t pages) {
    const std::uint64_t paid = earned(time_ns);
    debt_ns_ = debt_ns_ + cost_ns > paid ? debt_ns_ + cost_ns - paid : 0;
    // No more than the longest period pays.
    debt_ns_ = std::min(debt_ns_, earned(kMostPeriodNs));
    // The next is expected to be like this one and those before.
    if (pages < kFewPages) {
      few_pages_ns_ = (few_pages_ns_ + cost_ns) / 2;
    } else {
      const std::uint64_t rest = cost_ns > few_pages_ns_ ? cost_ns - few_pages_ns_ : 0;
      page_ns_ = (page_ns_ + rest / pages) / 2;
    }
  }

 private:
  static constexpr std::uint64_t kMillion = 1'000'000, kFewPages = 64;

  std::uint64_t earned(std::uint64_t time_ns) const {
    const std::uint64_t counted = std::min(time_ns, kMostPeriodNs);  // More would overflow.
    return counted / 1000 * millionths_ / (kMillion - millionths_) * 1000;
  }

  std::uint64_t millionths_;
  std::uint64_t debt_ns_ = 0;
  // A guess, until this machine's are known.
  std::uint64_t few_pages_ns_ = 1'000'000;
  std::uint64_t page_ns_ = 4'000;
};

}  // namespace perdure::run
