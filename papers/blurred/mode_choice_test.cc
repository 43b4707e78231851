// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/mode_choice.h"

#include <gtest/gtest.h>

namespace perdure::blurred {
namespace {

using Mode = ModeChoice::Mode;

constexpr ChoiceRules kRules = {.round = 10, .warm_up = 6, .settled = 100};

/// A thread whose transactions take so long in either mode.
struct Thread {
  std::uint64_t in_log_ns = 100;
  std::uint64_t buffered_ns = 100;
  ModeChoice choice{kRules};
  std::uint64_t clock = 1;
  std::uint64_t looks = 0;

  Mode run(std::uint64_t transactions) {
    for (; transactions > 0; --transactions) {
      clock += choice.mode() == Mode::kInLog ? in_log_ns : buffered_ns;
      choice.next([&] {
        ++looks;
        return clock;
      });
    }
    return choice.mode();
  }
  void warm_up() { run(kRules.round * (kRules.warm_up + 1)); }
};

TEST(ModeChoice, TakesTheQuickerModeAfterTheWarmUp) {
  Thread a{.in_log_ns = 100, .buffered_ns = 150};
  a.warm_up();
  EXPECT_FALSE(a.choice.warming_up());
  EXPECT_EQ(a.choice.mode(), Mode::kInLog);
  Thread b{.in_log_ns = 150, .buffered_ns = 100};
  b.warm_up();
  EXPECT_FALSE(b.choice.warming_up());
  EXPECT_EQ(b.choice.mode(), Mode::kBuffered);
}

TEST(ModeChoice, TriesBothModesByTurns) {
  Thread thread;
  thread.run(kRules.round);  // until the first look at the clock
  for (std::uint64_t round = 0; round < kRules.warm_up; ++round) {
    ASSERT_TRUE(thread.choice.warming_up());
    EXPECT_EQ(thread.choice.mode(), round % 2 == 0 ? Mode::kInLog : Mode::kBuffered);
    thread.run(kRules.round);
  }
  EXPECT_FALSE(thread.choice.warming_up());
}

TEST(ModeChoice, OneDisturbedRoundDecidesNothing) {
  Thread thread{.in_log_ns = 100, .buffered_ns = 150};
  thread.run(kRules.round);
  thread.run(kRules.round / 2);
  thread.clock += 1'000'000;  // somebody else had the CPU
  thread.run(kRules.round / 2);
  thread.run(kRules.round * (kRules.warm_up - 1));
  EXPECT_FALSE(thread.choice.warming_up());
  EXPECT_EQ(thread.choice.mode(), Mode::kInLog);
  thread.clock += 1'000'000;
  thread.run(kRules.round);
  EXPECT_FALSE(thread.choice.warming_up());
}

TEST(ModeChoice, ChoosesAgainWhenTheWorkloadHasChanged) {
  Thread thread{.in_log_ns = 100, .buffered_ns = 150};
  thread.warm_up();
  thread.run(kRules.round * 20);
  ASSERT_FALSE(thread.choice.warming_up());
  thread.in_log_ns = 400;
  thread.run(kRules.round * 12);  // the end of a window
  EXPECT_TRUE(thread.choice.warming_up());
  thread.run(kRules.round * kRules.warm_up);
  EXPECT_EQ(thread.choice.mode(), Mode::kBuffered);
}

TEST(ModeChoice, WhatOnlyTheWarmUpCostsIsNoChange) {
  Thread thread{.in_log_ns = 200, .buffered_ns = 250};
  thread.warm_up();
  thread.in_log_ns = 100;
  thread.run(kRules.round * (kRules.settled - 1));
  EXPECT_FALSE(thread.choice.warming_up());
}

TEST(ModeChoice, ChoosesAgainAfterAWhileInAnyCase) {
  Thread thread{.in_log_ns = 100, .buffered_ns = 150};
  thread.warm_up();
  thread.run(kRules.round * (kRules.settled - 1));
  EXPECT_FALSE(thread.choice.warming_up());
  thread.run(kRules.round);
  EXPECT_TRUE(thread.choice.warming_up());
}

TEST(ModeChoice, LooksAtTheClockOncePerRound) {
  Thread thread;
  thread.run(1000 * kRules.round);
  EXPECT_EQ(thread.looks, 1000u);
}

}  // namespace
}  // namespace perdure::blurred
