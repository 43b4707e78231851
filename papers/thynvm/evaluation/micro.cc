// SPDX-License-Identifier: BSD-3-Clause
// Figures 7 and 8: the three access patterns; the same runs tell what the single schemes do and how long epochs are.
#include <algorithm>

#include <fmt/format.h>

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

// The sentences about averages, each within five points of what the text or the bars say.
void judge_means(Section& section, const Runs& runs, Reading reading) {
  for (const paper::Mean& mean : paper::kMicroMeans) {
    const double found = geometric_mean(by_pattern(runs, [&](const auto& m) {
      return time_of(m, reading, System::kThyNvm) / time_of(m, reading, kBars[mean.system]);
    }));
    judge(section,
          fmt::format("on average ThyNVM is {} ({})", mean.claim, memory::reading_name(reading)),
          fmt::format("its time is {:.3f} of that", found),
          found > std::min(mean.text, mean.bars) - .05 &&
              found < std::max(mean.text, mean.bars) + .05,
          reading == Reading::kPaperCode
              ? "Less is computed between two accesses here (Ideal NVM loses more against DRAM "
                "than in the paper), and under streaming every page moves into DRAM "
                "while the core waits."
              : "Dirty rows, which a read has to wait for, cost NVM and "
                "whoever writes to it in bursts far "
                "more than in the paper's runs.");
  }
}

void judge_best(Section& section, const Runs& runs, Reading reading) {
  std::string worse;
  for (std::size_t x = 0; x < kPlaces.size(); ++x) {
    for (const System other : {System::kJournal, System::kShadow}) {
      const double ratio = time_of(runs.of_pattern[x], reading, System::kThyNvm) /
                           time_of(runs.of_pattern[x], reading, other);
      if (ratio >= 1)
        worse += fmt::format("{}{}: {} is {:.0f} % quicker", worse.empty() ? "" : "; ", kPlaces[x],
                             memory::system_name(other), 100 * (ratio - 1));
    }
  }
  judge(section, fmt::format("{} ({})", paper::kMicroBest, memory::reading_name(reading)),
        worse.empty() ? "so it is" : worse, worse.empty(),
        "A working set that fits into the pages of shadow paging, or that goes by once, is its "
        "best case; the "
        "paper's bars for it lie 2 and 4 % above ThyNVM's.");
}

Section figure7(const Settings& settings, const Runs& runs) {
  Section section = section_of(
      "figure7", "Figure 7: execution time of the micro-benchmarks",
      fmt::format("Simulated; f = {} (the paper's is 3). paper-code does what the authors' "
                  "published simulator does, strict what their text says "
                  "(papers/thynvm/memory/model.h). Ideal DRAM is 1.",
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
  for (const Reading reading : kReadings) {
    std::vector<std::vector<double>> ours, papers;
    for (std::size_t x = 0; x < kPlaces.size(); ++x) {
      ours.emplace_back();
      papers.emplace_back(paper::kFigure7[x].begin(), paper::kFigure7[x].end());
      for (const System system : kBars)
        ours.back().push_back(relative_time(runs.of_pattern[x], reading, system));
    }
    judge_order(
        section, reading,
        compare_orders(ours, papers, kPlaces, {"dram", "nvm", "journal", "shadow", "thynvm"}),
        reading == Reading::kPaperCode
            ? "Writes to NVM weigh more here: a line that the last cache evicts lies in the "
              "bank of the line that replaces it (its 2,048 sets are 128 KiB apart, as are "
              "rows of a bank), so that under streaming no write finds its row open."
            : "A read that closes a dirty row waits 368 ns: NVM that serves reads and "
              "writes alike loses most, and what keeps writes away from it wins.");
    judge_means(section, runs, reading);
    judge_best(section, runs, reading);
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
  for (const Reading reading : kReadings) {
    const auto stopped = [&](System system) {
      return geometric_mean(by_pattern(
          runs, [&](const auto& m) { return 100 * m.at({reading, system}).stopped_share(); }));
    };
    const double journal = stopped(System::kJournal), shadow = stopped(System::kShadow),
                 ours = stopped(System::kThyNvm);
    judge(section, fmt::format("{} ({})", paper::kStopsText, memory::reading_name(reading)),
          fmt::format("{:.1f}, {:.1f} and {:.1f} %", journal, shadow, ours),
          ours < journal && ours < shadow && ours < 5,
          reading == Reading::kPaperCode ? "Moving pages into DRAM is part of the stop in the "
                                           "published code; under streaming every "
                                           "page moves."
                                         : "An epoch's end flushes the caches, up to 37,000 lines, "
                                           "while the core stands still.");
    bool between = true;
    std::string found;
    for (std::size_t x = 0; x < kPlaces.size(); ++x) {
      const auto bytes = [&](System system) {
        return written_per_byte(runs.of_pattern[x].at({reading, system}));
      };
      const auto [best, worst] = std::minmax({bytes(System::kJournal), bytes(System::kShadow)});
      const double ours_here = bytes(System::kThyNvm);
      between &= ours_here >= best && ours_here <= worst;
      found += fmt::format("{}{} {:.2f} ({:.2f} to {:.2f})", found.empty() ? "" : ", ", kPlaces[x],
                           ours_here, best, worst);
    }
    judge(section,
          fmt::format(
              "ThyNVM writes more than the mechanism that writes least, and less than the one that "
              "writes most, in every pattern (the paper: but for streaming, where it writes most) "
              "({})",
              memory::reading_name(reading)),
          found, between,
          "It copies less than the paper's, which exchanges clean blocks with their homes during "
          "checkpoints: "
          "under random accesses less than a journal, which writes twice; under streaming its "
          "pages leave "
          "DRAM dirty, in a checkpoint.");
  }
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
    std::vector<std::optional<double>> times, stops;
    for (std::size_t x = 0; x < machines.size(); ++x) {
      times.emplace_back(machines[x].at({reading, system}).seconds() /
                         time_of(runs.of_pattern[x], reading, System::kDram));
      stops.emplace_back(100 * machines[x].at({reading, system}).stopped_share());
    }
    section.add_values(name, "x Ideal DRAM", Origin::kPerdure, times);
    section.add_values(name + ", stopped", "%", Origin::kPerdure, stops).charted = false;
  };
  for (const Reading reading : kReadings) {
    for (const System system : {System::kThyNvm, System::kThyNvmBlocks, System::kThyNvmPages})
      add(series_name(reading, system), reading, system, runs.of_pattern);
    add(series_name(reading, System::kThyNvmBlocks) + fmt::format(", {} entries", kManyEntries),
        reading, System::kThyNvmBlocks, runs.many_blocks);
    double most = 0;
    for (const ByMachine& machines : runs.of_pattern) {
      const auto stalled = [&](System system) {
        const Results& results = machines.at({reading, system});
        return results.stopped_share() * results.seconds();
      };
      most = std::max(most, 100 * (1 - stalled(System::kThyNvm) / stalled(System::kThyNvmPages)));
    }
    judge(section, fmt::format("{} ({})", paper::kStallText, memory::reading_name(reading)),
          fmt::format("up to {:.1f} % less", most), most >= 80,
          "Pages alone stall less here than in the paper.");
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
