// The hash table workload of §6.3: inserts and deletes at the same rate, each a durable update, so
// that the size of the store stays.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/measure.h"
#include "bench/reproduce/section.h"
#include "bench/reproduce/stores.h"

namespace perdure::bench::reproduce {

struct ChurnOptions {
  unsigned threads = 1;
  std::uint64_t value_bytes = 8;
  std::uint64_t live = 1000;  // records of each thread
  double idle_part = 0;       // of the time of each thread, after every update
  std::uint64_t seed = 1;
  RaceRules rules;
};

struct ChurnResult {
  Spread insert_us;
  Spread erase_us;
  Spread updates_per_s;  // of all threads, inserts and deletes
  double device_us = 0;  // of each update, spent in the emulated block device
};

/// Fills every store with the same records, warms them up, lets them run by turns, and then checks
/// that each holds what was put into it.
/// Errors: throws Exception kCorrupt when one does not; those of the stores.
std::vector<ChurnResult> race_updates(const std::vector<UpdateStore*>& stores,
                                      const ChurnOptions& options);

}  // namespace perdure::bench::reproduce
