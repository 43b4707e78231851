// SPDX-License-Identifier: BSD-3-Clause
#include "measure/section.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace perdure::bench::reproduce {

std::string_view origin_name(Origin origin) {
  switch (origin) {
    case Origin::kPerdure: return "perdure";
    case Origin::kPeer: return "peer";
    case Origin::kDerived: return "derived";
    case Origin::kPaper: return "paper";
  }
  return "unknown";
}

std::string_view kind_name(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::kDirection: return "direction";
    case ClaimKind::kFactor: return "factor";
    case ClaimKind::kNotTested: return "not tested";
  }
  return "unknown";
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAgrees: return "agrees";
    case Verdict::kDiffers: return "differs";
    case Verdict::kUnclear: return "no verdict";
    case Verdict::kNotTested: return "not tested";
  }
  return "unknown";
}

std::string brief(double value) {
  return std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string found_text(const Judgement& judgement) {
  if (!judgement.here) return {};
  const Spread& here = *judgement.here;
  std::string text = brief(here.median);
  if (here.min != here.max) text += fmt::format(" ({}..{})", brief(here.min), brief(here.max));
  text += (judgement.unit.starts_with("x") || judgement.unit.empty() ? "" : " ") + judgement.unit;
  if (!judgement.where.empty()) text += ", " + judgement.where;
  if (std::isfinite(judgement.low) && std::isfinite(judgement.high)) {
    text += fmt::format("; accepted: {} to {}", brief(judgement.low), brief(judgement.high));
  } else if (std::isfinite(judgement.low)) {
    text += fmt::format("; accepted: {} or more", brief(judgement.low));
  } else {
    text += fmt::format("; accepted: {} or less", brief(judgement.high));
  }
  if (!judgement.stated.empty()) text += " (" + judgement.stated + ")";
  return text;
}

std::string Section::place_name(std::size_t place) const {
  if (place < places.size()) return places[place];
  return fmt::format("{} = {}", x_name, brief(x.at(place)));
}

const Series* Section::find(const std::string& name) const {
  const auto found = std::find_if(series.begin(), series.end(),
                                  [&](const Series& one) { return one.name == name; });
  return found == series.end() ? nullptr : &*found;
}

Series& Section::add(std::string name, std::string unit, Origin origin) {
  series.push_back({std::move(name), std::move(unit), origin, {}, true});
  series.back().values.resize(x.size());
  return series.back();
}

Series& Section::add_values(std::string name, std::string unit, Origin origin,
                            const std::vector<std::optional<double>>& values) {
  Series& made = add(std::move(name), std::move(unit), origin);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i]) made.values.at(i) = Spread{*values[i], *values[i], *values[i]};
  }
  return made;
}

void Section::add_ratio(std::string name, const std::string& above, const std::string& below) {
  const Series* const top = find(above);
  const Series* const bottom = find(below);
  if (top == nullptr || bottom == nullptr) return;
  std::vector<std::optional<Spread>> values(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::optional<Spread>& a = top->values[i];
    const std::optional<Spread>& b = bottom->values[i];
    if (a && b) values[i] = ratio_of(*a, *b);
  }
  add(std::move(name), "x", Origin::kDerived).values = std::move(values);
}

}  // namespace perdure::bench::reproduce
