// SPDX-License-Identifier: BSD-3-Clause
// What a paper states, clause by clause: each clause is one number of ours and the band that it has to lie in, so that a verdict
// can fail. A sentence that says who is ahead has a bound (a direction), one with a number a band (a factor), and what nobody
// measured here is said to be not tested.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/section.h"

namespace perdure::bench::reproduce {

/// What a number has to be for a clause to hold; both ends belong to it.
struct Band {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::string stated;  // what the paper says, and how the band comes from it; empty for a direction

  bool holds(double value) const { return low <= value && value <= high; }
  /// How far off, as a factor where both have a sign in common; 1 inside.
  double miss(double value) const;
};

/// Directions: who is ahead, what grows, what stays under a limit.
Band above(double bound);
Band below(double bound);

/// The paper's machine is fifteen years older, so that a number of ours agrees from half to double of what is stated. A gain and
/// a cost are compared as what they add, so that no band reaches beyond the point where nobody is ahead:
/// "35 % more" is 17.5 to 70 % more, and "costs 82 % of the throughput", which is 4.6 times the time on top, 69 to 90 %.
Band half_to_double(double low, double high, std::string_view unit);
Band times(double low, double high);         // of a ratio: as above, but on the same side of 1
Band percent_more(double low, double high);  // of a gain in percent
Band percent_less(double low, double high);  // of a loss in percent, below 100
/// What follows from how the memory is emulated, or is called equal: a quarter more or less.
Band near(double stated, std::string_view unit);
/// Where both machines are simulated: so many points of percent around the stated value.
Band within_points(double stated, double points, std::string_view source);

/// One number of ours. Nothing where a part of it was not measured.
struct Number {
  Spread value;
  std::string unit;
  std::string where;  // "T_w (ns) = 600", or the name of a workload
  std::string of;     // what it is made of: "SoftWrAP 4.1 us, Non-Atomic 6.7 us"
};
using Found = std::optional<Number>;
/// A number without a spread of its own.
Found number(double value, std::string unit, std::string where, std::string of);

/// Numbers of one place of a section, by its x. A ratio's spread is that of the extremes.
Found value_at(const Section& section, const std::string& series, double x);
Found ratio_at(const Section& section, const std::string& above, const std::string& below,
               double x);
/// By how many percent the first is more, or less, than the second.
Found gain_at(const Section& section, const std::string& more, const std::string& than, double x);
Found loss_at(const Section& section, const std::string& less, const std::string& than, double x);
/// What a series is at one place, divided by what it is at another.
Found growth(const Section& section, const std::string& series, double from_x, double to_x);
/// A number divided by one that is known.
Found divided(Found found, double by, std::string unit);
/// Each of these numbers at every place of the section.
std::vector<Found> everywhere(const Section& section, const std::function<Found(double x)>& at);
/// The same where x lies in this range.
std::vector<Found> between(const Section& section, double low_x, double high_x,
                           const std::function<Found(double x)>& at);

/// The arithmetic mean of those that were measured. Nothing if none was.
Found mean_of(const std::vector<Found>& numbers);
/// The greatest, or the least, of those that were measured.
Found greatest(const std::vector<Found>& numbers);
Found least(const std::vector<Found>& numbers);

/// Runs that differ by more than the number itself, some of them inside the band and some outside, tell nothing.
bool too_noisy(const Spread& value, const Band& band);

/// The clauses of one sentence, judged and added to a section one by one.
class Sentence {
 public:
  /// `goal`: it is not the paper's, but one of ours.
  Sentence(Section& section, std::string_view text, bool goal = false)
      : section_(section), text_(text), goal_(goal) {}

  /// What follows is counted and not timed: a busy machine does not change it.
  Sentence& counted() {
    counted_ = true;
    return *this;
  }
  Sentence& holds(std::string clause, const Found& found, const Band& band);
  /// All of these numbers lie in the band; the worst is shown.
  Sentence& holds_for_each(std::string clause, const std::vector<Found>& found, const Band& band);
  Sentence& not_tested(std::string clause, std::string why);
  /// Called where the last clause differs: what else was measured and makes the difference.
  Sentence& because(const std::function<std::string()>& reason);

 private:
  Section& section_;
  std::string text_;
  bool goal_;
  bool counted_ = false;
};

/// Takes the verdicts of a section back, but of what was counted: what was measured says nothing, and why.
void withhold_verdicts(Section& section, const std::string& why);

struct Tally {
  std::size_t agree = 0, differ = 0, unclear = 0, not_tested = 0;
  void count(const Judgement& judgement);
};
/// "12 agree, 3 differ, 1 without a verdict, 2 not tested here"
std::string text_of(const Tally& tally);

}  // namespace perdure::bench::reproduce
