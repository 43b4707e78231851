// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab explore` for people and programs. What it finds over all scenarios is a stage of its
// own: ./do explore.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using ExploreTest = LabTest;

TEST_F(ExploreTest, ScenariosAreExploredOnEveryModel) {
  const ToolRun explored = run({"explore", "word", "lines", "--json"});
  ASSERT_EQ(explored.code, 0) << explored.out << explored.err;
  const auto report = nlohmann::json::parse(explored.out);
  EXPECT_EQ(report["scenarios"].size(), 6u) << "two scenarios on memory, eadr and a file";
  EXPECT_GT(report["images_of_cut_recoveries"], 10'000);
  EXPECT_TRUE(report["violations"].empty());
}

TEST_F(ExploreTest, SameSeedSameImages) {
  const auto images = [&](const std::string& seed) {
    return nlohmann::json::parse(
        run({"explore", "run", "--seed", seed, "--json"}).out)["images_of_cut_recoveries"];
  };
  EXPECT_EQ(images("7"), images("7"));
}

TEST_F(ExploreTest, ScenariosAreListed) {
  const auto scenarios = nlohmann::json::parse(run({"explore", "--list", "--json"}).out)["scenarios"];
  EXPECT_GT(scenarios.size(), 10u);
  EXPECT_FALSE(scenarios[0]["claim"].get<std::string>().empty());
}

TEST_F(ExploreTest, WrongUsageIsRefused) {
  EXPECT_EQ(run({"explore"}).code, 2);
  EXPECT_NE(run({"explore", "--replay", "no such text"}).code, 0);
}

TEST_F(ExploreTest, AnUnknownScenarioIsNamed) {
  const ToolRun refused = run({"explore", "no-such"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("no-such"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--list"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace perdure
