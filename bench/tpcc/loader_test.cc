// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/loader.h"

#include <gtest/gtest.h>

#include "bench/tpcc/consistency.h"
#include "bench/tpcc/tiny_test_database.h"

namespace perdure::bench::tpcc {
namespace {

TEST(TpccLoaderTest, CardinalitiesAreTheStandards) {
  const Size size;
  EXPECT_EQ(size.items(), 100'000);
  EXPECT_EQ(size.customers(), 3'000);
  EXPECT_EQ(size.orders(), 3'000);
  EXPECT_EQ(size.new_orders(), 900);
  EXPECT_EQ(size.names(), 1'000);
}

TEST(TpccLoaderTest, EveryTableHasItsRows) {
  TinyDatabase tiny(2);
  const RowCounts rows = count_rows(tiny.db);
  //                          w  d   c    h    n_o  o    lines    items  stock
  EXPECT_EQ(rows, (RowCounts{2, 20, 600, 600, 180, 600, rows[6], 1'000, 2'000}));
  EXPECT_NEAR(static_cast<double>(rows[6]), 600 * 10, 600);
  EXPECT_EQ(tiny.number("count(*) FROM customer WHERE c_w_id = 2 AND c_d_id = 10"), 30);
  EXPECT_EQ(tiny.number("count(*) FROM stock WHERE s_w_id = 2"), 1'000);
}

TEST(TpccLoaderTest, RowsAreAsTheStandardDrawsThem) {
  TinyDatabase tiny(2);
  const auto none = [&](const std::string& where) {
    EXPECT_EQ(tiny.number("count(*) FROM " + where), 0) << where;
  };
  none("item WHERE i_price NOT BETWEEN 100 AND 10000 OR length(i_name) NOT BETWEEN 14 AND 24");
  none("stock WHERE s_quantity NOT BETWEEN 10 AND 100 OR length(s_dist_10) <> 24 OR s_ytd <> 0");
  none(
      "warehouse WHERE w_tax NOT BETWEEN 0 AND 2000 OR w_zip NOT GLOB '[0-9][0-9][0-9][0-9]11111'");
  none("district WHERE d_next_o_id <> 31 OR d_ytd <> 30 * 1000");
  none(
      "customer WHERE c_middle <> 'OE' OR c_balance <> -1000 OR c_credit NOT IN ('GC', 'BC')"
      " OR length(c_data) NOT BETWEEN 300 AND 500 OR c_discount NOT BETWEEN 0 AND 5000");
  none("orders WHERE o_ol_cnt NOT BETWEEN 5 AND 15 OR (o_carrier_id IS NULL) <> (o_id > 21)");
  none(
      "order_line WHERE (ol_amount = 0) <> (ol_o_id <= 21) OR ol_quantity <> 5"
      " OR ol_supply_w_id <> ol_w_id");
  const std::int64_t bad = tiny.number("count(*) FROM customer WHERE c_credit = 'BC'");
  EXPECT_NEAR(static_cast<double>(bad), 60, 30);
  const std::int64_t original = tiny.number("count(*) FROM stock WHERE s_data LIKE '%ORIGINAL%'");
  EXPECT_NEAR(static_cast<double>(original), 200, 60);
}

TEST(TpccLoaderTest, EachCustomerHasOneOrderAndEachNameACustomer) {
  TinyDatabase tiny;
  EXPECT_EQ(tiny.number("count(DISTINCT o_c_id) FROM orders WHERE o_d_id = 4"), 30);
  EXPECT_NE(tiny.number("o_c_id FROM orders WHERE o_d_id = 4 AND o_id = 1"),
            tiny.number("o_c_id FROM orders WHERE o_d_id = 5 AND o_id = 1"))
      << "in an order of its own";
  EXPECT_EQ(tiny.number("count(DISTINCT c_last) FROM customer WHERE c_d_id = 4"), 10);
}

TEST(TpccLoaderTest, ALoadedDatabaseIsConsistent) {
  TinyDatabase tiny(2);
  EXPECT_EQ(violations(tiny.db, tiny.size), std::vector<std::string>{});
  EXPECT_EQ(tiny.db.text("PRAGMA integrity_check"), "ok");
}

}  // namespace
}  // namespace perdure::bench::tpcc
