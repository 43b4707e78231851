// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/evaluation/claims.h"

#include <cmath>

#include <fmt/format.h>

#include "measure/claim.h"

namespace perdure::bench::thynvm {
namespace {

using reproduce::above;
using reproduce::Band;
using reproduce::below;
using reproduce::everywhere;
using reproduce::Found;
using reproduce::Sentence;
using reproduce::within_points;

// Both machines are simulated, the paper's and ours: a percentage of the paper is to be met within so many points, a bar within
// a tenth.
constexpr double kPoints = 5;
Band as_the_bar() { return {0.9, 1.1, "the paper's bar, a tenth more or less"}; }

constexpr System kBars[] = {System::kDram, System::kNvm, System::kJournal, System::kShadow,
                            System::kThyNvm};

std::string name_of(System system) { return std::string(memory::system_name(system)); }

/// "<text> (strict)"
std::string in(Reading reading, std::string_view text) {
  return fmt::format("{} ({})", text, memory::reading_name(reading));
}

/// The geometric mean of a ratio at every place, in percent. The paper's means are geometric: of its bars, only that one gives
/// what its text says of shadow paging's tree (43.1 %) and of bandwidth (43.4, 64.2 and 19.0 %).
Found percent(const Section& section, const std::string& above, const std::string& below) {
  std::vector<double> ratios;
  std::string of;
  for (const double x : section.x) {
    const Found found = reproduce::ratio_at(section, above, below, x);
    if (!found) continue;
    ratios.push_back(found->value.median);
    of += fmt::format("{}{:.3f}", of.empty() ? "" : ", ", found->value.median);
  }
  if (ratios.empty()) return std::nullopt;
  return reproduce::number(100 * geometric_mean(ratios), "%", "on average",
                           fmt::format("{} over {}: {}", above, below, of));
}

double value(const Found& found) { return found->value.median; }

/// By the text, and by the bars of the same figure, each within some points of it.
void judge_mean(Sentence& says, const std::string& clause, const Found& ours, double text,
                const Found& bars) {
  says.holds("by the text: " + clause, ours, within_points(text, kPoints, "the text"));
  says.holds("by the bars: " + clause, ours,
             within_points(bars ? value(bars) : 0, kPoints, "the bars"));
}

/// Each bar of a system is the paper's.
void judge_bars(Section& section, Reading reading, const std::string& prefix,
                const std::vector<System>& systems) {
  Sentence says(section, in(reading, "the figure's bars"));
  for (const System system : systems)
    says.holds_for_each(fmt::format("{}{}", prefix, name_of(system)),
                        everywhere(section,
                                   [&](double x) {
                                     return reproduce::ratio_at(
                                         section, prefix + series_name(reading, system),
                                         "paper: " + prefix + name_of(system), x);
                                   }),
                        as_the_bar());
}

/// The pairs of bars at each place that differ by more than 5 % in the paper are in its order here.
void judge_order(Section& section, Reading reading, const std::vector<std::string>& prefixes) {
  Order order;
  for (const std::string& prefix : prefixes) {
    std::vector<std::vector<double>> ours, papers;
    std::vector<std::string> places, systems;
    for (const System system : kBars) systems.push_back(prefix + name_of(system));
    for (std::size_t place = 0; place < section.x.size(); ++place) {
      ours.emplace_back();
      papers.emplace_back();
      places.push_back(section.place_name(place));
      for (const System system : kBars) {
        // Of Figure 7, Ideal DRAM is 1 and has no series.
        const auto at = [&](const std::string& name) {
          const reproduce::Series* const series = section.find(name);
          return series == nullptr ? 1.0 : series->at(place);
        };
        ours.back().push_back(at(prefix + series_name(reading, system)));
        papers.back().push_back(at("paper: " + prefix + name_of(system)));
      }
    }
    const Order one = compare_orders(ours, papers, places, systems);
    order.same += one.same;
    order.pairs += one.pairs;
    if (!order.others.empty() && !one.others.empty()) order.others += "; ";
    order.others += one.others;
  }
  Sentence says(section, in(reading, "the order of the figure's bars"));
  says.holds(
      "every pair that differs by more than 5 % in the paper is in its order",
      reproduce::number(order.pairs - order.same, "pairs in another", "",
                        fmt::format("{} of {} pairs are in its order{}{}", order.same, order.pairs,
                                    order.others.empty() ? "" : "; not ", order.others)),
      below(0));
}

}  // namespace

void judge_micro(Section& section, Reading reading) {
  const auto series = [&](System system) { return series_name(reading, system); };
  const std::string ours = series(System::kThyNvm);
  const auto over = [&](System one, System other) {
    return everywhere(section, [&, one, other](double x) {
      return reproduce::ratio_at(section, series(one), series(other), x);
    });
  };
  judge_order(section, reading, {""});
  judge_bars(section, reading, "",
             {System::kNvm, System::kJournal, System::kShadow, System::kThyNvm});
  Sentence best(section, in(reading, paper::kMicroBest));
  for (const System other : {System::kJournal, System::kShadow})
    best.holds_for_each(fmt::format("quicker than {} in every pattern", name_of(other)),
                        over(System::kThyNvm, other), below(1));
  Sentence adapts(section, in(reading, paper::kMicroShadow));
  const std::vector<Found> shadow = over(System::kShadow, System::kJournal);
  adapts.holds("random: shadow paging is slower than journaling", shadow.at(0), above(1));
  for (const std::size_t place : {std::size_t{1}, std::size_t{2}})
    adapts.holds(fmt::format("{}: it is quicker", section.place_name(place)), shadow.at(place),
                 below(1));
  Sentence means(section, in(reading, paper::kMicroMeansText));
  for (const paper::Mean& mean : paper::kMicroMeans) {
    const System other = kBars[mean.system];
    std::vector<double> of_ours, of_paper;
    for (std::size_t place = 0; place < section.x.size(); ++place) {
      const auto at = [&](const std::string& name) {
        const reproduce::Series* const found = section.find(name);
        return found == nullptr ? 1.0 : found->at(place);
      };
      of_ours.push_back(at(ours) / at(series(other)));
      of_paper.push_back(at("paper: thynvm") / at("paper: " + name_of(other)));
    }
    const auto found = [&](const std::vector<double>& ratios) {
      return reproduce::number(
          100 * geometric_mean(ratios), "%", "on average",
          fmt::format("{:.2f}, {:.2f} and {:.2f} times (the bars: {:.2f}, {:.2f} and {:.2f})",
                      of_ours.at(0), of_ours.at(1), of_ours.at(2), of_paper.at(0), of_paper.at(1),
                      of_paper.at(2)));
    };
    judge_mean(means, fmt::format("its time, of that of {}", name_of(other)), found(of_ours),
               100 * mean.text, found(of_paper));
  }
}

void judge_compiled(Section& section, Reading reading) {
  Sentence best(section, in(reading, paper::kMicroBest));
  for (const System other : {System::kJournal, System::kShadow})
    best.holds_for_each(fmt::format("quicker than {} with every program", name_of(other)),
                        everywhere(section,
                                   [&](double x) {
                                     return reproduce::ratio_at(
                                         section, series_name(reading, System::kThyNvm),
                                         series_name(reading, other), x);
                                   }),
                        below(1));
}

void judge_overlap(Section& section, Reading reading) {
  Sentence best(section, in(reading, "ours: with everything overlapped it is the quickest of all"),
                true);
  for (const System other : {System::kJournal, System::kShadow, System::kThyNvm})
    best.holds_for_each(fmt::format("no slower than {}", name_of(other)),
                        everywhere(section,
                                   [&](double x) {
                                     return reproduce::ratio_at(
                                         section, series_name(reading, System::kThyNvmOverlap),
                                         series_name(reading, other), x);
                                   }),
                        below(1));
}

void judge_traffic(Section& section, Reading reading) {
  const auto stopped = [&](System system, bool paper) {
    const std::string name =
        (paper ? "paper: " + name_of(system) : series_name(reading, system)) + ", stopped";
    std::vector<double> values;
    for (std::size_t place = 0; place < section.x.size(); ++place)
      values.push_back(section.find(name)->at(place));
    return reproduce::number(
        geometric_mean(values), "%", "on average",
        fmt::format("{:.1f}, {:.1f} and {:.1f} %", values.at(0), values.at(1), values.at(2)));
  };
  Sentence stops(section, in(reading, paper::kStopsText));
  for (std::size_t i = 0; i < std::size(paper::kStops); ++i) {
    const System system = kBars[i + 2];
    judge_mean(stops, name_of(system), stopped(system, false), paper::kStops[i],
               stopped(system, true));
  }
  const double ours = value(stopped(System::kThyNvm, false));
  for (const System other : {System::kJournal, System::kShadow})
    stops.holds(fmt::format("thynvm less than {}", name_of(other)),
                reproduce::divided(stopped(other, false), ours, "x of thynvm's"), above(1));

  judge_bars(section, reading, "", {System::kJournal, System::kShadow, System::kThyNvm});
  const std::string bytes = series_name(reading, System::kThyNvm);
  Sentence less(section, in(reading, paper::kTrafficText));
  for (std::size_t i = 0; i < std::size(paper::kTrafficLess); ++i) {
    const System other = kBars[i + 2];
    judge_mean(less, fmt::format("its bytes, of those of {}", name_of(other)),
               percent(section, bytes, series_name(reading, other)), 100 - paper::kTrafficLess[i],
               percent(section, "paper: thynvm", "paper: " + name_of(other)));
  }
  Sentence more(section, in(reading, paper::kTrafficMore));
  more.holds_for_each("in every pattern",
                      everywhere(section,
                                 [&](double x) {
                                   const Found journal = reproduce::ratio_at(
                                       section, bytes, series_name(reading, System::kJournal), x);
                                   const Found shadow = reproduce::ratio_at(
                                       section, bytes, series_name(reading, System::kShadow), x);
                                   return reproduce::greatest({journal, shadow});
                                 }),
                      above(1));
  Sentence moved(section, in(reading, paper::kTrafficMigration));
  moved.not_tested("streaming migrates much", "The bytes are not divided by their reasons here.");
}

void judge_schemes(Section& section, Reading reading, double table_bytes) {
  std::vector<Found> less;
  for (const double x : section.x)
    less.push_back(reproduce::loss_at(section, series_name(reading, System::kThyNvm) + ", stalled",
                                      series_name(reading, System::kThyNvmPages) + ", stalled", x));
  Sentence stalls(section, in(reading, paper::kStallText));
  stalls.holds("it stalls for less time than pages alone in every pattern", reproduce::least(less),
               above(0));
  stalls.holds("at most 86.2 % less", reproduce::greatest(less),
               within_points(paper::kStallLess, kPoints, "the text"));
  Sentence tables(section, in(reading, paper::kTablesText));
  tables.holds("approximately 37 KB",
               reproduce::number(table_bytes / 1000, "KB", "", "2,048 blocks and 4,096 pages"),
               Band{37 * .95, 37 * 1.05, "the text: 37, by a twentieth"});
  tables.not_tested("26 % of what blocks alone need",
                    "The entries of blocks alone were chosen here to be that.");
}

void judge_throughput(Section& section, Reading reading) {
  judge_order(section, reading, {"hash, ", "rbtree, "});
  for (std::size_t store = 0; store < std::size(paper::kStoreNames); ++store) {
    const std::string prefix = std::string(paper::kStoreNames[store]) + ", ";
    judge_bars(section, reading, prefix, {std::begin(kBars), std::end(kBars)});
    const auto ours = [&](System system) { return prefix + series_name(reading, system); };
    const auto bar = [&](System system) { return "paper: " + prefix + name_of(system); };
    Sentence says(section, in(reading, paper::kStoresText));
    for (const System other : {System::kJournal, System::kShadow})
      says.holds_for_each(fmt::format("{}more than {} with every size", prefix, name_of(other)),
                          everywhere(section,
                                     [&](double x) {
                                       return reproduce::ratio_at(section, ours(System::kThyNvm),
                                                                  ours(other), x);
                                     }),
                          above(1));
    for (const auto& [other, text] : {std::pair(System::kDram, paper::kStoresOfDram[store]),
                                      std::pair(System::kJournal, paper::kStoresOfJournal[store]),
                                      std::pair(System::kShadow, paper::kStoresOfShadow[store])})
      judge_mean(says, fmt::format("{}its throughput, of that of {}", prefix, name_of(other)),
                 percent(section, ours(System::kThyNvm), ours(other)), 100 * text,
                 percent(section, bar(System::kThyNvm), bar(other)));
  }
}

void judge_bandwidth(Section& section, Reading reading) {
  for (std::size_t store = 0; store < std::size(paper::kStoreNames); ++store) {
    const std::string prefix = std::string(paper::kStoreNames[store]) + ", ";
    const auto ours = [&](System system) { return prefix + series_name(reading, system); };
    const auto bar = [&](System system) { return "paper: " + prefix + name_of(system); };
    judge_bars(section, reading, prefix, {System::kJournal, System::kShadow, System::kThyNvm});
    Sentence says(section, in(reading, paper::kBandwidthText));
    const auto judge_less = [&](System less, System than, double stated) {
      const Found found = percent(section, ours(less), ours(than));
      says.holds(fmt::format("{}{} writes less than {}", prefix, name_of(less), name_of(than)),
                 found, below(100));
      judge_mean(says, fmt::format("{}{}'s MB/s, of {}'s", prefix, name_of(less), name_of(than)),
                 found, 100 - stated, percent(section, bar(less), bar(than)));
    };
    judge_less(System::kThyNvm, System::kShadow, paper::kBandwidthOfShadow[store]);
    judge_less(System::kJournal, System::kThyNvm, paper::kBandwidthOfJournal[store]);
  }
}

void judge_programs(Section& section, Reading reading) {
  const std::string ours = series_name(reading, System::kThyNvm);
  const std::string nvm = series_name(reading, System::kNvm);
  const auto mean = [&](const std::string& name) {
    std::vector<double> values;
    for (std::size_t place = 0; place < section.x.size(); ++place)
      values.push_back(section.find(name)->at(place));
    return values.empty() ? Found()
                          : reproduce::number(100 * geometric_mean(values), "%", "on average",
                                              fmt::format("of {} programs", values.size()));
  };
  Sentence says(section, in(reading, paper::kSpecText));
  judge_mean(says, "its IPC, of Ideal DRAM's", mean(ours), 100 * paper::kSpecOfDram,
             mean("paper: thynvm"));
  judge_mean(says, "its IPC, of Ideal NVM's", percent(section, ours, nvm), 100 * paper::kSpecOfNvm,
             percent(section, "paper: thynvm", "paper: nvm"));
  says.holds("more than Ideal NVM's", percent(section, ours, nvm), above(100));
  judge_bars(section, reading, "", {System::kNvm, System::kThyNvm});
}

void judge_table_sizes(Section& section, Reading reading) {
  const std::string name(memory::reading_name(reading));
  const double small = section.x.front();
  const double large = section.x.back();
  const auto grows = [&](const std::string& series) {
    Found found = reproduce::growth(section, series, small, large);
    return reproduce::divided(found, 0.01, "%");
  };
  Sentence says(section, in(reading, paper::kEntriesText));
  const Found bytes = grows(name + ", written");
  const Found rate = grows(name);
  says.holds("fewer bytes with the largest table than with the smallest", bytes, below(100));
  says.holds("more throughput", rate, above(100));
  const Found paper_bytes = grows("paper: ThyNVM, written");
  const Found paper_rate = grows("paper: ThyNVM");
  says.holds("by the bars: its bytes, of those with the smallest", bytes,
             within_points(paper_bytes ? value(paper_bytes) : 0, kPoints, "the bars"));
  says.holds("by the bars: its throughput, of that with the smallest", rate,
             within_points(paper_rate ? value(paper_rate) : 0, kPoints, "the bars"));
}

}  // namespace perdure::bench::thynvm
