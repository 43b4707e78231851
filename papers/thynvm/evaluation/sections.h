// SPDX-License-Identifier: BSD-3-Clause
// The experiments of ThyNVM (§5) on the simulated machine, in both readings of the paper: each runs, puts the paper's bars beside
// what came out, and judges. Simulated time: the numbers are the same on every machine.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "measure/section.h"
#include "measure/settings.h"
#include "papers/thynvm/evaluation/paper_thynvm.h"
#include "papers/thynvm/memory/experiment.h"
#include "papers/thynvm/memory/workloads.h"

namespace perdure::bench::thynvm {

using memory::Reading;
using memory::Results;
using memory::Setup;
using memory::System;
using reproduce::Origin;
using reproduce::Section;
using reproduce::Settings;

/// Figures 7 and 8, the single schemes, and how long epochs are: views of the same runs.
std::vector<Section> measure_micro(const Settings& settings);
/// The patterns of Figure 7 as compiled programs, and sliding as the authors' program has it.
Section measure_compiled(const Settings& settings);
/// Figures 9 and 10.
std::vector<Section> measure_stores(const Settings& settings);
/// Figure 11, and programs that the paper has not.
std::vector<Section> measure_programs(const Settings& settings);
/// Figure 12.
Section measure_table_sizes(const Settings& settings);
/// Not in the paper: longer and shorter epochs, slower and faster NVM; and other banks and queues.
std::vector<Section> measure_sensitivity(const Settings& settings);
Section measure_banks(const Settings& settings);
/// What the end-of-epoch instruction of section 6 costs; not in the paper.
Section measure_end_of_epoch(const Settings& settings);

// ---- what they share ----------------------------------------------------------------------------------------------------------

inline constexpr Reading kReadings[] = {Reading::kPaperCode, Reading::kStrict};

/// Each of these systems in both readings, with one change to all models.
std::vector<Setup> both_readings(const std::vector<System>& systems,
                                 const std::function<void(memory::Model&)>& change = {});
/// What came out, by reading and system.
using ByMachine = std::map<std::pair<Reading, System>, Results>;
ByMachine run(memory::Workload workload, const std::vector<Setup>& setups,
              std::uint64_t most_records = UINT64_MAX);

/// Bytes written as the paper counts them: what the CPU writes back, wherever it goes, and what checkpoints and migration write to
/// NVM.
double paper_bytes(const Results& results);
/// "strict: journal"
std::string series_name(Reading reading, System system);
double geometric_mean(const std::vector<double>& values);
/// Values by place of x and by system (of the paper's order); how many pairs of systems that differ by more than 5 % in the
/// paper are in the same order here, and which are not.
struct Order {
  int same = 0, pairs = 0;
  std::string others;
};
Order compare_orders(const std::vector<std::vector<double>>& ours,
                     const std::vector<std::vector<double>>& papers,
                     const std::vector<std::string>& places,
                     const std::vector<std::string>& systems);
}  // namespace perdure::bench::thynvm
