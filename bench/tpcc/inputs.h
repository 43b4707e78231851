// SPDX-License-Identifier: BSD-3-Clause
// What the terminals ask for: the inputs of the five transactions, drawn as clauses 2.4.1 to 2.8.1
// have it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/tpcc/random.h"

namespace perdure::bench::tpcc {

/// A customer by number, or by last name where the number is 0.
struct CustomerChoice {
  std::int64_t warehouse = 0;
  std::int64_t district = 0;
  std::int64_t number = 0;
  std::string last_name;
};

struct LineInput {
  std::int64_t item = 0;
  std::int64_t supply_warehouse = 0;
  std::int64_t quantity = 0;
};
struct NewOrderInput {
  std::int64_t warehouse = 0;
  std::int64_t district = 0;
  std::int64_t customer = 0;
  std::vector<LineInput> lines;
  std::int64_t date = 0;
};
struct PaymentInput {
  std::int64_t warehouse = 0;
  std::int64_t district = 0;
  CustomerChoice customer;
  std::int64_t amount = 0;
  std::int64_t date = 0;
};
struct OrderStatusInput {
  CustomerChoice customer;
};
struct DeliveryInput {
  std::int64_t warehouse = 0;
  std::int64_t carrier = 0;
  std::int64_t date = 0;
};
struct StockLevelInput {
  std::int64_t warehouse = 0;
  std::int64_t district = 0;
  std::int64_t threshold = 0;
};

/// One in a hundred asks for an item that there is not, and must be rolled back.
NewOrderInput any_new_order(Generator& draw, std::int64_t warehouse);
PaymentInput any_payment(Generator& draw, std::int64_t warehouse);
OrderStatusInput any_order_status(Generator& draw, std::int64_t warehouse);
DeliveryInput any_delivery(Generator& draw, std::int64_t warehouse);
StockLevelInput any_stock_level(Generator& draw, std::int64_t warehouse, std::int64_t district);

}  // namespace perdure::bench::tpcc
