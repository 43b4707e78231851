// SPDX-License-Identifier: BSD-3-Clause
// The micro-benchmarks as compiled programs under the emulator: Figure 7's patterns with all that a program does between two
// accesses, and sliding as the authors' program has it. And what the end-of-epoch instruction costs a program that uses it.
#include <fmt/format.h>

#include "papers/thynvm/evaluation/claims.h"
#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {
namespace {

const std::vector<std::string> kCompiledPlaces = {"random", "streaming", "sliding", "sweeping"};
constexpr System kCompiledSystems[] = {System::kNvm, System::kJournal, System::kShadow,
                                       System::kThyNvm, System::kThyNvmOverlap};

struct Interval {
  const char* name;
  std::uint64_t operations;  // between two instructions; 0: there is none
};
constexpr Interval kIntervals[] = {
    {"each", 1}, {"10", 10}, {"100", 100}, {"1,000", 1000}, {"by itself", 0}};

std::vector<Setup> with_dram(const std::vector<System>& others) {
  std::vector<System> systems = {System::kDram};
  systems.insert(systems.end(), others.begin(), others.end());
  return both_readings(systems);
}

}  // namespace

Section measure_compiled(const Settings& settings) {
  Section section;
  section.id = "compiled";
  section.title = "The micro-benchmarks as compiled programs";
  section.method = fmt::format(
      "Figure 7's patterns as programs under the emulator (papers/thynvm/guest/micro.c), f = {}: "
      "the loop and rand() of the C library are executed, where Figure 7 counts them. sweeping is "
      "sliding as the authors' program has it: its window is written and read from end to end, not "
      "at random as the text says. Ideal DRAM is 1; the paper's bars are those of Figure 7.",
      settings.thynvm.factor);
  section.x_name = "1 random, 2 streaming, 3 sliding, 4 sweeping";
  section.x = {1, 2, 3, 4};
  section.places = kCompiledPlaces;
  memory::WorkloadOptions options;
  options.factor = settings.thynvm.factor;
  options.seed = settings.seed;
  const std::vector<System> systems(std::begin(kCompiledSystems), std::end(kCompiledSystems));
  std::vector<ByMachine> of_place;
  for (const std::string& place : kCompiledPlaces) {
    reproduce::tell_progress(place + ", compiled", of_place.size(), kCompiledPlaces.size());
    of_place.push_back(run(memory::make_workload(place + "-compiled", options), with_dram(systems),
                           settings.thynvm.records));
  }
  std::size_t bar = 0;
  for (const System system : systems) {
    for (const Reading reading : kReadings) {
      std::vector<std::optional<double>> times;
      for (const ByMachine& machines : of_place)
        times.emplace_back(machines.at({reading, system}).seconds() /
                           machines.at({reading, System::kDram}).seconds());
      section.add_values(series_name(reading, system), "x Ideal DRAM", Origin::kPerdure, times);
    }
    if (++bar == std::tuple_size_v<paper::Bars>) continue;  // ours is none of the paper's
    std::vector<std::optional<double>> papers;
    for (std::size_t place = 0; place < kCompiledPlaces.size(); ++place)
      papers.emplace_back(paper::kFigure7.at(std::min<std::size_t>(place, 2)).at(bar));
    section.add_values(fmt::format("paper: {}", memory::system_name(system)), "x Ideal DRAM",
                       Origin::kPaper, papers);
  }
  for (const Reading reading : kReadings) judge_compiled(section, reading);
  return section;
}

Section measure_end_of_epoch(const Settings& settings) {
  Section section;
  section.id = "end-of-epoch";
  section.title = "Section 6: an instruction that ends the epoch";
  section.method = fmt::format(
      "The hash table with values of 256 bytes, {} operations; after each so many the program "
      "executes the instruction, which is over when all that was before it would survive a power "
      "cut (caches are flushed in both readings). Not in the paper.",
      settings.thynvm.operations);
  section.x_name =
      "an epoch ends: 1 after each operation, 2 after 10, 3 after 100, 4 after 1,000, 5 by itself";
  const std::vector<System> systems = {System::kJournal, System::kShadow, System::kThyNvm,
                                       System::kThyNvmOverlap};
  std::map<std::pair<Reading, System>, std::vector<std::optional<double>>> rates;
  for (const Interval& interval : kIntervals) {
    reproduce::tell_progress("end-of-epoch instruction", section.x.size(), std::size(kIntervals));
    section.x.push_back(double(section.x.size() + 1));
    section.places.emplace_back(interval.name);
    memory::WorkloadOptions options;
    options.operations = settings.thynvm.operations;
    options.seed = settings.seed;
    options.end_epoch = interval.operations;
    const ByMachine machines = run(memory::make_workload("hash", options), with_dram(systems));
    for (const auto& [machine, results] : machines)
      rates[machine].emplace_back(double(results.operations) / results.seconds() / 1e3);
  }
  for (const auto& [machine, values] : rates)
    section.add_values(series_name(machine.first, machine.second), "KTPS", Origin::kPerdure,
                       values);
  return section;
}

}  // namespace perdure::bench::thynvm
