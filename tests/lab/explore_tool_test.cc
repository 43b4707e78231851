// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab explore` for people and programs. What it finds over all scenarios is a stage of its
// own: ./do crash.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using ExploreTest = ToolTest;

TEST_F(ExploreTest, ScenariosAreExploredOnMemoryAndFile) {
  const ToolRun explored = run({"explore", "word", "lines", "--json"});
  ASSERT_EQ(explored.code, 0) << explored.out << explored.err;
  const auto report = nlohmann::json::parse(explored.out);
  EXPECT_EQ(report["scenarios"].size(), 4u);
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

TEST_F(ExploreTest, AnUnknownScenarioIsNamed) {
  const ToolRun refused = run({"explore", "no-such"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("no-such"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("--list"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace perdure
