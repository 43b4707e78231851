// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench memcached --quick`: every system and row is there, in a form that programs may rely on.
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

class MemcachedBenchToolTest : public LabTest {
 protected:
  ToolRun bench(std::vector<std::string> arguments) const {
    const std::vector<std::string> first{"bench",     "memcached",        "--quick",
                                         "--offline", "--tmpfs",          directory_.string(),
                                         "--disk",    directory_.string()};
    arguments.insert(arguments.begin(), first.begin(), first.end());
    return run(arguments);
  }
};

TEST_F(MemcachedBenchToolTest, EverySystemHasARate) {
  const ToolRun ran = bench({"--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto report = nlohmann::json::parse(ran.out);
  ASSERT_GE(report.at("systems").size(), 4u) << "ours, with and without a disk";
  ASSERT_EQ(report.at("rows").size(), 3u);
  for (const auto& row : report.at("rows")) {
    ASSERT_EQ(row.at("systems").size(), report.at("systems").size());
    for (const auto& system : row.at("systems")) {
      EXPECT_GT(system.at("per_second").get<double>(), 100) << row.at("mix") << system.at("name");
      EXPECT_GT(system.at("server_cpu_us").get<double>(), 0);
      EXPECT_GE(system.at("p99_us"), system.at("median_us"));
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    EXPECT_EQ(entry.path().filename().string().find("perdure-bench"), std::string::npos)
        << entry.path();
}

TEST_F(MemcachedBenchToolTest, TheTableNamesWhatAcknowledgementsSurvive) {
  const ToolRun ran = bench({"--only", "perdure dram", "--mixes", "get", "--tcp"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("the end of the process"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("TCP over loopback"), std::string::npos);
}

TEST_F(MemcachedBenchToolTest, WhatIsNotKnownIsRefused) {
  EXPECT_EQ(bench({"--only", "nothing"}).code, 2);
  EXPECT_EQ(bench({"--mixes", "nothing"}).code, 2);
}

}  // namespace
}  // namespace perdure
