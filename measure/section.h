// SPDX-License-Identifier: BSD-3-Clause
// What the evaluation finds: for each figure and table of a paper, series of measured values, the
// paper's own values beside them, and judgements of whether the two agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/report.h"

namespace perdure::bench::reproduce {

enum class Origin : std::uint8_t {
  kPerdure,
  kPeer,
  kDerived,  // from measured ones: a ratio, a difference
  kPaper,    // as printed there; never measured here
};
std::string_view origin_name(Origin origin);

struct Series {
  std::string name;
  std::string unit;
  Origin origin = Origin::kPerdure;
  std::vector<std::optional<Spread>> values;  // one for each of Section::x
  bool charted = true;                        // false: for tables and judgements only

  /// The median at this place. Requires: it was measured.
  double at(std::size_t place) const { return values.at(place).value().median; }
};

/// One sentence of the paper, or a goal of ours, held against what was measured.
struct Judgement {
  std::string claim;  // the paper's
  std::string found;  // ours, in numbers
  bool agrees = false;
  std::string why;    // where it does not: what in the measured values makes the difference
  bool goal = false;  // the claim is a goal of ours
};

struct Section {
  std::string id;     // "figure4"
  std::string title;  // what the paper calls it
  std::string method;
  std::string x_name;
  std::vector<double> x;
  std::vector<Series> series;
  std::vector<Judgement> judgements;
  std::string missing;  // why there is nothing, or less than in the paper; else empty
  bool log_y = false;

  /// Null when it was not measured.
  const Series* find(const std::string& name) const;
  Series& add(std::string name, std::string unit, Origin origin);
  /// Adds a series of single values: of the paper, or without a spread of their own.
  Series& add_values(std::string name, std::string unit, Origin origin,
                     const std::vector<std::optional<double>>& values);
  /// Adds a series that divides two others, point by point: its spread is that of the extremes.
  void add_ratio(std::string name, const std::string& above, const std::string& below);
};

struct Evaluation {
  Environment environment;
  std::string paper;
  std::string setting;  // quick, default or full
  std::string memory;   // the emulated one, in words
  double latency_ns = 0;
  double gb_per_s = 0;       // 0: no limit
  double spin_error_ns = 0;  // of one emulated delay
  double seconds = 0;
  std::vector<Section> sections;
};

std::string text_of(const Evaluation& evaluation);
std::string json_of(const Evaluation& evaluation);
/// One page that needs nothing else: well-formed XML, charts as SVG.
std::string html_of(const Evaluation& evaluation);

}  // namespace perdure::bench::reproduce
