// SPDX-License-Identifier: BSD-3-Clause
// Figures 7 and 8: the three access patterns; the same runs tell what the single schemes do and how long epochs are.
#include <algorithm>

#include <fmt/format.h>

#include "papers/thynvm/evaluation/claims.h"
#include "papers/thynvm/evaluation/sections.h"
#include "papers/thynvm/memory/generators.h"
#include "papers/thynvm/memory/thynvm.h"

namespace perdure::bench::thynvm {
namespace {

constexpr System kBars[] = {System::kDram, System::kNvm, System::kJournal, System::kShadow,
                            System::kThyNvm};
const std::vector<std::string> kPlaces = {"random", "streaming", "sliding"};
constexpr const char* kXName = "1 random, 2 streaming, 3 sliding";

// More than the paper's five: what the dual scheme is better than. The last one has blocks alone with the entries that its
// claim about hardware implies.
constexpr std::uint32_t kManyEntries = 22'000;

struct Runs {
  std::vector<ByMachine> of_pattern;
  std::vector<ByMachine> many_blocks;
};

Section section_of(std::string id, std::string title, std::string method) {
  Section section;
  section.id = std::move(id);
  section.title = std::move(title);
  section.method = std::move(method);
  section.x_name = kXName;
  section.x = {1, 2, 3};
  section.places = kPlaces;
  return section;
}

template <class Value>
std::vector<double> by_pattern(const Runs& runs, Value value) {
  std::vector<double> values;
  for (const ByMachine& machines : runs.of_pattern) values.push_back(value(machines));
  return values;
}

std::vector<std::optional<double>> optional(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

double time_of(const ByMachine& machines, Reading reading, System system) {
  return machines.at({reading, system}).seconds();
}

double relative_time(const ByMachine& machines, Reading reading, System system) {
  return time_of(machines, reading, system) / time_of(machines, reading, System::kDram);
}

/// Bytes written for each byte that the last cache wrote back.
double written_per_byte(const Results& results) {
  return paper_bytes(results) / static_cast<double>(results.traffic.cpu_lines * memory::kLineBytes);
}

Section figure7(const Settings& settings, const Runs& runs) {
  Section section = section_of(
      "figure7", "Figure 7: execution time of the micro-benchmarks",
      fmt::format("Simulated; f = {} (the paper's is 3). paper-code does what the authors' "
                  "published simulator does, strict what their text says "
                  "(papers/thynvm/memory/model.h). Ideal DRAM is 1. thynvm-overlap is no system "
                  "of the paper but ours: pages come into DRAM, and tables are saved, while the "
                  "next epoch runs; pages stay until their place is wanted.",
                  settings.thynvm.factor));
  for (std::size_t bar = 1; bar < std::size(kBars); ++bar) {
    for (const Reading reading : kReadings)
      section.add_values(series_name(reading, kBars[bar]), "x Ideal DRAM", Origin::kPerdure,
                         optional(by_pattern(runs, [&](const auto& m) {
                           return relative_time(m, reading, kBars[bar]);
                         })));
    std::vector<std::optional<double>> papers;
    for (const paper::Bars& bars : paper::kFigure7) papers.emplace_back(bars[bar]);
    section.add_values(fmt::format("paper: {}", memory::system_name(kBars[bar])), "x Ideal DRAM",
                       Origin::kPaper, papers);
  }
  for (const Reading reading : kReadings)
    section.add_values(series_name(reading, System::kThyNvmOverlap), "x Ideal DRAM",
                       Origin::kPerdure, optional(by_pattern(runs, [&](const auto& m) {
                         return relative_time(m, reading, System::kThyNvmOverlap);
                       })));
  for (const Reading reading : kReadings) {
    judge_micro(section, reading);
    judge_overlap(section, reading);
  }
  return section;
}

Section figure8(const Runs& runs) {
  Section section = section_of(
      "figure8", "Figure 8: NVM write traffic and checkpointing delay",
      "Bytes for each byte that the last cache wrote back, counted as in the paper: what "
      "the CPU writes back, wherever it goes, and what checkpoints and migration write "
      "to NVM. Stopped: the share of time in which the core stood still for an epoch's "
      "end or waited for a checkpoint.");
  constexpr System kWriters[] = {System::kJournal, System::kShadow, System::kThyNvm};
  for (std::size_t writer = 0; writer < std::size(kWriters); ++writer) {
    const System system = kWriters[writer];
    const std::string_view name = memory::system_name(system);
    for (const Reading reading : kReadings) {
      section.add_values(series_name(reading, system), "bytes", Origin::kPerdure,
                         optional(by_pattern(runs, [&](const auto& m) {
                           return written_per_byte(m.at({reading, system}));
                         })));
      section
          .add_values(series_name(reading, system) + ", stopped", "%", Origin::kPerdure,
                      optional(by_pattern(runs,
                                          [&](const auto& m) {
                                            return 100 * m.at({reading, system}).stopped_share();
                                          })))
          .charted = false;
    }
    std::vector<std::optional<double>> bytes, stopped;
    for (const auto& pattern : paper::kFigure8) {
      const paper::Writes& writes = pattern[writer];
      bytes.emplace_back((writes.cpu + writes.migration + writes.checkpoint) / writes.cpu);
      stopped.emplace_back(writes.stopped_percent);
    }
    section.add_values(fmt::format("paper: {}", name), "bytes", Origin::kPaper, bytes);
    section.add_values(fmt::format("paper: {}, stopped", name), "%", Origin::kPaper, stopped)
        .charted = false;
  }
  for (const Reading reading : kReadings) judge_traffic(section, reading);
  return section;
}

Section single_schemes(const Runs& runs) {
  const double bytes =
      memory::geometry_of(System::kThyNvm, memory::Model::of(Reading::kStrict)).table_bytes();
  const double alone = checkpoint::Geometry::kBlockEntryBits * double{kManyEntries} / 8;
  Section section = section_of(
      "schemes", "Sections 2.3 and 5: one scheme alone",
      fmt::format(
          "ThyNVM, and its two schemes alone: pages with the same 4,096 entries, blocks with the "
          "same "
          "2,048 and with {}. ThyNVM's tables take {:.1f} KB (2,048 entries of {} bits, 4,096 of "
          "{}; "
          "the paper: approximately 37), those {:.1f} KB, of which they are the paper's 26 %.",
          kManyEntries, bytes / 1000, checkpoint::Geometry::kBlockEntryBits,
          checkpoint::Geometry::kPageEntryBits, alone / 1000));
  const auto add = [&](const std::string& name, Reading reading, System system,
                       const std::vector<ByMachine>& machines) {
    std::vector<std::optional<double>> times, stops, stalls;
    for (std::size_t x = 0; x < machines.size(); ++x) {
      times.emplace_back(machines[x].at({reading, system}).seconds() /
                         time_of(runs.of_pattern[x], reading, System::kDram));
      const Results& results = machines[x].at({reading, system});
      stops.emplace_back(100 * results.stopped_share());
      stalls.emplace_back(results.stopped_share() * results.seconds() * 1e3);
    }
    section.add_values(name, "x Ideal DRAM", Origin::kPerdure, times);
    section.add_values(name + ", stopped", "%", Origin::kPerdure, stops).charted = false;
    section.add_values(name + ", stalled", "ms", Origin::kPerdure, stalls).charted = false;
  };
  for (const Reading reading : kReadings) {
    for (const System system : {System::kThyNvm, System::kThyNvmBlocks, System::kThyNvmPages})
      add(series_name(reading, system), reading, system, runs.of_pattern);
    add(series_name(reading, System::kThyNvmBlocks) + fmt::format(", {} entries", kManyEntries),
        reading, System::kThyNvmBlocks, runs.many_blocks);
    judge_schemes(section, reading, bytes);
  }
  return section;
}

Section epochs(const Runs& runs) {
  Section section =
      section_of("epochs", "How long ThyNVM's epochs are",
                 "Milliseconds; the paper limits epochs to 10 ms and does not say how long "
                 "they are. With 2,048 entries 10 ms are only reached below 13 MB/s "
                 "written back to blocks.");
  for (const Reading reading : kReadings) {
    for (const double part : {0.1, 0.5, 0.9}) {
      section.add_values(
          fmt::format("{}, {:.0f} % are no longer", memory::reading_name(reading), 100 * part),
          "ms", Origin::kPerdure, optional(by_pattern(runs, [&](const auto& m) {
            std::vector<memory::Time> lengths = m.at({reading, System::kThyNvm}).epochs.lengths;
            const auto at = lengths.begin() + std::ptrdiff_t(part * double(lengths.size() - 1));
            std::nth_element(lengths.begin(), at, lengths.end());
            return 1e3 * memory::seconds_of(*at);
          })));
    }
    section
        .add_values(fmt::format("{}, ended by a full table", memory::reading_name(reading)), "%",
                    Origin::kPerdure,
                    optional(by_pattern(runs,
                                        [&](const auto& m) {
                                          const auto& epochs =
                                              m.at({reading, System::kThyNvm}).epochs;
                                          return 100 * double(epochs.full) / double(epochs.epochs);
                                        })))
        .charted = false;
  }
  return section;
}

}  // namespace

std::vector<Section> measure_micro(const Settings& settings) {
  const std::vector<System> systems(std::begin(memory::kSystems), std::end(memory::kSystems));
  memory::WorkloadOptions options;
  options.factor = settings.thynvm.factor;
  options.seed = settings.seed;
  Runs runs;
  for (const std::string& pattern : kPlaces) {
    reproduce::tell_progress(pattern, runs.of_pattern.size(), kPlaces.size());
    runs.of_pattern.push_back(run(memory::make_workload(pattern, options), both_readings(systems),
                                  settings.thynvm.records));
    runs.many_blocks.push_back(
        run(memory::make_workload(pattern, options),
            both_readings({System::kThyNvmBlocks},
                          [](auto& model) { model.block_entries = kManyEntries; }),
            settings.thynvm.records));
  }
  return {figure7(settings, runs), figure8(runs), single_schemes(runs), epochs(runs)};
}

}  // namespace perdure::bench::thynvm
