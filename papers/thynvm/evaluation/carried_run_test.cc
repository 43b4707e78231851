// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/evaluation/carried_run.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/system.h"
#include "papers/thynvm/evaluation/runtime.h"
#include "perdure/error.h"

namespace perdure::bench::thynvm {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

class CarriedRun : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  CarriedProgram shell(const std::string& words) const {
    return {.name = "a shell", .command = {"/bin/sh", "-c", words}};
  }
  const ScratchDirectory directory_{::testing::TempDir(), "carried"};
};

TEST_F(CarriedRun, OnlyAProgramUnderEpochsHasMoreThanItsOwnWords) {
  const CarriedProgram program{.name = "p", .command = {"/bin/p", "a"}};
  EXPECT_THAT(command_line(program, {"plain", {}}, "/d"), ElementsAre("/bin/p", "a"));
  EXPECT_THAT(command_line(program, {"block", {"--epoch", "10ms"}}, "/d"),
              ElementsAre(EndsWith("/perdure"), "run", "--state", "/d/state", "--stats",
                          "/d/statistics.json", "--epoch", "10ms", "--", "/bin/p", "a"));
}

TEST_F(CarriedRun, TimeOfAPlainProgramIsItsOwn) {
  const Ran ran = run_carried(shell("sleep 0.1; echo said; i=0; while [ $i -lt 20000 ]; do "
                                    "i=$((i+1)); done"),
                              {"plain", {}}, directory_.path());
  EXPECT_GE(ran.wall_s, 0.1);
  EXPECT_GT(ran.cpu_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(CarriedRun, AFailureNamesTheProgramTheModeAndWhatItSaid) {
  const std::string told = message_of(
      [&] { run_carried(shell("echo lost >&2; exit 3"), {"plain", {}}, directory_.path()); });
  for (const char* part : {"a shell", "plain", "ended with 3", "lost"})
    EXPECT_THAT(told, HasSubstr(part));
}

TEST_F(CarriedRun, StatisticsAreReadOrRefusedByName) {
  std::ofstream(path("s.json")) << R"({"epochs": 4, "late": 1, "tracked": true,
    "first_write_ns": 600, "written_pages": 10, "whole_pages": 2, "blocks": 3, "log_bytes": 9000,
    "home_bytes": 5, "pause_p50_ns": 1000000, "pause_p99_ns": 2000000, "pause_max_ns": 3000000,
    "pause_total_ns": 4000000})";
  const RunStatistics told = read_statistics(path("s.json"));
  EXPECT_EQ(told.epochs, 4);
  EXPECT_EQ(told.pause_p99_ms, 2);
  EXPECT_EQ(told.changed_bytes(), 2 * 4096 + 3 * 64);
  std::ofstream(path("s.json")) << R"({"epochs": 4})";
  EXPECT_THAT(message_of([&] { read_statistics(path("s.json")); }), HasSubstr("s.json"));
  EXPECT_THAT(message_of([&] { read_statistics(path("none")); }), HasSubstr("none"));
}

TEST(RuntimeGoals, AGoalIsToldAsOne) {
  reproduce::Section section;
  judge_goal(section, "quick", reproduce::number(3, "x", "", ""), 2, "why");
  judge_goal(section, "quick", reproduce::number(1, "x", "", ""), 2, "why");
  EXPECT_TRUE(section.judgements[0].goal);
  EXPECT_TRUE(section.judgements[0].why.ends_with(" why")) << section.judgements[0].why;
  EXPECT_EQ(section.judgements[1].why, "");
}

}  // namespace
}  // namespace perdure::bench::thynvm
