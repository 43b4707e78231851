// SPDX-License-Identifier: BSD-3-Clause
// 5,000 damaged files of every kind: no program that uses one crashes, hangs or eats the memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;

class MutantsTest : public LabTest {};

TEST_F(MutantsTest, NoneIsWorseThanARefusal) {
  const ToolRun ran = run({"mutants", "--count", "425", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto report = nlohmann::json::parse(ran.out);
  EXPECT_GE(report["mutants"], 5'000);
  for (const auto& kind : report["kinds"]) {
    EXPECT_GT(kind["all_shown"], 25) << kind["kind"];
    EXPECT_GT(kind["refused"], 2) << kind["kind"];
    std::printf("%s\n", kind.dump().c_str());
  }
}

// The test of the test.
TEST_F(MutantsTest, AProgramThatBelievesWhatItReadsIsFoundOut) {
  const ToolRun ran = run({"mutants", "--kind", "careless", "--count", "100"});
  EXPECT_EQ(ran.code, 1) << ran.out;
  EXPECT_THAT(ran.err, HasSubstr("ended by Segmentation fault"));
  EXPECT_THAT(ran.err, HasSubstr("it hangs"));
}

TEST_F(MutantsTest, AKindThatIsNoneIsRefused) {
  const ToolRun ran = run({"mutants", "--kind", "chair"});
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr("no such kind of file"));
}

}  // namespace
}  // namespace perdure
