// SPDX-License-Identifier: BSD-3-Clause
// For tests of claims: sections whose series are a paper's own values, and what happens when two systems' bars are exchanged.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "measure/claim.h"

namespace perdure::bench::reproduce {

struct Given {
  std::string name;
  std::string unit;
  std::vector<std::optional<double>> values;
};
inline Section section_of(std::string x_name, std::vector<double> x,
                          const std::vector<Given>& given) {
  Section section;
  section.x_name = std::move(x_name);
  section.x = std::move(x);
  for (const Given& one : given)
    section.add_values(one.name, one.unit, Origin::kPerdure, one.values);
  return section;
}

inline std::vector<std::string> clauses_with(const Section& section, Verdict verdict) {
  std::vector<std::string> clauses;
  for (const Judgement& judgement : section.judgements) {
    if (judgement.verdict == verdict)
      clauses.push_back(judgement.clause + ": " + found_text(judgement) + " " + judgement.why);
  }
  return clauses;
}

using Swaps = std::vector<std::pair<std::string, std::string>>;

/// Every clause that `judge` tests agrees with these series; when two of them are exchanged, with all that is named after them
/// ("Undo Log, rate"), one differs. `contradictions`: the clauses that differ although all is as printed, because the paper's text
/// and figures contradict each other.
inline void expect_swaps_noticed(const Section& section, const std::function<void(Section&)>& judge,
                                 const Swaps& swaps, std::size_t contradictions = 0) {
  Section as_printed = section;
  judge(as_printed);
  EXPECT_EQ(clauses_with(as_printed, Verdict::kDiffers).size(), contradictions)
      << ::testing::PrintToString(clauses_with(as_printed, Verdict::kDiffers));
  EXPECT_FALSE(clauses_with(as_printed, Verdict::kAgrees).empty());
  // A series that is named after one of them goes with it.
  const auto exchanged = [](const std::string& name, const std::string& one,
                            const std::string& other) {
    if (name == one) return other;
    if (name == other) return one;
    for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)})
      if (name.starts_with(from + ",")) return to + name.substr(from.size());
    return name;
  };
  for (const auto& [one, other] : swaps) {
    Section swapped = section;
    for (Series& series : swapped.series) series.name = exchanged(series.name, one, other);
    judge(swapped);
    EXPECT_GT(clauses_with(swapped, Verdict::kDiffers).size(), contradictions)
        << "nobody notices that " << one << " and " << other << " are exchanged";
  }
}

}  // namespace perdure::bench::reproduce
