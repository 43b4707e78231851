// SPDX-License-Identifier: BSD-3-Clause
#include "measure/claim.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace perdure::bench::reproduce {
namespace {

std::string range(double low, double high, std::string_view unit) {
  const std::string from = brief(low);
  const std::string to = brief(high);
  return (from == to ? from : from + " to " + to) + std::string(unit);
}

std::optional<std::size_t> place_of(const Section& section, double x) {
  const auto found = std::find(section.x.begin(), section.x.end(), x);
  if (found == section.x.end()) return std::nullopt;
  return static_cast<std::size_t>(found - section.x.begin());
}

struct Point {
  Spread value;
  std::string unit;
  std::string where;
  std::string text;  // "SoftWrAP 4.1 us"
};
std::optional<Point> point_at(const Section& section, const std::string& name, double x) {
  const Series* const series = section.find(name);
  const std::optional<std::size_t> place = place_of(section, x);
  if (series == nullptr || !place || !series->values[*place]) return std::nullopt;
  const Spread& value = *series->values[*place];
  return Point{value, series->unit, section.place_name(*place),
               fmt::format("{} {} {}", name, brief(value.median), series->unit)};
}

Spread of_ends(double one, double other, double median) {
  return {median, std::min(one, other), std::max(one, other)};
}

}  // namespace

double Band::miss(double value) const {
  if (holds(value)) return 1;
  const double bound = value < low ? low : high;
  const double factor = value / bound;
  return factor > 0 ? std::max(factor, 1 / factor) : std::numeric_limits<double>::infinity();
}

Band above(double bound) { return {.low = bound, .stated = {}}; }
Band below(double bound) { return {.high = bound, .stated = {}}; }

Band half_to_double(double low, double high, std::string_view unit) {
  return {low / 2, high * 2, "the paper: " + range(low, high, unit) + ", half to double of it"};
}

Band times(double low, double high) {
  Band band = half_to_double(low, high, "x");
  if (low > 1) band.low = std::max(band.low, 1.0);
  if (high < 1) band.high = std::min(band.high, 1.0);
  return band;
}

Band percent_more(double low, double high) { return half_to_double(low, high, " % more"); }

Band percent_less(double low, double high) {
  // Time that is added, of the time that it takes without.
  const auto loss_with = [](double percent, double factor) {
    const double added = factor * percent / (100 - percent);
    return 100 * added / (1 + added);
  };
  return {loss_with(low, 0.5), loss_with(high, 2),
          "the paper: " + range(low, high, " % less") + ", half to double of the time added"};
}

Band near(double stated, std::string_view unit) {
  return {stated * 0.8, stated * 1.25,
          "the paper: " + range(stated, stated, unit) + ", a quarter more or less"};
}

Band within_points(double stated, double points, std::string_view source) {
  return {std::max(0.0, stated - points), stated + points,
          fmt::format("{}: {:.1f} %, {:g} points around it", source, stated, points)};
}

Found number(double value, std::string unit, std::string where, std::string of) {
  return Number{{value, value, value}, std::move(unit), std::move(where), std::move(of)};
}

Found value_at(const Section& section, const std::string& series, double x) {
  const auto point = point_at(section, series, x);
  if (!point) return std::nullopt;
  return Number{point->value, point->unit, point->where, {}};
}

Found ratio_at(const Section& section, const std::string& above, const std::string& below,
               double x) {
  const auto top = point_at(section, above, x);
  const auto bottom = point_at(section, below, x);
  if (!top || !bottom) return std::nullopt;
  return Number{ratio_of(top->value, bottom->value), "x", top->where,
                top->text + ", " + bottom->text};
}

Found gain_at(const Section& section, const std::string& more, const std::string& than, double x) {
  Found found = ratio_at(section, more, than, x);
  if (!found) return found;
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  found->value = {percent(found->value.median), percent(found->value.min),
                  percent(found->value.max)};
  found->unit = "% more";
  return found;
}

Found loss_at(const Section& section, const std::string& less, const std::string& than, double x) {
  Found found = ratio_at(section, less, than, x);
  if (!found) return found;
  const auto percent = [](double ratio) { return 100 * (1 - ratio); };
  found->value =
      of_ends(percent(found->value.min), percent(found->value.max), percent(found->value.median));
  found->unit = "% less";
  return found;
}

Found growth(const Section& section, const std::string& series, double from_x, double to_x) {
  const auto from = point_at(section, series, from_x);
  const auto to = point_at(section, series, to_x);
  if (!from || !to) return std::nullopt;
  return Number{ratio_of(to->value, from->value), "x",
                fmt::format("{} = {} to {}", section.x_name, brief(from_x), brief(to_x)),
                fmt::format("{} {} to {} {}", series, brief(from->value.median),
                            brief(to->value.median), from->unit)};
}

Found divided(Found found, double by, std::string unit) {
  if (!found) return found;
  found->of = fmt::format("{} {} of {}", brief(found->value.median), found->unit, brief(by));
  found->value = {found->value.median / by, found->value.min / by, found->value.max / by};
  found->unit = std::move(unit);
  return found;
}

std::vector<Found> everywhere(const Section& section, const std::function<Found(double x)>& at) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return between(section, -kAny, kAny, at);
}

std::vector<Found> between(const Section& section, double low_x, double high_x,
                           const std::function<Found(double x)>& at) {
  std::vector<Found> found;
  for (const double x : section.x) {
    if (low_x <= x && x <= high_x) found.push_back(at(x));
  }
  return found;
}

Found mean_of(const std::vector<Found>& numbers) {
  Number mean{{}, {}, {}, {}};
  double count = 0;
  for (const Found& one : numbers) {
    if (!one) continue;
    ++count;
    mean.value.median += one->value.median;
    mean.value.min += one->value.min;
    mean.value.max += one->value.max;
    mean.unit = one->unit;
    mean.of +=
        fmt::format("{}{} {:.3g}", mean.of.empty() ? "" : ", ", one->where, one->value.median);
  }
  if (count == 0) return std::nullopt;
  mean.value = {mean.value.median / count, mean.value.min / count, mean.value.max / count};
  mean.where = "on average";
  return mean;
}

Found greatest(const std::vector<Found>& numbers) {
  Found found;
  for (const Found& one : numbers) {
    if (one && (!found || one->value.median > found->value.median)) found = one;
  }
  return found;
}

Found least(const std::vector<Found>& numbers) {
  Found found;
  for (const Found& one : numbers) {
    if (one && (!found || one->value.median < found->value.median)) found = one;
  }
  return found;
}

bool too_noisy(const Spread& value, const Band& band) {
  const bool answer = band.holds(value.median);
  return (band.holds(value.min) != answer || band.holds(value.max) != answer) &&
         value.max - value.min >= std::abs(value.median);
}

Sentence& Sentence::holds(std::string clause, const Found& found, const Band& band) {
  if (!found) return not_tested(std::move(clause), "This run did not measure it.");
  const Spread& value = found->value;
  if (!std::isfinite(value.median))
    return not_tested(std::move(clause), "This run is too short for it: " + found->of + ".");
  Judgement judgement{.sentence = text_,
                      .clause = std::move(clause),
                      .kind = band.stated.empty() ? ClaimKind::kDirection : ClaimKind::kFactor,
                      .low = band.low,
                      .high = band.high,
                      .stated = band.stated,
                      .here = value,
                      .unit = found->unit,
                      .where = found->where,
                      .of = found->of,
                      .verdict = band.holds(value.median) ? Verdict::kAgrees : Verdict::kDiffers,
                      .why = {},
                      .goal = goal_,
                      .counted = counted_};
  if (too_noisy(value, band)) {
    judgement.verdict = Verdict::kUnclear;
    judgement.why = fmt::format("The runs differ by more than the number itself, from {} to {}.",
                                brief(value.min), brief(value.max));
  } else if (judgement.verdict == Verdict::kDiffers) {
    const double miss = band.miss(value.median);
    judgement.why = fmt::format(
        "It is {} what is accepted{}{}.",
        std::isfinite(miss)
            ? fmt::format("{:.2f} times {}", miss, value.median < band.low ? "below" : "above")
            : fmt::format("{}, on the other side of", brief(value.median)),
        found->of.empty() ? "" : ": ", found->of);
  }
  section_.judgements.push_back(std::move(judgement));
  return *this;
}

Sentence& Sentence::holds_for_each(std::string clause, const std::vector<Found>& found,
                                   const Band& band) {
  // The worst is what misses the band by most, or inside it what is nearest to its bound.
  const bool towards_low = std::isfinite(band.low) && !std::isfinite(band.high);
  Found worst = towards_low ? least(found) : greatest(found);
  for (const Found& one : found) {
    if (one && band.miss(one->value.median) > band.miss(worst->value.median)) worst = one;
  }
  return holds(std::move(clause), worst, band);
}

Sentence& Sentence::not_tested(std::string clause, std::string why) {
  section_.judgements.push_back({.sentence = text_,
                                 .clause = std::move(clause),
                                 .kind = ClaimKind::kNotTested,
                                 .stated = {},
                                 .here = {},
                                 .unit = {},
                                 .where = {},
                                 .of = {},
                                 .verdict = Verdict::kNotTested,
                                 .why = std::move(why),
                                 .goal = goal_});
  return *this;
}

Sentence& Sentence::because(const std::function<std::string()>& reason) {
  Judgement& last = section_.judgements.back();
  if (last.verdict == Verdict::kDiffers) last.why += " " + reason();
  return *this;
}

void withhold_verdicts(Section& section, const std::string& why) {
  for (Judgement& judgement : section.judgements) {
    if (judgement.verdict == Verdict::kNotTested || judgement.counted) continue;
    judgement.verdict = Verdict::kUnclear;
    judgement.why = why;
  }
}

void Tally::count(const Judgement& judgement) {
  switch (judgement.verdict) {
    case Verdict::kAgrees: ++agree; break;
    case Verdict::kDiffers: ++differ; break;
    case Verdict::kUnclear: ++unclear; break;
    case Verdict::kNotTested: ++not_tested; break;
  }
}

std::string text_of(const Tally& tally) {
  return fmt::format("{} agree, {} differ, {} without a verdict, {} not tested here", tally.agree,
                     tally.differ, tally.unclear, tally.not_tested);
}

}  // namespace perdure::bench::reproduce
