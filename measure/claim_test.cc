// SPDX-License-Identifier: BSD-3-Clause
#include "measure/claim.h"

#include <gtest/gtest.h>

#include "measure/claim_testing.h"
#include "measure/control.h"

namespace perdure::bench::reproduce {
namespace {

Verdict verdict_on(const Found& found, const Band& band) {
  Section section;
  Sentence(section, "a sentence").holds("a clause", found, band);
  return section.judgements.at(0).verdict;
}
Verdict verdict_on(double value, const Band& band) {
  return verdict_on(number(value, "", "", ""), band);
}

TEST(Claim, ADirectionHoldsOnOneSideOnly) {
  EXPECT_EQ(verdict_on(1.01, above(1)), Verdict::kAgrees);
  EXPECT_EQ(verdict_on(0.99, above(1)), Verdict::kDiffers);
  EXPECT_EQ(verdict_on(0.99, below(1)), Verdict::kAgrees);
  EXPECT_EQ(verdict_on(1.01, below(1)), Verdict::kDiffers);
}

TEST(Claim, AFactorNeverAgreesBeyondWhereNobodyIsAhead) {
  EXPECT_EQ(verdict_on(0.68 * 100 - 100, percent_more(35, 35)), Verdict::kDiffers)
      << "two thirds are not 35 % more";
  EXPECT_EQ(verdict_on(17, percent_more(35, 35)), Verdict::kDiffers);
  EXPECT_EQ(verdict_on(18, percent_more(35, 35)), Verdict::kAgrees);
  EXPECT_EQ(verdict_on(71, percent_more(35, 35)), Verdict::kDiffers);
  EXPECT_EQ(verdict_on(0.9, times(1.5, 15)), Verdict::kDiffers);
  EXPECT_EQ(verdict_on(1.1, times(0.6, 0.7)), Verdict::kDiffers);
  EXPECT_EQ(verdict_on(29, times(2, 15)), Verdict::kAgrees);
}

TEST(Claim, ALossIsComparedAsTheTimeThatItAdds) {
  const Band band = percent_less(82, 82);  // 4.56 times the time on top: from 2.28 to 9.1
  EXPECT_NEAR(band.low, 69.5, 0.1);
  EXPECT_NEAR(band.high, 90.1, 0.1);
  EXPECT_EQ(verdict_on(41, band), Verdict::kDiffers);
  EXPECT_EQ(verdict_on(99, band), Verdict::kDiffers);
}

TEST(Claim, UnitsCount) {
  EXPECT_EQ(verdict_on(9290, half_to_double(6.64, 6.64, " us")), Verdict::kDiffers);
  EXPECT_EQ(verdict_on(6.64, half_to_double(6.64, 6.64, " us")), Verdict::kAgrees);
}

TEST(Claim, RunsThatDisagreeByMoreThanTheNumberTellNothing) {
  EXPECT_EQ(verdict_on(Number{{1.2, 0.5, 2.0}, "x", "", ""}, above(1)), Verdict::kUnclear);
  EXPECT_EQ(verdict_on(Number{{1.2, 0.9, 1.4}, "x", "", ""}, above(1)), Verdict::kAgrees);
  EXPECT_EQ(verdict_on(Number{{3, 1.1, 9}, "x", "", ""}, above(1)), Verdict::kAgrees)
      << "however far they lie apart, all say the same";
}

TEST(Claim, WhatWasNotMeasuredIsNotTested) {
  const Section section = section_of("stores", {1, 2}, {{"ours", "us", {5, std::nullopt}}});
  EXPECT_FALSE(value_at(section, "ours", 2));
  EXPECT_FALSE(value_at(section, "ours", 3));
  EXPECT_FALSE(ratio_at(section, "ours", "theirs", 1));
  EXPECT_EQ(verdict_on(value_at(section, "ours", 2), above(1)), Verdict::kNotTested);
  EXPECT_FALSE(mean_of({std::nullopt}));
  EXPECT_EQ(verdict_on(divided(value_at(section, "ours", 1), 0, "x"), above(1)),
            Verdict::kNotTested)
      << "a ratio to nothing";
}

TEST(Claim, TheWorstOfManyIsJudgedAndNamed) {
  Section section =
      section_of("ns", {0, 600, 1500}, {{"ours", "us", {5, 6, 9}}, {"theirs", "us", {4, 6, 8}}});
  const auto ratios =
      everywhere(section, [&](double x) { return ratio_at(section, "ours", "theirs", x); });
  Sentence(section, "a sentence").holds_for_each("all", ratios, above(1.1));
  const Judgement& judgement = section.judgements.at(0);
  EXPECT_EQ(judgement.verdict, Verdict::kDiffers);
  EXPECT_EQ(judgement.where, "ns = 600");
  EXPECT_EQ(judgement.here->median, 1);
  EXPECT_NE(judgement.why.find("ours 6 us, theirs 6 us"), std::string::npos) << judgement.why;
}

TEST(Claim, AReasonIsAskedForOnlyWhereItDiffers) {
  Section section;
  const auto never = []() -> std::string { throw std::logic_error("asked"); };
  Sentence says(section, "a sentence");
  says.holds("it holds", number(2, "", "", ""), above(1)).because(never);
  says.not_tested("another", "nobody measured it").because(never);
  says.holds("it does not", number(0.5, "", "", ""), above(1)).because([] { return "so."; });
  EXPECT_EQ(section.judgements.at(0).why, "");
  EXPECT_TRUE(section.judgements.at(2).why.ends_with(" so."));
}

TEST(Claim, VerdictsAreWithheldWithTheReason) {
  Section section;
  Sentence says(section, "a sentence");
  says.holds("a clause", number(2, "", "", ""), above(1)).not_tested("another", "nobody did");
  withhold_verdicts(section, "others had the CPU");
  Tally tally;
  for (const Judgement& judgement : section.judgements) tally.count(judgement);
  EXPECT_EQ(text_of(tally), "0 agree, 0 differ, 1 without a verdict, 1 not tested here");
  EXPECT_EQ(section.judgements.at(0).why, "others had the CPU");
  EXPECT_EQ(section.judgements.at(1).why, "nobody did");
}

TEST(Claim, WhatIsCountedIsNotWithheld) {
  Section section;
  Sentence(section, "a sentence").counted().holds("fences", number(1, "", "", ""), near(1, ""));
  withhold_verdicts(section, "others had the CPU");
  EXPECT_EQ(section.judgements.at(0).verdict, Verdict::kAgrees);
}

TEST(Control, TellsWhenTheMachineChangedItsPaceOrOthersHadIt) {
  Control steady, slower, waiting;
  for (int run = 0; run < 16; ++run) {
    steady.add(1e6, 1.1e6);
    slower.add(run < 8 ? 1e6 : 2e6, 2e6);
    waiting.add(1e6, 3e6);
  }
  for (const MeasuredBy clock : {MeasuredBy::kOwnTime, MeasuredBy::kWallTime}) {
    EXPECT_EQ(steady.unsteady(clock), "");
    EXPECT_NE(slower.unsteady(clock), "");
  }
  Control others = steady;
  others.set_others(0.4);
  EXPECT_EQ(others.unsteady(MeasuredBy::kOwnTime), "");
  EXPECT_NE(others.unsteady(MeasuredBy::kWallTime), "");
  EXPECT_EQ(waiting.unsteady(MeasuredBy::kOwnTime), "");
  EXPECT_NE(waiting.unsteady(MeasuredBy::kWallTime), "");
  EXPECT_EQ(slower.unsteady(MeasuredBy::kSimulatedTime), "");
}

}  // namespace
}  // namespace perdure::bench::reproduce
