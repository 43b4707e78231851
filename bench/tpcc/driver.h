// SPDX-License-Identifier: BSD-3-Clause
// Runs the mix of the five transactions on a fresh copy of a loaded database, times it, and judges
// what is left.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/tpcc/modes.h"
#include "bench/tpcc/schema.h"

namespace perdure::bench::tpcc {

enum class Kind : std::uint8_t { kNewOrder, kPayment, kOrderStatus, kDelivery, kStockLevel };
inline constexpr std::array<const char*, 5> kKindNames = {"new_order", "payment", "order_status",
                                                          "delivery", "stock_level"};
/// 5.2.3 asks for at least 43, 4, 4 and 4 % of the others; the rest are New-Orders.
inline constexpr std::array<int, 5> kCards = {45, 43, 4, 4, 4};

struct Load {
  Size size;
  std::uint64_t seed = 1;
  unsigned connections = 1;
  double seconds = 10;             // of the timed part
  std::uint64_t transactions = 0;  // in place of `seconds`, of all connections together; 0: none
  double warm_up_seconds = 1;
  std::int64_t cache_mib = 0;  // of each connection; 0: SQLite's own choice
};

/// What was answered to the terminals, and how soon.
struct Tally {
  std::array<std::vector<std::uint64_t>, kCards.size()> ns;  // rollbacks included
  std::uint64_t rollbacks = 0;  // of New-Orders, as 1 % of them must be
  std::uint64_t lines = 0;      // of committed New-Orders
  std::uint64_t delivered = 0;
  std::uint64_t skipped = 0;  // districts that had nothing to deliver

  std::uint64_t transactions() const;
  std::uint64_t new_orders() const;  // committed
  void add(const Tally& other);
};

struct Latency {
  double p50_ns = 0;
  double p99_ns = 0;
  double max_ns = 0;
};
/// Zeros where there are none.
Latency latency_of(std::vector<std::uint64_t> ns);

/// A mode in one round.
struct Outcome {
  double wall_seconds = 0;
  double cpu_ns = 0;                    // of one transaction, on the threads of the connections
  Tally tally;                          // of the timed part
  RowCounts rows{};                     // at the end
  std::vector<std::string> violations;  // empty: everything held, also when it was opened again

  double transactions_per_s() const;
  double new_orders_per_s() const;
};

/// Makes the database at `path` that rounds are given copies of.
/// Errors: those of Connection; kCorrupt where the loader itself breaks a condition: what a mode does to the database could
/// not be told apart from it.
void load_original(const std::string& path, const Load& load);

/// Runs `load` in `mode` on a copy of the database at `original`, which lies in `dir` and is removed
/// afterwards. `round` makes the inputs of this round others than those of the rest, but the same in
/// every mode.
///
/// Judged: the twelve conditions of the standard before the connections close and again in a new
/// one, SQLite's own integrity_check there, and whether every table has the rows that the answers
/// to the terminals add up to.
/// Errors: Exception of Connection and of apply().
Outcome run_round(const Load& load, const Mode& mode, const std::string& original,
                  const std::string& dir, unsigned round);

}  // namespace perdure::bench::tpcc
