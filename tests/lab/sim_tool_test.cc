// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab sim` and `perdure-lab sim prove`: reports as programs may rely on, and what is refused.
#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using nlohmann::json;

class SimToolTest : public LabTest {
 protected:
  json simulate(std::vector<std::string> arguments, int code = 0) {
    arguments.insert(arguments.begin(), "sim");
    arguments.insert(std::find(arguments.begin(), arguments.end(), "--"), "--json");
    const ToolRun done = run(arguments);
    EXPECT_EQ(done.code, code) << done.err;
    return done.code == code ? json::parse(done.out) : json();
  }
};

TEST_F(SimToolTest, AProgramRunsOnEverySystem) {
  const json report =
      simulate({"--systems", "dram,nvm,journal,shadow,thynvm,thynvm-blocks,thynvm-pages", "--",
                "ls", "--all", "/"});
  EXPECT_GT(report.at("instructions").get<std::uint64_t>(), 100'000U);
  ASSERT_EQ(report.at("times").size(), 7U);
  EXPECT_EQ(report.at("times")[0].at("of_the_first"), "1.000");
  // Nothing is written to NVM but what somebody is charged for.
  const json strict =
      simulate({"--model", "strict", "--systems", "nvm,journal,shadow,thynvm", "--", "ls", "/"});
  for (const json& row : strict.at("nvm_and_dram"))
    EXPECT_EQ(row.at("to_nvm_bytes"), row.at("accepted_by_nvm_bytes")) << row.at("system");
}

TEST_F(SimToolTest, IsTheSameEachTime) {
  const std::vector<std::string> words = {"hash", "--value", "64",    "--operations",
                                          "300",  "--model", "strict"};
  json first = simulate(words), second = simulate(words);
  for (json* report : {&first, &second}) {
    report->erase("took_ns");
    report->erase("simulated_instructions_per_s");
  }
  EXPECT_EQ(first, second);
  EXPECT_GT(first.at("times")[0].at("operations_per_s").get<double>(), 0);
}

TEST_F(SimToolTest, RecordedTracesGiveTheSameResults) {
  json direct = simulate({"--record", path("run.trace"), "--systems", "thynvm", "--", "ls", "/"});
  json replayed = simulate({"--trace", path("run.trace"), "--systems", "thynvm"});
  EXPECT_EQ(direct.at("times"), replayed.at("times"));
  EXPECT_EQ(direct.at("nvm_and_dram"), replayed.at("nvm_and_dram"));

  std::ofstream(path("torn.trace"), std::ios::binary) << read(path("run.trace")).substr(0, 1000);
  const ToolRun torn = run({"sim", "--trace", path("torn.trace")});
  EXPECT_EQ(torn.code, 3);
  EXPECT_NE(torn.err.find("torn.trace"), std::string::npos) << torn.err;
}

TEST_F(SimToolTest, PowerCutsOfAProgramAreRecovered) {
  for (const char* model : {"paper-code", "strict"}) {
    const json report =
        simulate({"--cuts", "40", "--epoch", "0.1", "--blocks", "256", "--systems",
                  "journal,shadow,thynvm", "--model", model, "--", "ls", "-lR", "/usr/lib/gcc"});
    ASSERT_EQ(report.at("power_cuts").size(), 3U);
    for (const json& row : report.at("power_cuts")) {
      EXPECT_GE(row.at("cuts").get<int>(), 20) << row.at("system");
      EXPECT_GT(row.at("an_epoch_came_back").get<int>(), 5) << row.at("system");
      EXPECT_EQ(row.at("violations"), 0) << report.at("violations");
    }
    EXPECT_GT(report.at("power_cuts")[2].at("in_running_checkpoints").get<int>(), 0);
  }
}

TEST_F(SimToolTest, TheProofTellsItsFigures) {
  const json report = simulate({"prove"});
  for (const json& proof : report.at("proofs")) {
    EXPECT_EQ(proof.at("violation"), "none");
    EXPECT_EQ(proof.at("complete"), true);
    EXPECT_GT(proof.at("states").get<std::uint64_t>(), 1000U);
  }
  EXPECT_EQ(report.at("mutants").size(), 27U);
  for (const json& mutant : report.at("mutants")) EXPECT_EQ(mutant.at("noticed"), true) << mutant;

  const json story = simulate({"prove", "--story", "reuse-given-up-slots"});
  ASSERT_GT(story.at("story").size(), 5U);
  EXPECT_EQ(story.at("story").back().at("step"), "power cut, recovery");
}

TEST_F(SimToolTest, RefusesWhatItCannotRun) {
  const ToolRun nothing = run({"sim"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.err.find("--list"), std::string::npos) << nothing.err;
  const ToolRun unknown = run({"sim", "no-such-program"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("there are random, streaming"), std::string::npos) << unknown.err;
  const ToolRun missing = run({"sim", "--", "no-such-program"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("no-such-program"), std::string::npos) << missing.err;
  const ToolRun script = run({"sim", "--", PERDURE_SOURCE_DIR "/do"});
  EXPECT_NE(script.code, 0);
  EXPECT_NE(script.err.find("do"), std::string::npos) << script.err;
  const ToolRun failing = run({"sim", "--", "ls", "/no/such/folder"});
  EXPECT_EQ(failing.code, 3);
  EXPECT_NE(failing.err.find("/no/such/folder"), std::string::npos) << failing.err;
  const ToolRun system = run({"sim", "random", "--systems", "flash"});
  EXPECT_EQ(system.code, 2);
}

TEST_F(SimToolTest, ListsWorkloadsAndSystems) {
  const json report = simulate({"--list"});
  EXPECT_GE(report.at("workloads").size(), 5U + 8U);
  EXPECT_EQ(report.at("systems").size(), 8U);
}

}  // namespace
}  // namespace perdure
