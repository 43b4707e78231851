// SPDX-License-Identifier: BSD-3-Clause
// The hash table workload of §6.3: inserts and deletes at the same rate, each a durable update, so
// that the size of the store stays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "measure/measure.h"
#include "measure/section.h"
#include "papers/mnemosyne/evaluation/stores.h"

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
  Spread updates_per_s;     // of all threads, inserts and deletes
  double retries = 0;       // of each update
  double device_us = 0;     // of each update, spent in syncs to the block device
  double blocked_part = 0;  // of each thread's time, waiting for a lock: from 0 to 1
};

using MakeStore = std::function<std::unique_ptr<UpdateStore>()>;

/// For each run, by turns: makes a store, fills it with the same records as every other, warms it
/// up, measures it, and checks that it holds what was put into it. A store of its own for each run,
/// so that the spread tells what the place in memory makes of it, too.
/// Times are those of the wall clock, waiting for locks included; without what other jobs of the
/// machine took, as long as every thread has a CPU to itself.
/// Errors: throws Exception kCorrupt when a store does not hold its records; those of the stores.
std::vector<ChurnResult> race_updates(const std::vector<MakeStore>& stores,
                                      const ChurnOptions& options);

}  // namespace perdure::bench::reproduce
