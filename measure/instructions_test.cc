// SPDX-License-Identifier: BSD-3-Clause
#include "measure/instructions.h"

#include <gtest/gtest.h>

namespace perdure::bench {
namespace {

TEST(InstructionCounter, CountsOrSaysThatItCannot) {
  InstructionCounter counter;
  const auto spin = [](std::uint64_t times) {
    return [times] {
      for (std::uint64_t i = 0; i < times; ++i) asm volatile("" : : : "memory");
    };
  };
  const auto few = counter.count(spin(1'000));
  const auto many = counter.count(spin(1'000'000));
  ASSERT_EQ(few.has_value(), many.has_value());
  if (!few) GTEST_SKIP() << "this processor has no counter that may be asked";
  EXPECT_GE(*few, 1'000u);
  EXPECT_GT(*many, 100 * *few);
}

}  // namespace
}  // namespace perdure::bench
