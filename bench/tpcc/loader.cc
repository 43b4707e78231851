// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/loader.h"

#include <ctime>
#include <numeric>
#include <vector>

#include "bench/tpcc/random.h"

namespace perdure::bench::tpcc {
namespace {

constexpr std::int64_t kFirstPayment = 10'00;  // of each customer, in cents

std::string insert_into(const std::string& table, int columns) {
  std::string text = "INSERT INTO " + table + " VALUES (?";
  for (int i = 1; i < columns; ++i) text += ", ?";
  return text + ")";
}

struct Address {
  std::string street_1, street_2, city, state, zip;
};
Address any_address(Generator& draw) {
  return {draw.letters(10, 20), draw.letters(10, 20), draw.letters(10, 20), draw.letters(2, 2),
          draw.zip()};
}

class Loader {
 public:
  Loader(Connection& connection, const Size& size, std::uint64_t seed)
      : connection_(connection), size_(size), draw_(seed, size, constants_of_load(seed)) {}

  void load_items() {
    for (std::int64_t item = 1; item <= size_.items(); ++item)
      item_.run(item, draw_.uniform(1, 10'000), draw_.letters(14, 24), draw_.uniform(1'00, 100'00),
                draw_.data());
  }

  void load_warehouse(std::int64_t warehouse) {
    const Address at = any_address(draw_);
    warehouse_.run(warehouse, draw_.letters(6, 10), at.street_1, at.street_2, at.city, at.state,
                   at.zip, draw_.uniform(0, 2'000), kDistricts * district_payments());
    for (std::int64_t item = 1; item <= size_.items(); ++item) load_stock(warehouse, item);
    for (std::int64_t district = 1; district <= kDistricts; ++district)
      load_district(warehouse, district);
  }

 private:
  /// The first payments of its customers: 30,000.00 in the standard.
  std::int64_t district_payments() const { return size_.customers() * kFirstPayment; }

  void load_stock(std::int64_t warehouse, std::int64_t item) {
    const auto info = [&] { return draw_.letters(24, 24); };
    stock_.run(warehouse, item, draw_.uniform(10, 100), info(), info(), info(), info(), info(),
               info(), info(), info(), info(), info(), kNone, kNone, kNone, draw_.data());
  }

  void load_district(std::int64_t warehouse, std::int64_t district) {
    const Address at = any_address(draw_);
    district_.run(warehouse, district, draw_.letters(6, 10), at.street_1, at.street_2, at.city,
                  at.state, at.zip, draw_.uniform(0, 2'000), district_payments(),
                  size_.orders() + 1);
    for (std::int64_t customer = 1; customer <= size_.customers(); ++customer)
      load_customer(warehouse, district, customer);
    load_orders(warehouse, district);
  }

  void load_customer(std::int64_t warehouse, std::int64_t district, std::int64_t customer) {
    const Address at = any_address(draw_);
    // The first ones have every name once.
    const std::string name = customer <= size_.names() ? last_name(customer - 1) : draw_.name();
    customer_.run(warehouse, district, customer, draw_.letters(8, 16), "OE", name, at.street_1,
                  at.street_2, at.city, at.state, at.zip, draw_.digits(16), now_,
                  draw_.percent(10) ? "BC" : "GC", std::int64_t{50'000'00}, draw_.uniform(0, 5'000),
                  -kFirstPayment, kFirstPayment, std::int64_t{1}, kNone, draw_.letters(300, 500));
    history_.run(customer, district, warehouse, district, warehouse, now_, kFirstPayment,
                 draw_.letters(12, 24));
  }

  /// One order of each customer, in random order; the last ones are not delivered yet.
  void load_orders(std::int64_t warehouse, std::int64_t district) {
    std::vector<std::int64_t> customers(static_cast<std::size_t>(size_.orders()));
    std::iota(customers.begin(), customers.end(), std::int64_t{1});
    for (std::size_t i = customers.size() - 1; i > 0; --i)
      std::swap(
          customers[i],
          customers[static_cast<std::size_t>(draw_.uniform(0, static_cast<std::int64_t>(i)))]);
    for (std::int64_t order = 1; order <= size_.orders(); ++order) {
      const bool delivered = order <= size_.orders() - size_.new_orders();
      const std::int64_t lines = draw_.uniform(kMinLines, kMaxLines);
      std::optional<std::int64_t> carrier;
      if (delivered) carrier = draw_.uniform(1, 10);
      order_.run(warehouse, district, order, customers[static_cast<std::size_t>(order - 1)], now_,
                 carrier, lines, std::int64_t{1});
      for (std::int64_t line = 1; line <= lines; ++line)
        load_line(warehouse, district, order, line, delivered);
      if (!delivered) new_order_.run(warehouse, district, order);
    }
  }

  void load_line(std::int64_t warehouse, std::int64_t district, std::int64_t order,
                 std::int64_t line, bool delivered) {
    std::optional<std::int64_t> delivery_date;
    if (delivered) delivery_date = now_;
    line_.run(warehouse, district, order, line, draw_.uniform(1, size_.items()), warehouse,
              delivery_date, std::int64_t{5}, delivered ? 0 : draw_.uniform(1, 9'999'99),
              draw_.letters(24, 24));
  }

  static constexpr std::int64_t kNone = 0;

  Connection& connection_;
  Size size_;
  Generator draw_;
  std::int64_t now_ = std::time(nullptr);
  Statement item_{connection_, insert_into("item", 5)};
  Statement warehouse_{connection_, insert_into("warehouse", 9)};
  Statement stock_{connection_, insert_into("stock", 17)};
  Statement district_{connection_, insert_into("district", 11)};
  Statement customer_{connection_, insert_into("customer", 21)};
  Statement history_{connection_, insert_into("history", 8)};
  Statement order_{connection_, insert_into("orders", 8)};
  Statement line_{connection_, insert_into("order_line", 10)};
  Statement new_order_{connection_, insert_into("new_order", 3)};
};

}  // namespace

void load(Connection& connection, const Size& size, std::uint64_t seed) {
  connection.run("BEGIN");
  create_tables(connection);
  {
    Loader loader(connection, size, seed);
    loader.load_items();
    for (std::int64_t warehouse = 1; warehouse <= size.warehouses; ++warehouse)
      loader.load_warehouse(warehouse);
  }
  create_indexes(connection);
  connection.run("COMMIT");
}

}  // namespace perdure::bench::tpcc
