// SPDX-License-Identifier: BSD-3-Clause
// The nine tables of TPC-C (clause 1.3) in SQLite, and how many rows they begin with (clause 4.3.3).
//
// Money is in cents, taxes and discounts in ten-thousandths, both integers: exact, as the standard
// asks. Dates are seconds since 1970. Each table has the standard's primary key, HISTORY none.
// Tables of short rows are clustered by it (WITHOUT ROWID), which SQLite advises against for rows
// as long as those of CUSTOMER and STOCK.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "bench/tpcc/sqlite.h"

namespace perdure::bench::tpcc {

inline constexpr std::int64_t kDistricts = 10;  // of a warehouse
inline constexpr std::int64_t kMinLines = 5;    // of an order
inline constexpr std::int64_t kMaxLines = 15;

/// How large the database is. `divisor` 1 is the standard's; another one divides items (and with
/// them the stock), customers and orders.
struct Size {
  std::int64_t warehouses = 1;
  std::int64_t divisor = 1;

  std::int64_t items() const { return 100'000 / divisor; }
  std::int64_t customers() const { return 3'000 / divisor; }  // of a district
  std::int64_t orders() const { return customers(); }         // of a district, at first
  std::int64_t new_orders() const { return orders() * 3 / 10; }
  /// Three customers of a district share a name, on the average.
  std::int64_t names() const { return std::max<std::int64_t>(1, customers() / 3); }
};
inline constexpr std::int64_t kMaxDivisor = 100;  // leaves 30 customers and orders in a district

inline constexpr std::array<std::string_view, 9> kTables = {"warehouse",  "district",  "customer",
                                                            "history",    "new_order", "orders",
                                                            "order_line", "item",      "stock"};
using RowCounts = std::array<std::int64_t, kTables.size()>;
RowCounts count_rows(Connection& connection);

void create_tables(Connection& connection);
/// The two that are not primary keys; quicker when the rows are there.
void create_indexes(Connection& connection);

}  // namespace perdure::bench::tpcc
