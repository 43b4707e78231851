// SPDX-License-Identifier: BSD-3-Clause
// One workload on several machines at once: every machine gets the same records, so that differences
// between them are differences of the memory systems.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "papers/thynvm/memory/access.h"
#include "papers/thynvm/memory/machine.h"
#include "papers/thynvm/memory/trace_file.h"

namespace perdure::memory {

struct Setup {
  System system = System::kThyNvm;
  Model model;
};

struct PowerCuts {
  // Of each machine that can be cut, ever further apart; a short run sees fewer. 0: bytes are not kept either.
  std::uint64_t wanted = 0;
  std::uint64_t seed = 1;
};

struct Outcome {
  Setup setup;
  Results results;
  std::uint64_t cuts = 0;
  std::uint64_t cuts_of_unfinished = 0;  // of those, into a checkpoint that ran
  std::uint64_t cuts_of_epochs = 0;      // after which an epoch came back, not the start
  std::vector<std::string> violations;
};

struct Experiment {
  std::vector<Setup> setups;
  PowerCuts cuts;
  std::uint64_t most_records = UINT64_MAX;              // the source's end at the latest
  TraceWriter* record = nullptr;                        // gets all records too
  std::function<void(std::uint64_t records)> progress;  // told how many have been run
};

/// Runs the source to its end. Errors: what the source says.
std::vector<Outcome> run_experiment(const Experiment& experiment, AccessSource& source);

}  // namespace perdure::memory
