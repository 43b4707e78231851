// SPDX-License-Identifier: BSD-3-Clause
// For tests of measured shapes: who is quicker, by medians, on a machine that others use.
#pragma once

#include <functional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace perdure::bench {

/// `ratio` measures, and returns the median of what should be the larger over that of the smaller. It may be measured three
/// times: others' noise passes, a shape that is gone stays gone.
inline ::testing::AssertionResult larger(const std::function<double()>& ratio) {
  std::string tried;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double found = ratio();
    if (found > 1) return ::testing::AssertionSuccess();
    tried += fmt::format(" {:.2f}", found);
  }
  return ::testing::AssertionFailure() << "its ratio was" << tried;
}

}  // namespace perdure::bench
