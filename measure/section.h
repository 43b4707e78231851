// SPDX-License-Identifier: BSD-3-Clause
// What the evaluation finds: for each figure and table of a paper, series of measured values, the
// paper's own values beside them, and judgements of whether the two agree.
#pragma once

#include <cstdint>
#include <limits>
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

enum class ClaimKind : std::uint8_t {
  kDirection,  // who is ahead, what grows
  kFactor,     // by how much
  kNotTested,
};
enum class Verdict : std::uint8_t {
  kAgrees,
  kDiffers,
  kUnclear,  // measured, but the machine was too busy or the runs too different to tell
  kNotTested,
};
std::string_view kind_name(ClaimKind kind);
std::string_view verdict_name(Verdict verdict);

/// One clause of a sentence of the paper, or of a goal of ours, held against a number that was measured. measure/claim.h makes it.
struct Judgement {
  std::string sentence;
  std::string clause;
  ClaimKind kind = ClaimKind::kDirection;
  double low = -std::numeric_limits<double>::infinity();  // what is accepted
  double high = std::numeric_limits<double>::infinity();
  std::string stated;  // by the paper, and how the band comes from it
  std::optional<Spread> here;
  std::string unit;
  std::string where;  // at which place of x
  std::string of;     // what the number is made of
  Verdict verdict = Verdict::kNotTested;
  std::string why;       // where it does not agree; computed from what was measured
  bool goal = false;     // the sentence is a goal of ours
  bool counted = false;  // not timed: the same on a busy machine
};
/// "1,000" is "1000", never "1e+03".
std::string brief(double value);
/// "0.64x (0.6..0.7), T_w (ns) = 600; accepted: 1 or less": without a verdict.
std::string found_text(const Judgement& judgement);

struct Section {
  std::string id;     // "figure4"
  std::string title;  // what the paper calls it
  std::string method;
  std::string x_name;
  std::vector<double> x;
  std::vector<std::string> places;  // names of each x, where it is not a quantity
  std::vector<Series> series;
  std::vector<Judgement> judgements;
  std::string missing;  // why there is nothing, or less than in the paper; else empty
  bool log_y = false;

  /// "SPS", or "T_w (ns) = 600".
  std::string place_name(std::size_t place) const;
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
  std::string id;       // "softwrap"
  std::string paper;    // its title
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
/// What a page of it holds: well-formed XML, charts as SVG.
std::string body_of(const Evaluation& evaluation);
/// One page that needs nothing else.
std::string html_of(const Evaluation& evaluation);

}  // namespace perdure::bench::reproduce
