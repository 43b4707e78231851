// SPDX-License-Identifier: BSD-3-Clause
// The crash explorer over every scenario with few images, in a time that each test run has: what `./do explore` does at length, and
// again with every flush and fence left out in turn.
#include <iostream>

#include <gtest/gtest.h>

#include "papers/scenarios.h"
#include "sim/crash/suite.h"

namespace perdure::papers {
namespace {

TEST(EveryScenario, IsSound) {
  crash::SuiteOptions options;
  options.explore.full_limit = 8;
  options.explore.samples = 2;
  options.explore.nested_full_limit = 4;
  options.explore.nested_samples = 1;
  options.explore.most_points = 48;
  options.explore.nested_most_points = 4;
  options.explore.nest_every = ~std::uint64_t{0};
  options.explore.kill_every = ~std::uint64_t{0};
  options.canaries = false;
  const crash::SuiteReport report = crash::run_suite(scenarios(), options);
  for (const crash::Violation& violation : report.total.violations)
    ADD_FAILURE() << violation.what << "\n  perdure-lab explore --replay '" << violation.replay
                  << "'";
  EXPECT_GT(report.reports.size(), 300u);
  std::cout << report.reports.size() << " scenarios, " << report.total.images << " images, "
            << report.total.nested_images << " of recoveries that were cut, " << report.seconds
            << " s\n";
}

}  // namespace
}  // namespace perdure::papers
