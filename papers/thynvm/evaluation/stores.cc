// SPDX-License-Identifier: BSD-3-Clause
// Figures 9, 10 and 12: the two key-value stores, which are our containers in a program that runs under the emulator.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "papers/thynvm/evaluation/claims.h"
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

Section figure9(const Runs& runs, std::uint64_t operations) {
  Section section = section_of(
      runs, "figure9", "Figure 9: transaction throughput of two key-value stores", operations);
  add_series(section, runs, "hash", ktps, "KTPS", paper::kHashKtps);
  add_series(section, runs, "rbtree", ktps, "KTPS", paper::kTreeKtps);
  for (const Reading reading : kReadings) judge_throughput(section, reading);
  return section;
}

Section figure10(const Runs& runs, std::uint64_t operations) {
  Section section =
      section_of(runs, "figure10", "Figure 10: write bandwidth of the two stores", operations);
  add_series(section, runs, "hash", mbps, "MB/s", paper::kHashMbps);
  add_series(section, runs, "rbtree", mbps, "MB/s", paper::kTreeMbps);
  for (const Reading reading : kReadings) judge_bandwidth(section, reading);
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
  }
  section.add_values("paper: ThyNVM", "KTPS", Origin::kPaper, papers);
  section.add_values("paper: ThyNVM, written", "GB", Origin::kPaper, papers_gb).charted = false;
  for (const Reading reading : kReadings) judge_table_sizes(section, reading);
  return section;
}

}  // namespace perdure::bench::thynvm
