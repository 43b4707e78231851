// SPDX-License-Identifier: BSD-3-Clause
// The races behind Figures 5 and 6: every workload in every layer, on every memory, with both engines.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "papers/nvheaps/evaluation/job.h"
#include "papers/nvheaps/evaluation/sections.h"

namespace perdure::bench::nvheaps {

/// What an operation asks of memory, on average.
struct Cost {
  double flushes = 0;
  double fences = 0;
  double bytes = 0;
};

/// What a checkpoint is, on average.
struct CheckpointCost {
  double pages = 0;  // written to
  double bytes = 0;  // that go into its file
};

/// One that races.
struct Way {
  std::string name;
  HeapSetting setting;
  bool in_threads;  // it races with several threads, too
};

struct Races {
  struct Outcome {
    std::map<unsigned, Spread> per_s;          // operations, by threads
    Cost cost;                                 // where it is durable, with one thread
    std::optional<CheckpointCost> checkpoint;  // where it is check-pointed
  };
  std::vector<Way> ways;
  std::vector<std::vector<Outcome>> outcomes;  // by workload and way
  std::vector<double> lines;                   // by workload: what an operation reads in BASE

  const Outcome& of(Work work, std::string_view way) const;
  double rate(Work work, std::string_view way, unsigned threads = 1) const {
    return of(work, way).per_s.at(threads).median;
  }
  std::vector<std::optional<Spread>> rates(std::string_view way, unsigned threads = 1) const;
};

/// Our choice, as the paper does not say when it takes checkpoints.
inline constexpr std::chrono::milliseconds kCheckpointPeriod{10};

/// The names of the ways.
inline std::string undo_of(std::string_view way) { return std::string(way) + ", undo-objects"; }
inline std::string check_pointed(std::string_view way) {
  return std::string(way) + ", check-pointed";
}
inline std::string check_pointed_each_time(std::string_view way) {
  return std::string(way) + ", check-pointed each time";
}

/// Every structure is checked after its races. Errors: throws Exception kCorrupt.
Races race_all(const Settings& settings);

}  // namespace perdure::bench::nvheaps
