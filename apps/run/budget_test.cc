// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/runtime/budget.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace perdure::run {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kFivePercent = 50'000;

/// What the epochs of a program cost in `time_ns`: `touched` tells what it touches in some time, `cost` what an epoch of so
/// many pages costs.
template <class Touched, class Cost>
std::uint64_t cost_of(Budget budget, std::uint64_t time_ns, Touched touched, Cost cost) {
  std::uint64_t spent = 0;
  for (std::uint64_t now = 0, last = 0; now < time_ns; now += kMs) {
    const std::uint64_t pages = touched(now - last);
    if (now - last < budget.period_ns(pages)) continue;
    const std::uint64_t of_this = cost(pages);
    budget.spend(of_this, now - last, pages);
    spent += of_this;
    last = now;
  }
  return spent;
}

TEST(Budget, IsKeptByEpochsThatAreAlike) {
  const std::uint64_t time = 100'000 * kMs;
  for (const std::uint64_t cost : {kMs / 10, kMs, 10 * kMs, 100 * kMs}) {
    const auto spent = static_cast<double>(
        cost_of(Budget(kFivePercent), time, [](auto) { return 10; }, [&](auto) { return cost; }));
    // A twentieth of all is a nineteenth of the rest; and the first epochs are not expected to cost so much.
    EXPECT_LE(spent, static_cast<double>(time) / 19 + 2 * static_cast<double>(cost)) << cost;
    // Short of the least period, an epoch of 0.1 ms cannot cost more.
    EXPECT_GE(spent, (cost < kMs ? 0.01 : 0.04) * static_cast<double>(time)) << cost;
  }
}

TEST(Budget, IsKeptThoughEpochsCostMoreThanExpected) {
  const std::uint64_t time = 300'000 * kMs;
  std::uint64_t number = 0;
  const auto spent = static_cast<double>(cost_of(
      Budget(kFivePercent), time, [](auto) { return 10; },
      [&](auto) { return ++number % 7 == 0 ? 200 * kMs : kMs; }));
  EXPECT_LE(spent, static_cast<double>(time) / 19 + static_cast<double>(400 * kMs));
  // After a costly one more of them are expected: less than the budget is spent.
  EXPECT_GE(spent, 0.02 * static_cast<double>(time));
}

TEST(Budget, IsKeptByAProgramThatTouchesMuch) {
  const std::uint64_t time = 300'000 * kMs;
  for (const std::uint64_t most : {1'000u, 20'000u}) {  // pages, of which it touches 100 in a ms
    const auto spent = static_cast<double>(cost_of(
        Budget(kFivePercent), time,
        [&](std::uint64_t ns) { return std::min(most, ns / kMs * 100); },
        [](std::uint64_t pages) { return kMs + pages * 5'000; }));
    EXPECT_LE(spent, static_cast<double>(time) / 19 + static_cast<double>(most * 5'000)) << most;
    EXPECT_GE(spent, 0.03 * static_cast<double>(time)) << most;
  }
}

TEST(Budget, AProgramThatFillsItsMemoryGetsItsEpochWhenItHasPaid) {
  const Budget budget(kFivePercent);
  EXPECT_LT(budget.period_ns(100), 40 * kMs);
  EXPECT_GT(budget.period_ns(65'536), 4'000 * kMs);
  EXPECT_EQ(budget.period_ns(std::uint64_t{1} << 30), Budget::kMostPeriodNs);
}

TEST(Budget, LearnsWhatAPageCosts) {
  Budget budget(kFivePercent);
  const std::uint64_t before = budget.period_ns(10'000);
  for (int i = 0; i < 20; ++i) budget.spend(10 * kMs, 10'000 * kMs, 10'000);  // 1 us a page
  EXPECT_LT(budget.period_ns(10'000), before / 2);
  for (int i = 0; i < 20; ++i) budget.spend(200 * kMs, 10'000 * kMs, 10'000);
  EXPECT_GT(budget.period_ns(10'000), 2 * before);
}

TEST(Budget, WhatAnEpochCostMoreThanExpectedIsPaidFirst) {
  Budget budget(kFivePercent);
  budget.spend(200 * kMs, kMs, 10);
  EXPECT_GT(budget.period_ns(10), 19 * 199 * kMs);
}

TEST(Budget, DebtEnds) {
  Budget budget(kFivePercent);
  budget.spend(1'000'000'000'000, kMs, 10);  // a quarter of an hour
  for (int i = 0; i < 60; ++i) budget.spend(kMs, Budget::kMostPeriodNs, 10);
  EXPECT_LT(budget.period_ns(10), 100 * kMs);
}

TEST(Budget, MayBeAnyPart) {
  for (const std::uint64_t millionths : {1'000u, 900'000u}) {
    Budget budget(millionths);
    budget.spend(kMs, 100'000 * kMs, 10);
    EXPECT_GE(budget.period_ns(0), Budget::kLeastPeriodNs);
    EXPECT_LE(budget.period_ns(0), 1'100 * kMs);
  }
}

}  // namespace
}  // namespace perdure::run
