// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/checkpoint/prover.h"

namespace perdure::prover {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

class EverySetting : public testing::TestWithParam<int> {};

// The proof. Its figures go into the test's output.
TEST_P(EverySetting, IsSafeInEveryReachableState) {
  const Proof proof = prove(settings()[GetParam()], Mutant::kNone, kNoLimit);
  EXPECT_THAT(proof.violation, IsEmpty()) << testing::PrintToString(proof.story);
  EXPECT_TRUE(proof.complete);
  EXPECT_EQ(proof.cuts, proof.states);
  EXPECT_GT(proof.states, 1000U);
  std::printf("  %s: %llu states, %llu transitions, %llu power cuts, depth %u\n",
              proof.setting.c_str(), (unsigned long long)proof.states,
              (unsigned long long)proof.transitions, (unsigned long long)proof.cuts, proof.depth);
}
INSTANTIATE_TEST_SUITE_P(All, EverySetting, testing::Range(0, int(settings().size())));

class EveryMutant : public testing::TestWithParam<int> {};

TEST_P(EveryMutant, IsNoticed) {
  const auto mutant = Mutant(GetParam());
  for (const Setting& setting : settings()) {
    const Proof proof = prove(setting, mutant, 60'000);
    if (proof.violation.empty()) continue;
    EXPECT_FALSE(proof.story.empty());
    std::printf("  %s: %s, after %zu steps of %s\n", mutant_name(mutant), proof.violation.c_str(),
                proof.story.size(), setting.name.c_str());
    return;
  }
  ADD_FAILURE() << mutant_name(mutant) << " was not noticed: " << mutant_story(mutant);
}
INSTANTIATE_TEST_SUITE_P(All, EveryMutant, testing::Range(1, kMutants), [](const auto& test) {
  std::string name = mutant_name(Mutant(test.param));
  std::erase(name, '-');
  return name;
});

// The two published steps that are not safe come with the story that shows it.
TEST(PublishedSteps, ReuseOfAGivenUpSlotHasACounterexample) {
  for (const Setting& setting : settings()) {
    const Proof proof = prove(setting, Mutant::kReuseGivenUpSlots, 60'000);
    if (proof.violation.empty()) continue;
    EXPECT_THAT(proof.story.back(), HasSubstr("power cut"));
    EXPECT_THAT(proof.story, testing::Contains(HasSubstr("commit")));
    return;
  }
  ADD_FAILURE() << "no counterexample";
}

TEST(PublishedSteps, ExchangeDuringACheckpointHasACounterexample) {
  for (const Setting& setting : settings()) {
    const Proof proof = prove(setting, Mutant::kExchangeWhileCheckpointing, 60'000);
    if (proof.violation.empty()) continue;
    EXPECT_THAT(proof.story.back(), HasSubstr("power cut"));
    return;
  }
  ADD_FAILURE() << "no counterexample";
}

}  // namespace
}  // namespace perdure::prover
