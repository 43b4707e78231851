// The proof of the house: every scenario explored, every canary caught. Prints the figures.
#include "sim/crash/suite.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

TEST(Suite, EveryScenarioSurvivesAndEveryCanaryIsCaught) {
  const SuiteReport report = run_suite({});
  for (const Violation& violation : report.total.violations) {
    ADD_FAILURE() << violation.what << "\n  replay: " << violation.replay;
  }
  for (const CanaryResult& canary : report.canaries) {
    EXPECT_TRUE(canary.caught || !canary.harmless.empty())
        << canary.site << " (" << canary.omitted << ", " << canary.model << ") can be left out unnoticed, although "
        << canary.without;
  }
  const std::uint64_t images = report.total.images + report.total.nested_images;
  EXPECT_GE(images, 1'000'000u);
  EXPECT_EQ(report.canaries_caught(), report.canaries_counted());

  std::printf("%-20s %-7s %8s %8s %10s %8s\n", "scenario", "model", "moments", "images", "nested", "kills");
  for (const Report& row : report.reports) {
    std::printf("%-20s %-7s %8lu %8lu %10lu %8lu\n", row.scenario.c_str(), row.model.c_str(), row.crash_points,
                row.images, row.nested_images, row.kills);
  }
  std::printf("%-16s %-5s %-7s %s\n", "left out", "which", "model", "caught by");
  for (const CanaryResult& canary : report.canaries) {
    std::printf("%-16s %-5s %-7s %s\n", canary.site.c_str(), canary.omitted.c_str(), canary.model.c_str(),
                canary.caught ? canary.scenario.c_str() : "nothing");
  }
  for (const std::string& site : report.unused_sites) std::printf("never executed: %s\n", site.c_str());
  std::printf(
      "scenarios: %zu, crash images: %lu (of %lu moments, %lu enumerated in full), images of cut recoveries: %lu, kills "
      "recovered and cut: %lu, canaries caught: %zu of %zu, %.0f s\n",
      registry().size(), report.total.images, report.total.crash_points, report.total.exhaustive_points,
      report.total.nested_images, report.total.kills, report.canaries_caught(), report.canaries_counted(),
      report.seconds);
}

/// A process dies while it recovers, the next one recovers too, and then the power fails: what the first had cleared
/// was in caches only.
TEST(Suite, ThreeCutsInARow) {
  SuiteOptions options;
  options.only = {"turns", "word"};
  options.canaries = false;
  options.explore.depth = 3;
  const SuiteReport report = run_suite(options);
  for (const Violation& violation : report.total.violations) {
    ADD_FAILURE() << violation.what << "\n  replay: " << violation.replay;
  }
  EXPECT_GT(report.total.kills, 1000u);
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
