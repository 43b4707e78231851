// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/durable_horizon.h"

#include <gtest/gtest.h>

namespace perdure {
namespace {

TEST(DurableHorizon, WhatRelaxedCommitsWroteIsNotWaitedFor) {
  const std::atomic<std::uint64_t> durable{3};
  DurableHorizon horizon(durable);
  EXPECT_EQ(horizon.durable(), 3u);
  horizon.strict_commit(5);
  EXPECT_EQ(horizon.wait_target(4), 4u);  // by whomever: a strict one stands behind it
  EXPECT_EQ(horizon.wait_target(5), 5u);
  EXPECT_EQ(horizon.wait_target(9), 5u);
}

TEST(DurableHorizon, ACommitThatSpeaksLateTakesNothingBack) {
  const std::atomic<std::uint64_t> durable{3};
  DurableHorizon horizon(durable);
  horizon.strict_commit(6);
  horizon.strict_commit(5);
  EXPECT_EQ(horizon.wait_target(6), 6u);
}

}  // namespace
}  // namespace perdure
