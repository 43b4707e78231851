// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/programs.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "papers/thynvm/memory/experiment.h"
#include "papers/thynvm/memory/inputs.h"
#include "papers/thynvm/memory/marks.h"
#include "perdure/error.h"
#include "tools/parts.h"

namespace perdure::memory {
namespace {

using testing::HasSubstr;

TEST(MeasuredPrograms, StandForThoseOfThePaper) {
  std::set<std::string_view> names;
  std::set<std::string_view> stand_for;
  for (const MeasuredProgram& each : measured_programs()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_FALSE(each.what.empty());
    stand_for.insert(each.stands_for);
    EXPECT_EQ(&measured_program(each.name), &each);
  }
  for (const char* paper : {"403.gcc", "410.bwaves", "433.milc", "437.leslie3d", "450.soplex",
                            "459.GemsFDTD", "470.lbm", "471.omnetpp"})
    EXPECT_TRUE(stand_for.contains(paper)) << paper;
}

TEST(MeasuredPrograms, AnUnknownNameIsToldAllNames) {
  try {
    measured_program("mcf");
    FAIL() << "no error";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("mcf: no such program; there are gcc, bwaves, "));
  }
}

TEST(MeasuredPrograms, InputsAreTheSameEachTime) {
  EXPECT_EQ(text_input(100'000), text_input(100'000));
  EXPECT_EQ(text_input(100'000).size(), 100'000U);
  EXPECT_EQ(linear_program_input(40, 80), linear_program_input(40, 80));
  EXPECT_THAT(sql_input(1'000), HasSubstr("where n < 1000)"));
  EXPECT_THAT(cplusplus_input(), HasSubstr("#include <regex>\n"));
}

class MeasuredProgramTest : public testing::TestWithParam<MeasuredProgram> {
 protected:
  void SetUp() override { std::filesystem::create_directory(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_ = testing::TempDir() + "program_" + std::to_string(::getpid());
};
INSTANTIATE_TEST_SUITE_P(All, MeasuredProgramTest, testing::ValuesIn(measured_programs()),
                         [](const auto& program) { return std::string(program.param.name); });

TEST_P(MeasuredProgramTest, RunsUnderTheEmulator) {
  const MeasuredProgram& program = GetParam();
  Launch launch;
  try {
    launch = prepare(program, directory_);
    version_of(program);
    launch.instructions = 3'000'000;
    if (launch.skip_to_mark) {
      launch.arguments = {"12"};  // Small: preparation takes long.
      if (program.name == "omnetpp") launch.arguments.emplace_back("100");
    }
    launch.skip = 0;
    EmulatedProgram emulated(launch);
    std::uint64_t marks = 0;
    std::uint64_t accesses = 0;
    for (auto batch = emulated.next(); !batch.empty(); batch = emulated.next()) {
      accesses += batch.size();
      for (const Access access : batch)
        marks += access.kind() == AccessKind::kStore && access.address() == PERDURE_MARK_BEGIN_WORD;
    }
    EXPECT_GT(accesses, 500'000U);
    EXPECT_TRUE(emulated.reached_limit());
    EXPECT_EQ(marks, launch.skip_to_mark ? 1U : 0U);
  } catch (const Exception& error) {
    if (error.code() != Code::kNotFound) throw;
    GTEST_SKIP() << error.what();
  }
}

TEST(KeyValueGuest, MarksItsBeginAndEachOperation) {
  for (const char* store : {"hash", "rbtree"}) {
    Launch launch;
    try {
      launch.program = tools::find_part("perdure_guest_kv");
      launch.arguments = {store, "--value", "4096", "--operations", "500", "--seed", "3"};
      launch.skip_to_mark = true;
      EmulatedProgram emulated(launch);
      std::uint64_t operations = 0;
      for (auto batch = emulated.next(); !batch.empty(); batch = emulated.next())
        for (const Access access : batch)
          operations += access.kind() == AccessKind::kStore &&
                        access.address() == PERDURE_MARK_OPERATION_WORD;
      EXPECT_EQ(operations, 500U);
      EXPECT_GT(emulated.skipped(), 1'000'000U);
      EXPECT_GT(emulated.instructions(), 500'000U);
    } catch (const Exception& error) {
      if (error.code() != Code::kNotFound) throw;
      GTEST_SKIP() << error.what();
    }
  }
}

// The instruction of a compiled program: the plug-in finds it, the machine executes it, and a power cut
// after it loses nothing that was before it (Machine holds every cut to that).
TEST(KeyValueGuest, EndsItsEpochsByAnInstruction) {
  Launch launch;
  try {
    launch.program = tools::find_part("perdure_guest_kv");
    launch.arguments = {"hash", "--value", "64", "--operations", "300", "--end-epoch", "20"};
    launch.skip_to_mark = true;
    EmulatedProgram emulated(launch);
    Experiment experiment;
    for (const Reading reading : {Reading::kPaperCode, Reading::kStrict})
      for (const System system : {System::kDram, System::kJournal, System::kShadow, System::kThyNvm,
                                  System::kThyNvmOverlap})
        experiment.setups.push_back({system, Model::of(reading)});
    experiment.cuts.wanted = 30;
    for (const Outcome& outcome : run_experiment(experiment, emulated)) {
      const std::string_view name = system_name(outcome.setup.system);
      EXPECT_EQ(outcome.results.operations, 300U);
      EXPECT_EQ(outcome.results.ended_by_program, 15U) << name;
      EXPECT_THAT(outcome.violations, testing::IsEmpty()) << name;
      if (outcome.setup.system == System::kDram) continue;
      EXPECT_GE(outcome.results.epochs.epochs, 15U) << name;
      EXPECT_GT(outcome.cuts_of_epochs, 10U) << name;
    }
  } catch (const Exception& error) {
    if (error.code() != Code::kNotFound) throw;
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace perdure::memory
