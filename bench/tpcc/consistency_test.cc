// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/consistency.h"

#include <set>

#include <gtest/gtest.h>

#include "bench/tpcc/tiny_test_database.h"

namespace perdure::bench::tpcc {
namespace {

struct Damage {
  const char* name;
  const char* statement;
  std::set<int> violated;  // conditions, all of them
};

const Damage kDamages[] = {
    {"c1_a_districts_money",
     "UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1 AND d_id = 3",
     {1, 9}},
    {"c2_a_districts_next_order",
     "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3",
     {2}},
    {"c2_the_last_new_order",
     "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 30",
     {2, 5, 11}},
    {"c3_a_gap",
     "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 25",
     {3, 5, 11}},
    {"c4_an_orders_lines_told",
     "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 30",
     {4, 6}},
    {"c4_a_line",
     "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 30 AND ol_number = 1",
     {4, 6}},
    {"c5_a_carrier",
     "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 1",
     {5, 7}},
    {"c6_two_that_cancel_out",
     "UPDATE orders SET o_ol_cnt = o_ol_cnt + iif(o_id = 1, 1, -1)"
     " WHERE o_w_id = 1 AND o_d_id = 3 AND o_id <= 2",
     {6}},
    {"c7_a_delivery_date",
     "UPDATE order_line SET ol_delivery_d = NULL"
     " WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 1 AND ol_number = 2",
     {7}},
    {"c8_a_warehouses_money", "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1", {1, 8}},
    {"c8_a_payment", "DELETE FROM history WHERE rowid = 5", {8, 9, 10}},
    {"c9_money_moved",
     "UPDATE district SET d_ytd = d_ytd + iif(d_id = 3, 1, -1) WHERE d_w_id = 1 AND d_id IN (3, 4)",
     {9}},
    {"c10_a_payment_for_another",
     "UPDATE history SET h_c_id = 8 WHERE h_c_w_id = 1 AND h_c_d_id = 3 AND h_c_id = 7",
     {10}},
    {"c11_a_delivery",
     "UPDATE customer SET c_delivery_cnt = 1 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 7",
     {11}},
    {"c12_a_customers_payments",
     "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1"
     " WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 7",
     {12}},
};

class TpccConsistencyTest : public ::testing::TestWithParam<Damage> {};

TEST_P(TpccConsistencyTest, DamageIsNoticedByTheConditionsThatItBreaks) {
  TinyDatabase tiny;
  tiny.db.run(GetParam().statement);
  ASSERT_EQ(tiny.number("changes() > 0"), 1) << "the test damages nothing";
  std::set<int> noticed;
  for (const std::string& violation : violations(tiny.db, tiny.size))
    noticed.insert(std::stoi(violation.substr(std::string("condition ").size())));
  EXPECT_EQ(noticed, GetParam().violated);
}

INSTANTIATE_TEST_SUITE_P(Rows, TpccConsistencyTest, ::testing::ValuesIn(kDamages),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(TpccConditionsTest, EachOneIsBrokenBySomeDamage) {
  std::set<int> numbers, broken;
  for (const Condition& condition : conditions()) numbers.insert(condition.number);
  for (const Damage& damage : kDamages)
    broken.insert(damage.violated.begin(), damage.violated.end());
  EXPECT_EQ(numbers.size(), 12u);
  EXPECT_EQ(broken, numbers);
}

TEST(TpccConditionsTest, AViolationSaysWhatAndWhere) {
  TinyDatabase tiny;
  tiny.db.run("UPDATE warehouse SET w_ytd = 5");
  const std::vector<std::string> found = violations(tiny.db, tiny.size);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0],
            "condition 1, W_YTD is the sum of D_YTD: warehouse 1: W_YTD 5, its districts 300000");
}

}  // namespace
}  // namespace perdure::bench::tpcc
