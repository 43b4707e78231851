// SPDX-License-Identifier: BSD-3-Clause
// Measures the stores of one place: by turns, on the same keys and values, and verified.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/comparison/kinds.h"
#include "bench/comparison/lane.h"
#include "measure/measure.h"

namespace perdure::bench::comparison {

struct RowPlan {
  const RowInfo* info;
  unsigned threads;
};

/// What is measured in one place, with everything that it depends on.
struct Plan {
  Place place = Place::kMemory;
  std::string dir;
  std::vector<const StoreKind*> kinds;
  std::vector<RowPlan> rows;
  std::uint64_t live = 0;  // records in a store, of all threads
  std::uint64_t seed = 1;
  RaceRules rules;
};

/// A store on a row.
struct Cell {
  Spread ops_per_s;              // of all threads together
  double cpu_us = 0;             // of one operation; without what threads of the store's own use
  std::uint64_t operations = 0;  // in one run
  std::uint64_t verified = 0;    // keys looked up after the runs, and again in the reopened store
};

struct PlaceResult {
  Plan plan;
  std::string file_system;
  /// By row, then by kind; nothing where the store cannot do what the row asks.
  std::vector<std::vector<std::optional<Cell>>> cells;
};

/// Fresh stores for each size of values and number of threads: filled, measured row by row, verified,
/// closed, reopened and verified whole. Tells on standard error how far it is: row `first_row` and
/// following of `all_rows`.
///
/// All in a process of its own: a peer decides once in a process whether mappings are persistent
/// memory (choose_pmemobj_mode), and no place inherits the other's heaps and caches.
/// Requires: no threads yet.
/// Errors: throws Exception: kCorrupt when a store does not hold what it acknowledged, kIo.
PlaceResult measure(const Plan& plan, std::size_t first_row, std::size_t all_rows);

}  // namespace perdure::bench::comparison
