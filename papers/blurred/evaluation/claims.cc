// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/evaluation/claims.h"

#include <algorithm>

#include <fmt/format.h>

#include "measure/claim.h"
#include "papers/blurred/evaluation/paper_blurred.h"
#include "papers/blurred/evaluation/paper_jobs.h"

namespace perdure::bench::reproduce::paper_blurred {
namespace {

std::string of_work(Work work, const std::string& system) {
  return fmt::format("{}: {}", work_name(work), system);
}

/// "SPS, us: BASE 2.1, MNE 1.8": what the systems of a section take for a transaction at one place.
std::string costs_at(const Section& section, double x) {
  std::string costs;
  for (const char* system : {"BASE", "BASE+stream", "MNE", "BP(XIL)", "BP(VCBP)", "BPPM", "NP"}) {
    const Found rate = value_at(section, system, x);
    if (!rate) continue;
    costs += fmt::format("{} {} {:.2f}", costs.empty() ? rate->where + " takes, in us:" : ",",
                         system, 1e6 / rate->value.median);
  }
  return costs + ".";
}

/// A gain of each workload, and their mean.
void judge_gain(Section& section, const std::string& more, const std::string& than,
                const Gain& paper) {
  const auto gains = everywhere(section, [&](double x) { return gain_at(section, more, than, x); });
  const auto costs = [&] { return costs_at(section, section.x.front()); };
  Sentence says(section, paper.text);
  if (paper.low != paper.high)
    says.holds_for_each("on every workload", gains, percent_more(paper.low, paper.high))
        .because(costs);
  says.holds("on average", mean_of(gains), percent_more(paper.mean, paper.mean)).because(costs);
}

Found degradation(const Section& section, const std::string& system) {
  return mean_of(everywhere(section, [&](double x) { return loss_at(section, system, "NP", x); }));
}

}  // namespace

Found overhead_removed(const Section& section, const std::string& prefix, double x) {
  const Found base = value_at(section, prefix + "BASE", x);
  const Found blurred = value_at(section, prefix + "BPPM", x);
  const Found none = value_at(section, prefix + "NP", x);
  if (!base || !blurred || !none) return std::nullopt;
  const auto share = [&](double of_base, double of_blurred) {
    return 100 * (1 / of_base - 1 / of_blurred) / (1 / of_base - 1 / none->value.median);
  };
  const Spread& b = base->value;
  const Spread& p = blurred->value;
  if (b.median >= none->value.median) return std::nullopt;  // nothing can be removed
  Spread removed{share(b.median, p.median), 0, 0};
  removed.min = removed.max = removed.median;
  for (const double of_base : {b.min, b.max}) {
    if (of_base >= none->value.median) continue;
    for (const double of_blurred : {p.min, p.max}) {
      removed.min = std::min(removed.min, share(of_base, of_blurred));
      removed.max = std::max(removed.max, share(of_base, of_blurred));
    }
  }
  return Number{removed, "% of the overhead", base->where,
                fmt::format("a transaction takes BASE {:.2f} us, BPPM {:.2f}, NP {:.2f}",
                            1e6 / b.median, 1e6 / p.median, 1e6 / none->value.median)};
}

void judge_one_thread(Section& section) {
  judge_gain(section, "BPPM", "BASE", kOverBase);
  judge_gain(section, "BPPM", "MNE", kOverMnemosyne);
  judge_gain(section, "BP(XIL)", "BASE", kInLog);
  judge_gain(section, "BP(VCBP)", "BASE", kVolatileCheckpoint);
  Sentence combines(section, kWriteCombining);
  for (const char* system : {"MNE", "BASE+stream"})
    combines.holds_for_each(
        fmt::format("{} is ahead of BASE on every workload", system),
        everywhere(section, [&](double x) { return ratio_at(section, system, "BASE", x); }),
        above(1));
  Sentence says(section, kDegradationText);
  const Found base = degradation(section, "BASE");
  const Found blurred = degradation(section, "BPPM");
  says.holds("BASE loses 62.1 % of NP's throughput", base,
             percent_less(kDegradation, kDegradation));
  says.holds(
      "BPPM loses about half as much",
      base && blurred ? divided(blurred, base->value.median, "x of BASE's loss") : std::nullopt,
      near(0.5, " of BASE's loss"));
}

void judge_threads(Section& section, unsigned cpus) {
  const double cores = cpus;
  Sentence says(section, kThreads);
  const Work works[] = {Work::kHash, Work::kRbTree};
  for (const Work work : works) {
    std::vector<Found> up;
    std::vector<Found> down;
    for (const char* system : {"BASE", "MNE", "BPPM", "NP"}) {
      up.push_back(growth(section, of_work(work, system), 1, cores));
      down.push_back(growth(section, of_work(work, system), cores, 2 * cores));
    }
    says.holds_for_each(
        fmt::format("{}: every system's throughput grows up to a thread for each core",
                    work_name(work)),
        up, above(1));
    says.holds_for_each(
        fmt::format("{}: it drops with twice as many threads as cores", work_name(work)), down,
        below(1));
    const std::string aborts = of_work(work, "BPPM, aborts");
    says.holds(fmt::format("{}: with as many threads as cores about 1 % abort", work_name(work)),
               value_at(section, aborts, cores), half_to_double(1, 1, " %"));
    says.holds(
        fmt::format("{}: with twice as many threads as cores over 50 % abort", work_name(work)),
        value_at(section, aborts, 2 * cores), above(50));
  }
  Sentence reduces(section, kThreadsOverhead);
  for (std::size_t i = 0; i < std::size(works); ++i)
    reduces.holds_for_each(fmt::format("{}: with any number of threads", work_name(works[i])),
                           everywhere(section,
                                      [&](double x) {
                                        return overhead_removed(
                                            section, fmt::format("{}: ", work_name(works[i])), x);
                                      }),
                           half_to_double(kThreadsRemoved[i], kThreadsRemoved[i], " %"));
}

void judge_value_sizes(Section& section) {
  const double small = section.x.front();
  const double large = section.x.back();
  Sentence says(section, kValues);
  for (const char* system : {"BASE", "MNE", "BPPM"}) {
    const Found rate = growth(section, system, small, large);
    says.holds(fmt::format("{}: fewer transactions a second with larger values", system), rate,
               below(1));
    says.holds(fmt::format("{}: more bytes a second with larger values", system),
               divided(rate, small / large, "x"), above(1));
  }
  const Found of_small = overhead_removed(section, "", small);
  const Found of_large = overhead_removed(section, "", large);
  says.holds("at 8 B BPPM removes 39.7 % of the overhead",
             small == kSmallestValue ? of_small : std::nullopt,
             half_to_double(kSmallestRemoved, kSmallestRemoved, " %"));
  says.holds("at 4096 B it removes 23.0 %", large == kLargestValue ? of_large : std::nullopt,
             half_to_double(kLargestRemoved, kLargestRemoved, " %"));
  says.holds("what it removes drops with larger values",
             of_small && of_large
                 ? number(of_large->value.median - of_small->value.median, "points", "",
                          fmt::format("{:.1f} % at {:g} B, {:.1f} % at {:g} B",
                                      of_small->value.median, small, of_large->value.median, large))
                 : std::nullopt,
             below(0));
  says.because([&] { return costs_at(section, small) + " " + costs_at(section, large); });
}

void judge_transaction_sizes(Section& section) {
  Sentence says(section, kTransactions);
  const auto grows = [&](const char* system) {
    return growth(section, system, section.x.front(), section.x.back());
  };
  for (const char* system : {"BASE", "MNE", "BPPM"})
    says.holds(fmt::format("{} does more operations a second", system), grows(system), above(1));
  says.holds("NP does as many", grows("NP"), near(1, "x"));
}

void judge_log_sizes(Section& section) {
  std::vector<Found> gains;
  const double large = std::find(section.x.begin(), section.x.end(), 2048) != section.x.end()
                           ? 2048
                           : section.x.back();
  for (const Work work : kAllWork) {
    Found found = growth(section, of_work(work, "BPPM"), section.x.front(), large);
    if (found) found->where = std::string(work_name(work));
    gains.push_back(std::move(found));
  }
  Sentence says(section, kLogs);
  says.holds("more throughput on average", mean_of(gains), above(1));
  says.holds_for_each("slightly: a quarter at most on every workload", gains, near(1, "x"));
}

void judge_recovery(Section& section) {
  constexpr double kSmallKib = 104;
  constexpr double kLargeKib = 2048;
  Sentence says(section, kRecovery);
  says.holds("3.2 us with a log of 0.1 MB", value_at(section, "most", kSmallKib),
             half_to_double(kRecoverySmallUs, kRecoverySmallUs, " us"));
  says.because([&] {
    return fmt::format("{} records of 16 bytes fit into it: 3.2 us are {:.1f} ns for each.",
                       kSmallKib * 1024 / 16, kRecoverySmallUs * 1e3 / (kSmallKib * 1024 / 16));
  });
  says.holds("49.8 us with a log of 2 MB", value_at(section, "most", kLargeKib),
             half_to_double(kRecoveryLargeUs, kRecoveryLargeUs, " us"));
  const double from = section.x.front();
  const double to = section.x.back();
  says.holds("almost linear: the time grows as the log does",
             divided(growth(section, "most", from, to), to / from, "x of the log's growth"),
             half_to_double(1, 1, "x"));
}

void judge_idle_times(Section& section) {
  Sentence says(section, kIdle);
  for (const char* other : {"MNE", "MNE-ASYNC"})
    says.holds_for_each(
            fmt::format("BPPM is ahead of {} at every idle time", other),
            everywhere(section, [&](double x) { return ratio_at(section, "BPPM", other, x); }),
            above(1))
        .because([&] { return costs_at(section, section.x.back()); });
  const double idle = section.x.front();
  const double busy = section.x.back();
  says.holds("less idle time, more throughput", growth(section, "BPPM", idle, busy), above(1));
  says.holds("the busiest program is slower with MNE-ASYNC than with MNE-SYNC",
             ratio_at(section, "MNE-ASYNC", "MNE", busy), below(1));
}

void judge_memory_latencies(Section& section) {
  const double fast = section.x.front();
  const double slow = section.x.back();
  Sentence says(section, kSlowMemory);
  std::vector<Found> falls;
  for (const char* system : {"BASE", "MNE", "BP(XIL)", "BP(VCBP)", "BPPM"})
    falls.push_back(growth(section, system, fast, slow));
  says.holds_for_each("every system is slower with slower memory", falls, below(1));
  says.holds("at 35 ns BPPM gains 74.1 % over BASE", gain_at(section, "BPPM", "BASE", kFastestNs),
             percent_more(74.1, 74.1));
  says.because([&] { return costs_at(section, fast); });
  const Found triples = ratio_at(section, "BPPM", "BASE", kSlowestNs);
  says.holds("at 2000 ns it triples BASE", triples, times(3, 3));
  says.holds("at 2000 ns BP(VCBP) is nearly five times BASE",
             ratio_at(section, "BP(VCBP)", "BASE", kSlowestNs), times(5, 5));
  says.holds("at 2000 ns BP(VCBP) is ahead of BPPM",
             ratio_at(section, "BP(VCBP)", "BPPM", kSlowestNs), above(1));
  const Found gain = ratio_at(section, "BPPM", "BASE", kFastestNs);
  says.holds("BPPM's lead grows with the latency",
             gain && triples ? divided(triples, gain->value.median, "x of its lead at 35 ns")
                             : std::nullopt,
             above(1));
}

void judge_adaptive(Section& section) {
  std::vector<Found> of_best;
  std::vector<Found> others;  // BPPM over BP(VCBP) where memory is slow
  std::vector<Found> swaps;
  for (const Work work : kAllWork) {
    for (const double latency : section.x) {
      const auto found = [&](const char* above, const char* below) {
        Found ratio = ratio_at(section, of_work(work, above), of_work(work, below), latency);
        if (ratio) ratio->where = fmt::format("{} {}", work_name(work), ratio->where);
        return ratio;
      };
      const Found over_vcbp = found("BPPM-A", "BP(VCBP)");
      const Found over_bppm = found("BPPM-A", "BPPM");
      of_best.push_back(least({over_vcbp, over_bppm}));
      if (latency >= 1000)
        (work == Work::kSps ? swaps : others).push_back(found("BPPM", "BP(VCBP)"));
    }
  }
  Sentence says(section, kAdaptive);
  says.holds_for_each("on every workload, at every latency, by a tenth", of_best,
                      Band{.low = 0.9, .stated = "as good as the better mode: nine tenths"});
  Sentence slow(section, kSlowModes);
  slow.holds_for_each("the other four are slower in BPPM from 1000 ns on", others, below(1));
  slow.holds_for_each("SPS is quicker in BPPM from 1000 ns on", swaps, above(1));
  const auto swaps_above_threshold = [&](const char* above, const char* below) {
    return between(section, kThresholdNs, section.x.back(), [&](double latency) {
      return ratio_at(section, of_work(Work::kSps, above), of_work(Work::kSps, below), latency);
    });
  };
  Sentence fixed(section, kStatic);
  fixed.holds_for_each("beyond 200 ns SPS is slower than in BPPM",
                       swaps_above_threshold("static", "BPPM"), below(1));
  fixed.holds_for_each("there the dynamic choice is ahead",
                       swaps_above_threshold("BPPM-A", "static"), above(1));
}

void judge_warm_up(Section& section) {
  std::vector<Found> all;
  Sentence says(section, kWarmUp);
  for (const Work work : kAllWork) {
    const std::string name(work_name(work));
    const auto ms = everywhere(section, [&](double x) { return value_at(section, name, x); });
    all.insert(all.end(), ms.begin(), ms.end());
    says.holds_for_each(
        fmt::format("{}: the paper's milliseconds", name),
        everywhere(section, [&](double x) { return ratio_at(section, name, "paper: " + name, x); }),
        half_to_double(1, 1, "x"));
  }
  says.holds("tens or hundreds: below a second", greatest(all), below(1000));
  says.holds("tens or hundreds: ten or more", least(all), above(10));
}

}  // namespace perdure::bench::reproduce::paper_blurred
