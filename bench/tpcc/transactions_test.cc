// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/transactions.h"

#include <gtest/gtest.h>

#include "bench/tpcc/consistency.h"
#include "bench/tpcc/tiny_test_database.h"

namespace perdure::bench::tpcc {
namespace {

class TpccTransactionsTest : public ::testing::Test {
 protected:
  std::int64_t number(const std::string& expression) { return tiny_.number(expression); }
  void expect_consistent() {
    EXPECT_EQ(violations(tiny_.db, tiny_.size), std::vector<std::string>{});
    EXPECT_NE(::sqlite3_get_autocommit(tiny_.db.handle()), 0) << "a transaction is still open";
  }

  TinyDatabase tiny_{2};
  std::mutex turn_;
  Session session_{tiny_.db, turn_};
};

const NewOrderInput kTwoLines{1, 3, 7, {{11, 1, 4}, {12, 2, 9}}, 1234};

TEST_F(TpccTransactionsTest, NewOrderTakesTheNextNumberAndWritesItsLines) {
  const NewOrderResult result = session_.new_order(kTwoLines);
  ASSERT_TRUE(result.committed);
  EXPECT_EQ(result.order, 31);
  EXPECT_EQ(result.lines, 2);
  EXPECT_EQ(number("d_next_o_id FROM district WHERE d_w_id = 1 AND d_id = 3"), 32);
  EXPECT_EQ(number("count(*) FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 31"),
            1);
  EXPECT_EQ(
      number("count(*) FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 31 AND o_c_id = 7"
             " AND o_entry_d = 1234 AND o_carrier_id IS NULL AND o_ol_cnt = 2"
             " AND o_all_local = 0"),
      1);
  EXPECT_EQ(number("count(*) FROM order_line JOIN item ON i_id = ol_i_id JOIN stock"
                   " ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id WHERE ol_w_id = 1"
                   " AND ol_d_id = 3 AND ol_o_id = 31 AND ol_delivery_d IS NULL"
                   " AND ol_amount = i_price * ol_quantity AND ol_dist_info = s_dist_03"),
            2);
  expect_consistent();
}

TEST_F(TpccTransactionsTest, NewOrderAddsDiscountAndTaxes) {
  tiny_.db.run(
      "UPDATE item SET i_price = 1000; UPDATE warehouse SET w_tax = 500;"
      "UPDATE district SET d_tax = 1500; UPDATE customer SET c_discount = 1000");
  EXPECT_EQ(session_.new_order(kTwoLines).total, 13 * 1000 * 9 / 10 * 12 / 10);
}

TEST_F(TpccTransactionsTest, NewOrderTakesFromStockAndRefillsBelowTen) {
  tiny_.db.run("UPDATE stock SET s_quantity = 14 WHERE s_i_id = 11");
  tiny_.db.run("UPDATE stock SET s_quantity = 18 WHERE s_i_id = 12");
  session_.new_order(kTwoLines);
  EXPECT_EQ(number("s_quantity FROM stock WHERE s_w_id = 1 AND s_i_id = 11"), 10);
  EXPECT_EQ(number("s_quantity FROM stock WHERE s_w_id = 2 AND s_i_id = 12"), 18 - 9 + 91);
  EXPECT_EQ(number("s_ytd * 100 + s_order_cnt * 10 + s_remote_cnt FROM stock WHERE s_w_id = 1"
                   " AND s_i_id = 11"),
            410);
  EXPECT_EQ(number("s_ytd * 100 + s_order_cnt * 10 + s_remote_cnt FROM stock WHERE s_w_id = 2"
                   " AND s_i_id = 12"),
            911)
      << "the other warehouse supplied it";
  EXPECT_EQ(number("s_order_cnt FROM stock WHERE s_w_id = 1 AND s_i_id = 12"), 0);
}

TEST_F(TpccTransactionsTest, NewOrderOfAnUnusedItemLeavesNothing) {
  const std::string before = tiny_.dump();
  NewOrderInput input = kTwoLines;
  input.lines.push_back({tiny_.size.items() + 1, 1, 1});
  const NewOrderResult result = session_.new_order(input);
  EXPECT_FALSE(result.committed);
  EXPECT_EQ(result.lines, 0);
  EXPECT_TRUE(tiny_.dump() == before);
  expect_consistent();
  EXPECT_TRUE(session_.new_order(kTwoLines).committed) << "the next one begins afresh";
}

TEST_F(TpccTransactionsTest, AFailureInTheMiddleLeavesNothing) {
  const std::string before = tiny_.dump();
  NewOrderInput input = kTwoLines;
  input.lines[1].supply_warehouse = 3;  // of two
  EXPECT_THROW(session_.new_order(input), Exception);
  EXPECT_TRUE(tiny_.dump() == before);
  expect_consistent();
}

TEST_F(TpccTransactionsTest, PaymentMovesMoneyEverywhere) {
  const PaymentResult result = session_.payment({1, 2, {2, 5, 9, {}}, 123'45, 77});
  EXPECT_EQ(result.customer, 9);
  EXPECT_EQ(result.balance, -1000 - 12345);
  EXPECT_EQ(number("w_ytd FROM warehouse WHERE w_id = 1"), 10 * 30 * 1000 + 12345);
  EXPECT_EQ(number("d_ytd FROM district WHERE d_w_id = 1 AND d_id = 2"), 30 * 1000 + 12345);
  EXPECT_EQ(number("count(*) FROM customer WHERE c_w_id = 2 AND c_d_id = 5 AND c_id = 9"
                   " AND c_balance = -13345 AND c_ytd_payment = 13345 AND c_payment_cnt = 2"),
            1);
  EXPECT_EQ(
      number("count(*) FROM history WHERE h_c_id = 9 AND h_c_d_id = 5 AND h_c_w_id = 2"
             " AND h_d_id = 2 AND h_w_id = 1 AND h_date = 77 AND h_amount = 12345 AND h_data ="
             " (SELECT w_name FROM warehouse WHERE w_id = 1) || '    ' ||"
             " (SELECT d_name FROM district WHERE d_w_id = 1 AND d_id = 2)"),
      1);
  expect_consistent();
}

TEST_F(TpccTransactionsTest, ANameMeansTheMiddleOneByFirstName) {
  tiny_.db.run(
      "UPDATE customer SET c_last = 'SAME', c_first = 'first' || c_id"
      " WHERE c_w_id = 1 AND c_d_id = 1 AND c_id IN (9, 5, 7, 3)");
  EXPECT_EQ(session_.payment({1, 1, {1, 1, 0, "SAME"}, 100, 0}).customer, 5) << "second of four";
  tiny_.db.run("UPDATE customer SET c_last = 'OTHER' WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 3");
  EXPECT_EQ(session_.order_status({{1, 1, 0, "SAME"}}).customer, 7) << "second of three";
  EXPECT_THROW(session_.order_status({{1, 1, 0, "NOBODY"}}), Exception);
  expect_consistent();
}

TEST_F(TpccTransactionsTest, PaymentOfBadCreditIsNotedInFront) {
  tiny_.db.run("UPDATE customer SET c_credit = 'GC'");
  tiny_.db.run(
      "UPDATE customer SET c_credit = 'BC', c_data = printf('%.500c', 'x')"
      " WHERE c_w_id = 2 AND c_d_id = 5 AND c_id = 9");
  session_.payment({1, 2, {2, 5, 9, {}}, 123'05, 77});
  const std::string where = "FROM customer WHERE c_w_id = 2 AND c_d_id = 5 AND c_id = ";
  EXPECT_EQ(tiny_.db.text("SELECT substr(c_data, 1, 23) " + where + "9"),
            "9 5 2 2 1 123.05 | xxxx");
  EXPECT_EQ(number("length(c_data) " + where + "9"), 500);
  const std::string other = tiny_.db.text("SELECT c_data " + where + "10");
  session_.payment({1, 2, {2, 5, 10, {}}, 123'05, 77});
  EXPECT_EQ(tiny_.db.text("SELECT c_data " + where + "10"), other) << "good credit";
}

TEST_F(TpccTransactionsTest, OrderStatusShowsTheNewestOrder) {
  const OrderStatusResult before = session_.order_status({{1, 3, 7, {}}});
  EXPECT_EQ(before.order,
            number("o_id FROM orders WHERE o_w_id = 1 AND o_d_id = 3 AND o_c_id = 7"));
  EXPECT_EQ(before.balance, -1000);
  session_.new_order(kTwoLines);
  const std::string dump = tiny_.dump();
  const OrderStatusResult after = session_.order_status({{1, 3, 7, {}}});
  EXPECT_EQ(after.order, 31);
  EXPECT_EQ(after.lines, 2);
  EXPECT_TRUE(tiny_.dump() == dump) << "it only reads";
}

TEST_F(TpccTransactionsTest, DeliveryHandsOverTheOldestOrderOfEachDistrict) {
  const std::int64_t customer =
      number("o_c_id FROM orders WHERE o_w_id = 1 AND o_d_id = 4 AND o_id = 22");
  const std::int64_t amount =
      number("sum(ol_amount) FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 4 AND ol_o_id = 22");
  EXPECT_EQ(session_.delivery({1, 6, 99}).orders, 10);
  EXPECT_EQ(number("min(no_o_id) FROM new_order WHERE no_w_id = 1"), 23);
  EXPECT_EQ(number("min(no_o_id) FROM new_order WHERE no_w_id = 2"), 22) << "not its own";
  EXPECT_EQ(number("o_carrier_id FROM orders WHERE o_w_id = 1 AND o_d_id = 4 AND o_id = 22"), 6);
  EXPECT_EQ(number("count(*) FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 4 AND ol_o_id = 22"
                   " AND ol_delivery_d IS NOT 99"),
            0);
  EXPECT_EQ(number("c_balance FROM customer WHERE c_w_id = 1 AND c_d_id = 4 AND c_id = " +
                   std::to_string(customer)),
            -1000 + amount);
  expect_consistent();
}

TEST_F(TpccTransactionsTest, DeliverySkipsDistrictsThatWaitForNothing) {
  for (int i = 0; i < 9; ++i) EXPECT_EQ(session_.delivery({1, 6, 99}).orders, 10);
  EXPECT_EQ(session_.delivery({1, 6, 99}).orders, 0);
  session_.new_order(kTwoLines);
  EXPECT_EQ(session_.delivery({1, 6, 99}).orders, 1);
  expect_consistent();
}

TEST_F(TpccTransactionsTest, StockLevelCountsItemsOfTheLastTwentyOrdersOnce) {
  tiny_.db.run("UPDATE stock SET s_quantity = 50");
  EXPECT_EQ(session_.stock_level({1, 3, 20}).low_stock, 0);
  tiny_.db.run("UPDATE stock SET s_quantity = 19 WHERE s_w_id = 2");
  EXPECT_EQ(session_.stock_level({1, 3, 20}).low_stock, 0) << "its own stock counts";
  tiny_.db.run("UPDATE stock SET s_quantity = 19");
  const std::string dump = tiny_.dump();
  EXPECT_EQ(session_.stock_level({1, 3, 20}).low_stock,
            number("count(DISTINCT ol_i_id) FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 3"
                   " AND ol_o_id BETWEEN 11 AND 30"));
  EXPECT_EQ(session_.stock_level({1, 3, 19}).low_stock, 0) << "below, not at";
  EXPECT_TRUE(tiny_.dump() == dump) << "it only reads";
}

TEST(TpccInputsTest, OneNewOrderInAHundredAsksForAnUnusedItem) {
  const Size size{3, 1};
  Generator draw(1, size, constants_of_load(1));
  int mistyped = 0, remote = 0, lines = 0;
  for (int i = 0; i < 20'000; ++i) {
    const NewOrderInput input = any_new_order(draw, 2);
    ASSERT_TRUE(input.lines.size() >= 5 && input.lines.size() <= 15);
    for (std::size_t line = 0; line < input.lines.size(); ++line) {
      const LineInput& asked = input.lines[line];
      if (asked.item > size.items()) {
        ASSERT_EQ(line, input.lines.size() - 1) << "the last one";
        ++mistyped;
      }
      remote += asked.supply_warehouse != 2 ? 1 : 0;
      ++lines;
    }
  }
  EXPECT_NEAR(mistyped, 200, 60);
  EXPECT_NEAR(remote, lines / 100, lines / 400);
}

TEST(TpccInputsTest, PaymentsAreByNameInSixOfTenAndRemoteInFifteenOfAHundred) {
  for (const std::int64_t warehouses : {1, 3}) {
    Generator draw(1, {warehouses, 1}, constants_of_load(1));
    int by_name = 0, remote = 0;
    for (int i = 0; i < 10'000; ++i) {
      const PaymentInput input = any_payment(draw, 1);
      by_name += input.customer.number == 0 ? 1 : 0;
      remote += input.customer.warehouse != 1 ? 1 : 0;
      ASSERT_EQ(input.customer.number == 0, !input.customer.last_name.empty());
    }
    EXPECT_NEAR(by_name, 6'000, 200);
    EXPECT_NEAR(remote, warehouses == 1 ? 0 : 1'500, 150);
  }
}

}  // namespace
}  // namespace perdure::bench::tpcc
