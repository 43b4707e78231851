// SPDX-License-Identifier: BSD-3-Clause
// Figures 9, 10 and 12: the two key-value stores, which are our containers in a program that runs under the emulator.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {
namespace {

constexpr System kBars[] = {System::kDram, System::kNvm, System::kJournal, System::kShadow,
                            System::kThyNvm};
const std::vector<std::string> kBarNames = {"dram", "nvm", "journal", "shadow", "thynvm"};
const std::vector<std::string> kStores = {"hash", "rbtree"};

memory::Workload store(const Settings& settings, const std::string& name, double value_bytes) {
  memory::WorkloadOptions options;
  options.value_bytes = static_cast<std::uint32_t>(value_bytes);
  options.operations = settings.thynvm.operations;
  options.seed = settings.seed;
  return memory::make_workload(name, options);
}

double ktps(const Results& results) {
  return static_cast<double>(results.operations) / results.seconds() / 1e3;
}
double mbps(const Results& results) { return paper_bytes(results) / results.seconds() / 1e6; }

struct Runs {
  std::vector<double> values;
  std::vector<std::size_t> of_paper;                 // which of the paper's
  std::map<std::string, std::vector<ByMachine>> of;  // by store and value
};

Section section_of(const Runs& runs, const std::string& id, const std::string& title,
                   std::uint64_t operations) {
  Section section;
  section.id = id;
  section.title = title;
  section.method = fmt::format(
      "perdure::hash_map and perdure::rb_map in a program of their own under the emulator: a "
      "random key "
      "is inserted or erased, half of the keys are there at first; 32 MB of values for 16 and 64 "
      "bytes, 64 MB for 256 and 1,024, 128 MB for 4,096. {} operations.",
      operations);
  section.x_name = "bytes of a value";
  section.x = runs.values;
  section.log_y = true;
  return section;
}

using Value = double (*)(const Results&);

void add_series(Section& section, const Runs& runs, const std::string& name, Value value,
                const std::string& unit, const std::array<paper::Bars, 5>& papers) {
  for (std::size_t bar = 0; bar < std::size(kBars); ++bar) {
    for (const Reading reading : kReadings) {
      std::vector<std::optional<double>> ours;
      for (const ByMachine& machines : runs.of.at(name))
        ours.emplace_back(value(machines.at({reading, kBars[bar]})));
      section.add_values(fmt::format("{}, {}", name, series_name(reading, kBars[bar])), unit,
                         Origin::kPerdure, ours);
    }
    std::vector<std::optional<double>> theirs;
    for (const std::size_t place : runs.of_paper) theirs.emplace_back(papers[place][bar]);
    section.add_values(fmt::format("paper: {}, {}", name, kBarNames[bar]), unit, Origin::kPaper,
                       theirs);
  }
}

Order order_of(const Runs& runs, const std::string& name, Reading reading, Value value,
               const std::array<paper::Bars, 5>& papers) {
  std::vector<std::vector<double>> ours, theirs;
  std::vector<std::string> places;
  for (std::size_t x = 0; x < runs.values.size(); ++x) {
    ours.emplace_back();
    for (const System system : kBars)
      ours.back().push_back(value(runs.of.at(name)[x].at({reading, system})));
    const paper::Bars& bars = papers[runs.of_paper[x]];
    theirs.emplace_back(bars.begin(), bars.end());
    places.push_back(fmt::format("{} {:g}", name, runs.values[x]));
  }
  return compare_orders(ours, theirs, places, kBarNames);
}

double mean_ratio(const Runs& runs, const std::string& name, Reading reading, Value value,
                  System above, System below) {
  std::vector<double> ratios;
  for (const ByMachine& machines : runs.of.at(name))
    ratios.push_back(value(machines.at({reading, above})) / value(machines.at({reading, below})));
  return geometric_mean(ratios);
}

Section figure9(const Runs& runs, std::uint64_t operations) {
  Section section = section_of(
      runs, "figure9", "Figure 9: transaction throughput of two key-value stores", operations);
  add_series(section, runs, "hash", ktps, "KTPS", paper::kHashKtps);
  add_series(section, runs, "rbtree", ktps, "KTPS", paper::kTreeKtps);
  for (const Reading reading : kReadings) {
    Order order = order_of(runs, "hash", reading, ktps, paper::kHashKtps);
    const Order tree = order_of(runs, "rbtree", reading, ktps, paper::kTreeKtps);
    order.same += tree.same;
    order.pairs += tree.pairs;
    if (!order.others.empty() && !tree.others.empty()) order.others += "; ";
    order.others += tree.others;
    judge_order(
        section, reading, order,
        "Our containers compute less for an operation than the paper's programs (its throughput "
        "with Ideal DRAM is lower): they write more in the same time.");
    std::string found;
    bool agrees = true;
    for (std::size_t i = 0; i < kStores.size(); ++i) {
      const double of_dram =
          mean_ratio(runs, kStores[i], reading, ktps, System::kThyNvm, System::kDram);
      const double of_journal =
          mean_ratio(runs, kStores[i], reading, ktps, System::kThyNvm, System::kJournal);
      found += fmt::format("{}{}: {:.1f} % of Ideal DRAM, {:+.1f} % over journaling",
                           i == 0 ? "" : "; ", kStores[i], 100 * of_dram, 100 * (of_journal - 1));
      agrees &= of_dram > paper::kStoresOfDram[i] - .05 &&
                of_dram < paper::kStoresOfDram[i] + .05 && of_journal > 1;
    }
    judge(section, fmt::format("{} ({})", paper::kStoresText, memory::reading_name(reading)), found,
          agrees, "As above: less is computed for each byte that is written.");
  }
  return section;
}

Section figure10(const Runs& runs, std::uint64_t operations) {
  Section section =
      section_of(runs, "figure10", "Figure 10: write bandwidth of the two stores", operations);
  add_series(section, runs, "hash", mbps, "MB/s", paper::kHashMbps);
  add_series(section, runs, "rbtree", mbps, "MB/s", paper::kTreeMbps);
  for (const Reading reading : kReadings) {
    std::string found;
    bool agrees = true;
    for (const std::string& name : kStores) {
      std::vector<double> shadow, journal;
      for (const ByMachine& machines : runs.of.at(name)) {
        shadow.push_back(paper_bytes(machines.at({reading, System::kThyNvm})) /
                         paper_bytes(machines.at({reading, System::kShadow})));
        journal.push_back(paper_bytes(machines.at({reading, System::kJournal})) /
                          paper_bytes(machines.at({reading, System::kThyNvm})));
      }
      const double of_shadow = geometric_mean(shadow), of_thynvm = geometric_mean(journal);
      found += fmt::format(
          "{}{}: ThyNVM {:+.0f} % of shadow paging's bytes, journaling {:+.0f} % of ThyNVM's",
          found.empty() ? "" : "; ", name, 100 * (of_shadow - 1), 100 * (of_thynvm - 1));
      agrees &= of_shadow < 1 && of_thynvm < 1;
    }
    judge(section,
          fmt::format("{} ({}; here bytes for the same work)", paper::kBandwidthText,
                      memory::reading_name(reading)),
          found, agrees,
          "ThyNVM copies less here than in the paper (Figure 8): no clean block is exchanged "
          "during a "
          "checkpoint.");
  }
  return section;
}

}  // namespace

std::vector<Section> measure_stores(const Settings& settings) {
  Runs runs;
  runs.of_paper = settings.thynvm.values;
  for (const std::size_t place : runs.of_paper) runs.values.push_back(paper::kValues[place]);
  const std::vector<System> systems(std::begin(kBars), std::end(kBars));
  std::size_t done = 0;
  for (const std::string& name : kStores) {
    for (const double value : runs.values) {
      reproduce::tell_progress(fmt::format("{}, {:g} bytes", name, value), done++,
                               kStores.size() * runs.values.size());
      runs.of[name].push_back(run(store(settings, name, value), both_readings(systems)));
    }
  }
  return {figure9(runs, settings.thynvm.operations), figure10(runs, settings.thynvm.operations)};
}

Section measure_table_sizes(const Settings& settings) {
  Section section;
  section.id = "figure12";
  section.title = "Figure 12: the size of the block table";
  section.method = fmt::format(
      "The hash table with values of 256 bytes, {} operations, on ThyNVM. Bytes "
      "for each operation, to NVM.",
      settings.thynvm.operations);
  section.x_name = "entries of the block table";
  std::map<Reading, std::vector<std::optional<double>>> rates, bytes;
  std::vector<std::optional<double>> papers, papers_gb;
  for (const std::uint32_t entries : settings.thynvm.block_entries) {
    reproduce::tell_progress("figure 12", section.x.size(), settings.thynvm.block_entries.size());
    const ByMachine machines =
        run(store(settings, "hash", 256), both_readings({System::kThyNvm}, [&](auto& model) {
              model.block_entries = entries;
              if (model.flush_after_dirtied != 0) model.flush_after_dirtied = entries;
            }));
    section.x.push_back(entries);
    for (const Reading reading : kReadings) {
      const Results& results = machines.at({reading, System::kThyNvm});
      rates[reading].emplace_back(ktps(results));
      bytes[reading].emplace_back(paper_bytes(results) / static_cast<double>(results.operations));
    }
    const auto at =
        std::size_t(std::ranges::find(paper::kEntries, double(entries)) - paper::kEntries.begin());
    papers.emplace_back(paper::kFigure12Ktps.at(at));
    papers_gb.emplace_back(paper::kFigure12Gb.at(at));
  }
  for (const Reading reading : kReadings) {
    const std::string name(memory::reading_name(reading));
    section.add_values(name, "KTPS", Origin::kPerdure, rates[reading]);
    section.add_values(name + ", written", "bytes/operation", Origin::kPerdure, bytes[reading])
        .charted = false;
    const double gain = *rates[reading].back() / *rates[reading].front();
    const double less = *bytes[reading].back() / *bytes[reading].front();
    judge(section, fmt::format("{} ({})", paper::kEntriesText, name),
          fmt::format("from {} to {} entries: throughput {:+.1f} %, bytes {:+.1f} %",
                      settings.thynvm.block_entries.front(), settings.thynvm.block_entries.back(),
                      100 * (gain - 1), 100 * (less - 1)),
          gain > 1 && less < 1,
          "Caches are flushed each time that they dirtied a table's worth of blocks, and an "
          "epoch's end "
          "saves the whole table: small tables do both oftener, but large ones keep each block "
          "longer.");
  }
  section.add_values("paper: ThyNVM", "KTPS", Origin::kPaper, papers);
  section.add_values("paper: ThyNVM, written", "GB", Origin::kPaper, papers_gb).charted = false;
  return section;
}

}  // namespace perdure::bench::thynvm
