// SPDX-License-Identifier: BSD-3-Clause
// The suite itself; what it finds is printed and judged by `perdure-lab explore --all`.
#include "sim/crash/suite.h"

#include <set>

#include <gtest/gtest.h>

#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

TEST(Suite, AScenarioSurvivesAndItsCanariesAreCaught) {
  SuiteOptions options;
  options.only = {"word"};
  std::size_t finished = 0;
  const SuiteReport report = run_suite(registry(), options, [&](const Progress& now) {
    EXPECT_EQ(now.finished, ++finished);
    EXPECT_LE(now.finished, now.planned);
  });
  EXPECT_TRUE(report.total.violations.empty());
  EXPECT_EQ(report.reports.size(), 3u) << "memory, eadr and file";
  EXPECT_GT(report.total.nested_images, report.total.images);
  for (const CanaryResult& canary : report.canaries) {
    const bool every_scenario_notices =
        canary.site == "kLogCommit" || canary.site == "kReplayFence";
    EXPECT_TRUE(canary.caught || !every_scenario_notices) << canary.site;
  }
  EXPECT_FALSE(report.unused_sites.empty()) << "one scenario does not grow the pool";
}

TEST(Suite, ScenariosHaveUniqueNamesAndAClaim) {
  std::set<std::string> names;
  for (const Subject& subject : registry()) {
    EXPECT_TRUE(names.insert(subject.name).second) << subject.name;
    EXPECT_FALSE(subject.claim.empty()) << subject.name;
    EXPECT_EQ(subject.name.find_first_of("/!@>"), std::string::npos) << subject.name;
  }
}

}  // namespace
}  // namespace perdure::crash
