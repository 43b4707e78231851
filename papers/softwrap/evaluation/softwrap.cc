// SPDX-License-Identifier: BSD-3-Clause
// The evaluation of SoftWrAP: Tables I and II, Figures 4 to 14. (Figure 16: papers/softwrap/evaluation/figure16.cc.)
#include <algorithm>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "measure/scratch_memory.h"
#include "measure/settings.h"
#include "papers/pool.h"
#include "papers/softwrap/evaluation/claims.h"
#include "papers/softwrap/evaluation/paper_softwrap.h"
#include "papers/softwrap/evaluation/wrap_job.h"
#include "papers/softwrap/evaluation/wrap_tx.h"
#include "perdure/container/btree_map.h"
#include "perdure/domain/adr.h"
#include "perdure/domain/latency.h"

namespace perdure::bench::reproduce {
namespace {

const std::vector<WrapSystem> kSystems = {kSoftWrap, kIsolated, kNonAtomic,
                                          kUndoLog,  kPages,    kDefault};
const std::vector<WrapSystem> kEverything = {kSoftWrap, kIsolated,      kNonAtomic, kUndoLog,
                                             kPages,    kPagesIsolated, kDefault};

WrapLoad wrap_options(const Settings& settings) {
  WrapLoad options;
  options.dir = settings.dir;
  options.seed = settings.seed;
  options.array_words = settings.softwrap.array_words;
  return options;
}

Section section_of(std::string id, std::string title, std::string x_name, std::string method,
                   const std::vector<double>& x) {
  Section section;
  section.id = std::move(id);
  section.title = std::move(title);
  section.x_name = std::move(x_name);
  section.method = std::move(method);
  section.x = x;
  section.missing =
      "The paper's values are in a picture only; the sentences of its text stand below.";
  return section;
}

/// 1, 2, 4, ... up to the number of CPUs, and twice as many.
std::vector<unsigned> threads_beyond(unsigned cpus) {
  std::vector<unsigned> threads;
  for (unsigned count = 1; count < cpus; count *= 2) threads.push_back(count);
  threads.push_back(cpus);
  threads.push_back(2 * cpus);
  return threads;
}

enum class Shown : std::uint8_t { kResponse, kRate, kBoth };

/// Races the systems at each place of the section's x, and adds their series.
void race_along(Section& section, const std::vector<WrapSystem>& systems, const Settings& settings,
                Shown shown,
                const std::function<double(std::size_t place, WrapLoad&)>& arrivals_per_s) {
  std::vector<std::vector<std::optional<Spread>>> response(systems.size());
  std::vector<std::vector<std::optional<Spread>>> rate(systems.size());
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    tell_progress(section.title.substr(0, section.title.find(':')), place, section.x.size());
    WrapLoad options = wrap_options(settings);
    const double per_s = arrivals_per_s(place, options);
    const auto results = race_wraps(systems, options, per_s, settings.rules);
    for (std::size_t i = 0; i < systems.size(); ++i) {
      response[i].emplace_back(results[i].response_us);
      rate[i].emplace_back(results[i].per_s);
    }
  }
  for (std::size_t i = 0; i < systems.size(); ++i) {
    const std::string name(systems[i].name);
    if (shown != Shown::kRate)
      section.add(name, "us", Origin::kPerdure).values = std::move(response[i]);
    if (shown == Shown::kResponse) continue;
    Series& rates =
        section.add(shown == Shown::kBoth ? name + ", rate" : name, "wraps/s", Origin::kPerdure);
    rates.values = std::move(rate[i]);
    rates.charted = shown == Shown::kRate;
  }
}

/// Fences and lines of a wrap of each size.
void count_wraps(Section& section, const WrapSystem& system, const Settings& settings) {
  std::vector<std::optional<double>> fences;
  std::vector<std::optional<double>> lines;
  for (const double stores : section.x) {
    WrapLoad options = wrap_options(settings);
    options.stores = static_cast<unsigned>(stores);
    const WrapCounts counts = counts_of(system, options, settings.rules.seconds);
    fences.emplace_back(counts.fences);
    lines.emplace_back(counts.lines);
  }
  const std::string name(system.name);
  section.add_values(name + ", fences", "per wrap", Origin::kPerdure, fences).charted = false;
  section.add_values(name + ", lines", "per wrap", Origin::kPerdure, lines).charted = false;
}

/// The lines of SoftWrAP's log alone: tables and logs are so large that nothing goes home.
void count_log_lines(Section& section, const Settings& settings) {
  std::vector<std::optional<double>> lines;
  for (const double stores : section.x) {
    WrapLoad options = wrap_options(settings);
    options.stores = static_cast<unsigned>(stores);
    options.alias_words = std::uint64_t{1} << 20;
    options.log_bytes = std::uint64_t{1} << 24;
    options.least_wraps = 2000;
    lines.emplace_back(counts_of(kSoftWrap, options, 0).lines);
  }
  section.add_values("SoftWrAP, log lines", "per wrap", Origin::kPerdure, lines).charted = false;
}

/// Table II's estimates: the paper's formulas, with T_alias of the first place of the section.
void add_estimates(Section& section) {
  using namespace paper_softwrap;
  const double alias_ns = alias_ns_of(section.x.front(), section.find("SoftWrAP")->at(0));
  const auto add = [&](const char* name, const char* unit, auto estimate) {
    std::vector<std::optional<double>> values;
    for (std::size_t i = 0; i < section.x.size(); ++i) values.emplace_back(estimate(i));
    section.add_values(name, unit, Origin::kDerived, values).charted = false;
  };
  add("Non-Atomic, estimate", "us", [&](auto i) { return non_atomic_estimate_us(section.x[i]); });
  add("Undo Log, estimate", "us", [&](auto i) { return undo_estimate_us(section.x[i]); });
  add("SoftWrAP, estimate", "us",
      [&](auto i) { return softwrap_estimate_us(section.x[i], alias_ns); });
  add("SoftWrAP, T_alias", "ns",
      [&](auto i) { return alias_ns_of(section.x[i], section.find("SoftWrAP")->at(i)); });
}

}  // namespace

Section measure_wraps(const Settings& settings) {
  Section section = section_of(
      "table2", "Tables I and II, Figure 5: wraps of n stores", "stores in a wrap",
      "10,000 wraps a second of stores to random words of 8 bytes (the paper's have 4), T_w 1 us, "
      "T_s "
      "220 ns; every page has been stored to before. SoftWrAP is the paper's face, where isolation "
      "is the "
      "caller's; isolated it is a transaction, like Non-Atomic, Undo Log and our default. Fences "
      "and lines are counted in other runs; SoftWrAP's are those of log and retirement together, "
      "log lines those of the log alone. Estimates are Table I's formulas, with T_alias computed "
      "from the first place.",
      {paper_softwrap::kStores.begin(), paper_softwrap::kStores.end()});
  section.missing.clear();
  race_along(section, kEverything, settings, Shown::kResponse,
             [&](std::size_t place, WrapLoad& options) {
               options.stores = static_cast<unsigned>(section.x[place]);
               return 10'000.0;
             });
  const auto paper = [&](const char* name, const std::array<double, 3>& values) {
    section.add_values(name, "us", Origin::kPaper, {values.begin(), values.end()});
  };
  paper("paper: Non-Atomic", paper_softwrap::kNonAtomicUs);
  paper("paper: Undo Log", paper_softwrap::kUndoUs);
  paper("paper: SoftWrAP", paper_softwrap::kSoftWrapUs);
  paper("paper: Non-Atomic, estimate", paper_softwrap::kNonAtomicEstimates);
  paper("paper: Undo Log, estimate", paper_softwrap::kUndoEstimates);
  paper("paper: SoftWrAP, estimate", paper_softwrap::kSoftWrapEstimates);
  for (const WrapSystem& system : kEverything) count_wraps(section, system, settings);
  count_log_lines(section, settings);
  add_estimates(section);

  paper_softwrap::judge_wraps(section);
  return section;
}

Section measure_store_times(const Settings& settings) {
  Section section =
      section_of("figure4", "Figure 4: time of a store", "stores in a group",
                 "Words of 8 bytes, written through; time of a group and the wait at its end, for "
                 "each store. DRAM: the same without the emulated buffer.",
                 {1, 4, 16, 64, 256, 1024});
  const ScratchMemory memory(settings.dir, std::uint64_t{64} << 20);
  const std::uint64_t words = memory.bytes() / kWordBytes;
  std::mt19937_64 random(settings.seed);
  const auto series = [&](const std::string& name, auto domain, bool sequential) {
    std::vector<std::optional<Spread>> values;
    for (const double group : section.x) {
      const auto stores = static_cast<std::uint64_t>(group);
      std::vector<double> runs;
      for (unsigned repetition = 0; repetition < settings.rules.repetitions; ++repetition) {
        const std::uint64_t groups = std::max<std::uint64_t>(1, 2048 / stores);
        const std::uint64_t begin = TscClock::now();
        for (std::uint64_t i = 0; i < groups; ++i) {
          std::uint64_t place = random() % (words - stores);
          for (std::uint64_t store = 0; store < stores; ++store) {
            const Word value = store;
            domain.write_through(memory.words() + place, &value, 1, Site::kUserFlush);
            place = sequential ? place + 1 : random() % words;
          }
          (void)domain.fence(Site::kUserFence);
        }
        runs.push_back(static_cast<double>(TscClock::now() - begin) / TscClock::ticks_per_ns() /
                       static_cast<double>(groups * stores));
      }
      values.emplace_back(spread_of(runs));
    }
    section.add(name, "ns", Origin::kPerdure).values = std::move(values);
  };
  using Memory = Adr<x86::Clflushopt>;
  const auto emulated = [] {
    return Latency<Memory>(write_combining_buffer(paper_softwrap::kLineNs, 0), Memory{});
  };
  series("emulated, random", emulated(), false);
  series("emulated, sequential", emulated(), true);
  series("DRAM, random", Memory{}, false);
  series("DRAM, sequential", Memory{}, true);
  section.log_y = true;
  paper_softwrap::judge_store_times(section);
  return section;
}

Section measure_arrivals(const Settings& settings) {
  Section section =
      section_of("figure6", "Figure 6: response time and throughput", "arrivals (wraps/s)",
                 "Wraps of 10 stores, alias tables of 8 K entries, T_w 1 us. Beyond what "
                 "a system can do its response grows with the length of the run.",
                 settings.softwrap.arrivals_per_s);
  race_along(section, kSystems, settings, Shown::kBoth,
             [&](std::size_t place, WrapLoad&) { return section.x[place]; });
  section.log_y = true;
  paper_softwrap::judge_arrivals(section);
  return section;
}

Section measure_alias_tables(const Settings& settings) {
  constexpr std::uint64_t kTablesFilled = 2;  // by a run
  Section section =
      section_of("figure7", "Figure 7: size of the alias tables", "entries",
                 "SoftWrAP, wraps of 10 stores as fast as they go, T_w 1 us. Logs are so large "
                 "that only full tables are retired, and a run fills several.",
                 {});
  for (const std::uint64_t words : settings.softwrap.alias_words)
    section.x.push_back(static_cast<double>(words));
  race_along(section, {kSoftWrap, kIsolated}, settings, Shown::kRate,
             [&](std::size_t place, WrapLoad& options) {
               options.alias_words = settings.softwrap.alias_words[place];
               // An eighth of a table's words, in records of two words each, twice over.
               options.log_bytes = std::max(options.log_bytes, options.alias_words * kWordBytes);
               options.least_wraps = kTablesFilled * options.alias_words / 8 / options.stores;
               return 0.0;
             });
  paper_softwrap::judge_alias_tables(section);
  return section;
}

Section measure_responses_over_time(const Settings& settings) {
  Section section = section_of("figure8", "Figure 8: response over time", "time (us)",
                               "SoftWrAP, 50,000 wraps of 10 stores a second, alias tables of 8 K "
                               "entries, T_w 1 us. One run, the wraps of each quarter of a "
                               "millisecond together.",
                               {});
  constexpr double kSliceUs = 250;
  constexpr std::size_t kSlices = 40;
  for (std::size_t slice = 0; slice < kSlices; ++slice)
    section.x.push_back(static_cast<double>(slice) * kSliceUs);
  WrapLoad options = wrap_options(settings);
  options.trace = true;
  constexpr double kPerS = 50'000;
  for (const WrapSystem& system : {kSoftWrap, kIsolated}) {
    options.engine = system.engine;
    options.by_wraps = system.by_wraps;
    WrapJob job(options);
    job.run(settings.rules.seconds / 4, kPerS);
    const auto trace = job.run(kSlices * kSliceUs / 1e6, kPerS).trace;
    std::vector<std::optional<double>> highest(kSlices);
    std::vector<std::optional<double>> mean(kSlices);
    for (std::size_t slice = 0; slice < kSlices; ++slice) {
      std::size_t wraps = 0;
      for (const WrapJob::Answer& answer : trace) {
        if (static_cast<std::size_t>(answer.at_us / kSliceUs) != slice) continue;
        highest[slice] = std::max(highest[slice].value_or(0), answer.response_us);
        mean[slice] = mean[slice].value_or(0) + answer.response_us;
        ++wraps;
      }
      if (wraps != 0) *mean[slice] /= static_cast<double>(wraps);
    }
    const std::string prefix = system.by_wraps ? "" : "isolated: ";
    section.add_values(prefix + "highest", "us", Origin::kPerdure, highest);
    section.add_values(prefix + "mean", "us", Origin::kPerdure, mean);
  }
  // A table is full when one in eight of its entries is taken.
  const double filled =
      kPerS * options.stores * kSliceUs / 1e6 / (static_cast<double>(options.alias_words) / 8);
  section
      .add_values("tables filled", "in a slice", Origin::kDerived,
                  std::vector<std::optional<double>>(kSlices, filled))
      .charted = false;
  paper_softwrap::judge_responses_over_time(section);
  return section;
}

Section measure_wrap_threads(const Settings& settings) {
  Section section =
      section_of("figure9", "Figure 9: threads", "threads",
                 "Wraps of 10 stores, each thread in an array of its own, alias tables "
                 "of 2^19 entries, T_w 1 us.",
                 {});
  const unsigned cpus = std::thread::hardware_concurrency();
  for (const unsigned threads :
       settings.softwrap.threads.empty() ? threads_beyond(cpus) : settings.softwrap.threads)
    section.x.push_back(threads);
  race_along(section, kSystems, settings, Shown::kRate, [&](std::size_t place, WrapLoad& options) {
    options.threads = static_cast<unsigned>(section.x[place]);
    options.alias_words = std::uint64_t{1} << 19;
    return 0.0;
  });
  paper_softwrap::judge_threads(section, cpus);
  return section;
}

Section measure_line_times(const Settings& settings) {
  Section section = section_of("figure10", "Figure 10: slower memory", "T_w (ns)",
                               "Wraps of 10 stores, 50,000 a second.", settings.softwrap.line_ns);
  race_along(section, kSystems, settings, Shown::kResponse,
             [&](std::size_t place, WrapLoad& options) {
               options.line_ns = section.x[place];
               return 50'000.0;
             });
  paper_softwrap::judge_line_times(section);
  return section;
}

Section measure_wrap_sizes(const Settings& settings) {
  Section section = section_of("figure11", "Figure 11: size of wraps", "stores in a wrap",
                               "1,000 wraps a second, T_w 1 us.", {});
  for (const unsigned stores : settings.softwrap.stores) section.x.push_back(stores);
  race_along(section, kSystems, settings, Shown::kResponse,
             [&](std::size_t place, WrapLoad& options) {
               options.stores = settings.softwrap.stores[place];
               return 1'000.0;
             });
  paper_softwrap::judge_wrap_sizes(section);
  return section;
}

Section measure_reuse(const Settings& settings) {
  Section section =
      section_of("figure12", "Figure 12: data reuse", "reuse (% of the stores)",
                 "Wraps of 10 stores as fast as they go; reused are the last 64 words. "
                 "T_w 1 us, alias tables of 8 K entries.",
                 {});
  for (const unsigned percent : settings.softwrap.reuse_percent) section.x.push_back(percent);
  race_along(section, kSystems, settings, Shown::kRate, [&](std::size_t place, WrapLoad& options) {
    options.reuse_percent = settings.softwrap.reuse_percent[place];
    return 0.0;
  });
  paper_softwrap::judge_reuse(section);
  return section;
}

Section measure_tree_inserts(const Settings& settings) {
  Section section = section_of(
      "figure14", "Figures 13 and 14: inserts into a B+ tree", "random (0: sequential)",
      fmt::format("btree_map, {} inserts of a number each, alias tables of 4 K entries, T_w 1 us. "
                  "(The paper's tree is STX's, with nodes of its own size.)",
                  settings.softwrap.tree_inserts),
      {0, 1});
  std::vector<std::vector<std::vector<double>>> runs(kSystems.size(),
                                                     std::vector<std::vector<double>>(2));
  for (unsigned repetition = 0; repetition < std::min(settings.rules.repetitions, 3u);
       ++repetition) {
    tell_progress("figure 14", repetition, std::min(settings.rules.repetitions, 3u));
    for (std::size_t order = 0; order < 2; ++order) {
      for (std::size_t i = 0; i < kSystems.size(); ++i) {
        const ScratchFile file(settings.dir, "tree");
        papers::LabOptions options;
        options.domain = DomainKind::kAdr;
        options.engine = kSystems[i].engine;
        options.latency = write_combining_buffer(paper_softwrap::kLineNs, paper_softwrap::kWaitNs);
        options.in_place_bytes = ~std::size_t{0};
        options.tables.limits.words = 4096;
        Pool pool = papers::create(file.path(), options).value();
        auto* tree = pool.root<btree_map<std::uint64_t, std::uint64_t>>("tree");
        Wraps wraps(pool, {{.words = options.tables.limits.words}});
        WrapTx in_wrap(pool, wraps);
        std::mt19937_64 random(settings.seed + repetition);
        const std::uint64_t begin = TscClock::now();
        for (std::uint64_t key = 0; key < settings.softwrap.tree_inserts; ++key) {
          const std::uint64_t at = order == 0 ? key : random();
          if (kSystems[i].by_wraps) {
            wraps.run([&] { tree->put(in_wrap, at, key); });
          } else {
            pool.atomically([&](Tx& tx) { tree->put(tx, at, key); });
          }
        }
        runs[i][order].push_back(static_cast<double>(TscClock::now() - begin) /
                                 TscClock::ticks_per_ns() / 1e3 /
                                 static_cast<double>(settings.softwrap.tree_inserts));
      }
    }
  }
  for (std::size_t i = 0; i < kSystems.size(); ++i)
    section.add(std::string(kSystems[i].name), "us", Origin::kPerdure).values = {
        spread_of(runs[i][0]), spread_of(runs[i][1])};
  section.add_values("paper: Non-Atomic", "us", Origin::kPaper,
                     {paper_softwrap::kTreeNonAtomicUs, std::nullopt});
  section.add_values("paper: Undo Log", "us", Origin::kPaper,
                     {paper_softwrap::kTreeUndoUs, std::nullopt});
  section.add_values("paper: SoftWrAP", "us", Origin::kPaper,
                     {paper_softwrap::kTreeSoftWrapUs, std::nullopt});
  section.missing = "The paper gives the random inserts in a picture only.";
  paper_softwrap::judge_tree_inserts(section);
  return section;
}

}  // namespace perdure::bench::reproduce
