// SPDX-License-Identifier: BSD-3-Clause
// Real processes, really killed: the figures that the crash explorer cannot give.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

class TortureTest : public LabTest {
 protected:
  void survive(const std::string& pool, const std::string& kills,
               const std::vector<std::string>& more = {}, bool replays = true) {
    std::vector<std::string> command{"torture", pool, "--kills", kills, "--json"};
    command.insert(command.end(), more.begin(), more.end());
    const ToolRun ran = run(command);
    std::filesystem::remove(pool);
    ASSERT_EQ(ran.code, 0) << ran.err;
    const auto report = nlohmann::json::parse(ran.out);
    EXPECT_EQ(report["violations"], 0);
    EXPECT_EQ(report["kills"], std::stoi(kills));
    EXPECT_GT(report["kills_while_opening"], 0);
    if (replays) {
      EXPECT_GT(report["recoveries_with_replay"], 0);
    }
    std::printf(
        "%s: %s kills (%s while opening), %s recoveries with replay of %s records, %s "
        "transactions, 0 violations\n",
        report["domain"].get<std::string>().c_str(), report["kills"].dump().c_str(),
        report["kills_while_opening"].dump().c_str(),
        report["recoveries_with_replay"].dump().c_str(), report["records_replayed"].dump().c_str(),
        report["transactions_committed"].dump().c_str());
  }
};

std::string in_memory() {
  return "/dev/shm/perdure-torture-" + std::to_string(::getpid()) + ".pool";
}

TEST_F(TortureTest, NothingIsLostOrHalfDoneInMemory) { survive(in_memory(), "500"); }

TEST_F(TortureTest, NothingIsLostOrHalfDoneOnAFile) { survive(path("torture.pool"), "500"); }

TEST_F(TortureTest, NothingIsLostWheneverLogsAreTruncated) {
  // On memory a record that its own commit drops is there for microseconds: few kills meet one.
  survive(in_memory(), "120", {"--truncation", "each-commit"}, false);
  for (const char* truncation : {"when-full", "background"})
    survive(in_memory(), "120", {"--truncation", truncation});
}

TEST_F(TortureTest, NothingIsLostThatWasExecutedInLog) {
  for (const char* truncation : {"each-commit", "next-commit", "when-full", "background"})
    survive(in_memory(), "80", {"--engine", "blurred", "--truncation", truncation});
  survive(path("torture.pool"), "80", {"--engine", "blurred"});
}

TEST_F(TortureTest, NothingIsLostWhenTheModeChanges) {
  survive(in_memory(), "120", {"--engine", "adaptive", "--truncation", "when-full"});
  survive(in_memory(), "200", {"--change"});
  survive(path("torture.pool"), "200", {"--change"});
}

TEST_F(TortureTest, CountsThatAreNoneAreRefused) {
  const std::string pool = path("none.pool");
  EXPECT_EQ(run({"torture", pool, "--kills", "-1"}).code, 2);
  EXPECT_EQ(run({"torture", pool, "--slots", "1", "--threads", "4"}).code, 2);
  EXPECT_FALSE(std::filesystem::exists(pool));
}

// The test of the test: an engine that is not atomic under a kill must be found out.
TEST_F(TortureTest, AnEngineWithoutALogIsFoundOut) {
  const std::string pool =
      "/dev/shm/perdure-torture-nonatomic-" + std::to_string(::getpid()) + ".pool";
  const ToolRun ran = run({"torture", pool, "--kills", "5000", "--engine", "nonatomic", "--json"});
  std::filesystem::remove(pool);
  EXPECT_EQ(ran.code, 1) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("violation"), std::string::npos);
}

}  // namespace
}  // namespace perdure
