// SPDX-License-Identifier: BSD-3-Clause
// The five transactions of TPC-C (clauses 2.4 to 2.8) on one connection.
//
// Those that write are `BEGIN IMMEDIATE` … `COMMIT`; those that only read are `BEGIN` … `COMMIT`, and
// see one state. Each reads all that its terminal would show, and answers with the part that a
// caller may want to check.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "bench/tpcc/inputs.h"
#include "bench/tpcc/sqlite.h"

namespace perdure::bench::tpcc {

struct NewOrderResult {
  bool committed = false;  // false: an item was not found, and nothing has happened
  std::int64_t order = 0;
  std::int64_t lines = 0;
  std::int64_t total = 0;  // cents, with discount and taxes
};
struct PaymentResult {
  std::int64_t customer = 0;
  std::int64_t balance = 0;
};
struct OrderStatusResult {
  std::int64_t customer = 0;
  std::int64_t balance = 0;
  std::int64_t order = 0;
  std::int64_t lines = 0;
};
struct DeliveryResult {
  std::int64_t orders = 0;  // of at most one in each district
};
struct StockLevelResult {
  std::int64_t low_stock = 0;
};

/// Writers of one database take turns at `turn`: SQLite lets one write at a time, and one that finds
/// the lock taken sleeps for milliseconds, which would be measured in place of the database.
/// Errors: Exception of Connection; the transaction is rolled back.
/// Threads: one at a time.
class Session {
 public:
  Session(Connection& connection, std::mutex& turn);
  ~Session();

  NewOrderResult new_order(const NewOrderInput& input);
  PaymentResult payment(const PaymentInput& input);
  OrderStatusResult order_status(const OrderStatusInput& input);
  /// All districts in one transaction, when asked; the standard would queue it.
  DeliveryResult delivery(const DeliveryInput& input);
  StockLevelResult stock_level(const StockLevelInput& input);

 private:
  struct Statements;
  class Transaction;

  /// One line of an order: its amount, or nothing when there is no such item.
  std::optional<std::int64_t> order_line(const NewOrderInput& input, std::int64_t order,
                                         std::size_t index);
  /// The number of the customer: of those of a name the one in the middle, by first name (2.5.2.2).
  std::int64_t number_of(const CustomerChoice& choice);
  /// Hands over the oldest undelivered order of the district. False: there is none.
  bool deliver_one(const DeliveryInput& input, std::int64_t district);

  std::mutex& turn_;
  std::unique_ptr<Statements> sql_;
};

}  // namespace perdure::bench::tpcc
