// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/inputs.h"

#include <ctime>

namespace perdure::bench::tpcc {
namespace {

CustomerChoice any_customer(Generator& draw, std::int64_t warehouse, std::int64_t district) {
  CustomerChoice customer{warehouse, district, 0, {}};
  if (draw.percent(60))
    customer.last_name = draw.name();
  else
    customer.number = draw.customer();
  return customer;
}

}  // namespace

NewOrderInput any_new_order(Generator& draw, std::int64_t warehouse) {
  NewOrderInput input;
  input.warehouse = warehouse;
  input.district = draw.district();
  input.customer = draw.customer();
  input.date = std::time(nullptr);
  const bool mistyped = draw.percent(1);
  const std::int64_t lines = draw.uniform(kMinLines, kMaxLines);
  for (std::int64_t line = 1; line <= lines; ++line) {
    LineInput& asked = input.lines.emplace_back();
    asked.item = mistyped && line == lines ? draw.size().items() + 1 : draw.item();
    const bool remote = draw.percent(1) && draw.size().warehouses > 1;
    asked.supply_warehouse = remote ? draw.other_warehouse(warehouse) : warehouse;
    asked.quantity = draw.uniform(1, 10);
  }
  return input;
}

PaymentInput any_payment(Generator& draw, std::int64_t warehouse) {
  PaymentInput input;
  input.warehouse = warehouse;
  input.district = draw.district();
  const bool at_home = draw.percent(85);
  const std::int64_t district = at_home ? input.district : draw.district();
  // With a single warehouse all customers are its (2.5.1.2).
  const bool remote = !at_home && draw.size().warehouses > 1;
  input.customer =
      any_customer(draw, remote ? draw.other_warehouse(warehouse) : warehouse, district);
  input.amount = draw.uniform(1'00, 5'000'00);
  input.date = std::time(nullptr);
  return input;
}

OrderStatusInput any_order_status(Generator& draw, std::int64_t warehouse) {
  const std::int64_t district = draw.district();
  return {any_customer(draw, warehouse, district)};
}

DeliveryInput any_delivery(Generator& draw, std::int64_t warehouse) {
  return {warehouse, draw.uniform(1, 10), std::time(nullptr)};
}

StockLevelInput any_stock_level(Generator& draw, std::int64_t warehouse, std::int64_t district) {
  return {warehouse, district, draw.uniform(10, 20)};
}

}  // namespace perdure::bench::tpcc
