// SPDX-License-Identifier: BSD-3-Clause
// What the judgements of all sections share.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "measure/section.h"

namespace perdure::bench::reproduce {

/// Another machine, fifteen years younger: the shape agrees when it is within this factor of what
/// the paper states.
inline constexpr double kTolerance = 2;

struct Seen {
  double low = 0;
  double high = 0;
};
/// Requires: at least one value.
inline Seen seen(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

/// Every value lies within kTolerance of the range.
inline bool within(const Seen& values, double low, double high) {
  return values.low >= low / kTolerance && values.high <= high * kTolerance;
}

/// "5.2 to 7.1x", or one number where the two are the same.
inline std::string range_text(const Seen& values, const std::string& unit) {
  const std::string low = fmt::format("{:.3g}", values.low);
  const std::string high = fmt::format("{:.3g}", values.high);
  return low == high ? low + unit : low + " to " + high + unit;
}

/// By how much a series grows for each step of x, between two places.
inline double slope(const Section& section, const Series& series, std::size_t from,
                    std::size_t to) {
  return (series.at(to) - series.at(from)) / (section.x[to] - section.x[from]);
}

}  // namespace perdure::bench::reproduce
