// SPDX-License-Identifier: BSD-3-Clause
#include "measure/section_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace perdure::bench::reproduce {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Spread& value) {
  return {{"median", value.median}, {"min", value.min}, {"max", value.max}};
}
/// JSON has no infinities: a ratio to nothing comes back as no number.
double number_from(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}
Spread spread_from(const Json& json) {
  return {number_from(json.at("median")), number_from(json.at("min")), number_from(json.at("max"))};
}

Json json_of(const Series& series, const Section& section) {
  Json points = Json::array();
  for (std::size_t i = 0; i < section.x.size(); ++i) {
    if (!series.values[i]) continue;
    Json point{{"x", section.x[i]}};
    point.update(json_of(*series.values[i]));
    points.push_back(std::move(point));
  }
  return {{"name", series.name},
          {"unit", series.unit},
          {"origin", origin_name(series.origin)},
          {"charted", series.charted},
          {"points", std::move(points)}};
}

Json json_of(const Judgement& judgement) {
  Json out{{judgement.goal ? "goal" : "paper", judgement.sentence},
           {"clause", judgement.clause},
           {"kind", kind_name(judgement.kind)},
           {"verdict", verdict_name(judgement.verdict)},
           {"why", judgement.why}};
  if (!judgement.here) return out;
  out["here"] = json_of(*judgement.here);
  out["unit"] = judgement.unit;
  out["where"] = judgement.where;
  out["of"] = judgement.of;
  if (std::isfinite(judgement.low)) out["low"] = judgement.low;
  if (std::isfinite(judgement.high)) out["high"] = judgement.high;
  out["stated"] = judgement.stated;
  return out;
}

/// The value that has this name.
template <class Value, std::size_t kCount>
Value named(const Json& json, const std::array<Value, kCount>& all,
            std::string_view (*name_of)(Value)) {
  const std::string name = json;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](Value one) { return name_of(one) == name; });
  return found == all.end() ? all.back() : *found;
}

Judgement judgement_from(const Json& json) {
  Judgement judgement;
  judgement.goal = json.contains("goal");
  judgement.sentence = json.at(judgement.goal ? "goal" : "paper");
  judgement.clause = json.at("clause");
  judgement.kind = named(
      json.at("kind"), std::array{ClaimKind::kDirection, ClaimKind::kFactor, ClaimKind::kNotTested},
      kind_name);
  judgement.verdict =
      named(json.at("verdict"),
            std::array{Verdict::kAgrees, Verdict::kDiffers, Verdict::kUnclear, Verdict::kNotTested},
            verdict_name);
  judgement.why = json.at("why");
  if (!json.contains("here")) return judgement;
  judgement.here = spread_from(json.at("here"));
  judgement.unit = json.at("unit");
  judgement.where = json.at("where");
  judgement.of = json.at("of");
  judgement.low = json.value("low", judgement.low);
  judgement.high = json.value("high", judgement.high);
  judgement.stated = json.at("stated");
  return judgement;
}

}  // namespace

Json json_of(const Section& section) {
  Json out{{"id", section.id},           {"title", section.title}, {"method", section.method},
           {"missing", section.missing}, {"x", section.x_name},    {"values", section.x},
           {"places", section.places},   {"log_y", section.log_y}};
  out["series"] = Json::array();
  for (const Series& series : section.series) out["series"].push_back(json_of(series, section));
  out["judgements"] = Json::array();
  for (const Judgement& judgement : section.judgements)
    out["judgements"].push_back(json_of(judgement));
  return out;
}

Section section_from(const Json& json) {
  Section section;
  section.id = json.at("id");
  section.title = json.at("title");
  section.method = json.at("method");
  section.missing = json.at("missing");
  section.x_name = json.at("x");
  section.x = json.at("values").get<std::vector<double>>();
  section.places = json.at("places").get<std::vector<std::string>>();
  section.log_y = json.at("log_y");
  for (const Json& one : json.at("series")) {
    Series& series = section.add(
        one.at("name"), one.at("unit"),
        named(one.at("origin"),
              std::array{Origin::kPerdure, Origin::kPeer, Origin::kDerived, Origin::kPaper},
              origin_name));
    series.charted = one.at("charted");
    std::size_t place = 0;
    for (const Json& point : one.at("points")) {
      while (section.x.at(place) != point.at("x").get<double>()) ++place;
      series.values[place++] = spread_from(point);
    }
  }
  for (const Json& one : json.at("judgements")) section.judgements.push_back(judgement_from(one));
  return section;
}

}  // namespace perdure::bench::reproduce
