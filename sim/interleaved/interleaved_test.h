// SPDX-License-Identifier: BSD-3-Clause
// What the tests in every order of threads have in common.
#pragma once

#include <functional>

#include <gtest/gtest.h>

#include "sim/interleaved/world.h"

namespace perdure::interleaved {

using interleave::Limits;
using interleave::Report;

class Interleaved : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!interleave::kPossible) GTEST_SKIP() << "sanitizers do not follow fibers";
  }
};

inline void expect_sound(const Report& report) {
  EXPECT_EQ(report.violation, "") << "in schedule " << report.schedules;
  EXPECT_TRUE(report.complete) << report.schedules;
}

/// Without the access the scenario fails.
inline void expect_noticed(const Fault& fault, const std::function<Report()>& scenario) {
  const WithFault with(fault);
  const Report report = scenario();
  EXPECT_NE(report.violation, "") << "nobody misses it in " << fault.function << ", "
                                  << report.schedules << " schedules";
  EXPECT_GT(with.met(), 0u) << "there is no such access any more in " << fault.function
                            << "; name the one that took its place";
}

}  // namespace perdure::interleaved
