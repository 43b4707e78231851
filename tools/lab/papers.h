// SPDX-License-Identifier: BSD-3-Clause
// The papers whose evaluations `perdure-lab reproduce` runs, and their experiments.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/section.h"
#include "measure/settings.h"

namespace perdure::bench::reproduce {

struct Experiment {
  std::vector<std::string> ids;  // of the sections that it makes
  std::vector<Section> (*measure)(const Settings&);
  // Threads that have to run at the same time, or a wait for a device: what others take of the CPUs spoils it, whatever the clock.
  bool all_cpus = false;
};

enum class MemoryModel : std::uint8_t {
  kEmulatedMemory,  // Settings::memory
  kWriteBuffer,     // of SoftWrAP
  kLineTimes,       // of NV-heaps
  kSimulated,       // of ThyNVM
  kReal,            // of `perdure run`
};

struct Paper {
  std::string_view name;
  std::string_view title;
  std::string_view engine;  // of ours
  bool has_peers;
  std::vector<Experiment> experiments;
  MemoryModel memory = MemoryModel::kEmulatedMemory;
};

const std::vector<Paper>& papers();
/// Requires: one of papers().
const Paper& paper_called(const std::string& name);
/// --runtime: what the paper does to a simulated machine's memory, `perdure run` does to a program's.
const Paper& runtime_of_thynvm();

/// Without sections yet: the machine, the emulated memory, the peers.
Evaluation begin_evaluation(const Paper& paper, const Settings& settings);
/// Runs an experiment between two control measurements; what the machine made meaningless has no verdict.
std::vector<Section> measure(const Paper& paper, const Experiment& experiment,
                             const Settings& settings);

}  // namespace perdure::bench::reproduce
