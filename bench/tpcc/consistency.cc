// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/consistency.h"

#include <fmt/format.h>

namespace perdure::bench::tpcc {
namespace {

// The amounts of a customer's delivered order lines, and what the customer has paid: of 10 and 12.
constexpr const char* kBalances = R"(
WITH delivered AS (
  SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, sum(ol_amount) AS amount
  FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
  WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3),
paid AS (
  SELECT h_c_w_id AS w, h_c_d_id AS d, h_c_id AS c, sum(h_amount) AS amount
  FROM history GROUP BY 1, 2, 3)
SELECT 'customer ' || c_w_id || '/' || c_d_id || '/' || c_id || ': balance ' || c_balance ||
  ', delivered ' || ifnull(delivered.amount, 0) || ', paid ' || ifnull(paid.amount, 0) ||
  ', C_YTD_PAYMENT ' || c_ytd_payment
FROM customer
LEFT JOIN delivered ON delivered.w = c_w_id AND delivered.d = c_d_id AND delivered.c = c_id
LEFT JOIN paid ON paid.w = c_w_id AND paid.d = c_d_id AND paid.c = c_id
)";

const std::string& balances_of(int condition) {
  static const std::string ten =
      std::string(kBalances) +
      "WHERE c_balance IS NOT ifnull(delivered.amount, 0) - ifnull(paid.amount, 0)";
  static const std::string twelve =
      std::string(kBalances) + "WHERE c_balance + c_ytd_payment IS NOT ifnull(delivered.amount, 0)";
  return condition == 10 ? ten : twelve;
}

}  // namespace

std::span<const Condition> conditions() {
  static const Condition all[] = {
      {1, "W_YTD is the sum of D_YTD", R"(
SELECT 'warehouse ' || w_id || ': W_YTD ' || w_ytd || ', its districts ' || districts FROM (
  SELECT w_id, w_ytd, (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id) AS districts
  FROM warehouse)
WHERE w_ytd IS NOT districts)"},
      {2, "D_NEXT_O_ID - 1 is the largest order, and the largest new order", R"(
SELECT 'district ' || d_w_id || '/' || d_id || ': next order ' || d_next_o_id || ', last order ' ||
  ifnull(ordered, 'none') || ', last new order ' || ifnull(waiting, 'none')
FROM (
  SELECT d_w_id, d_id, d_next_o_id,
    (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS ordered,
    (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS waiting
  FROM district)
WHERE ordered IS NOT d_next_o_id - 1 OR (waiting IS NOT NULL AND waiting <> d_next_o_id - 1))"},
      {3, "new orders are numbered without a gap", R"(
SELECT 'district ' || no_w_id || '/' || no_d_id || ': ' || count(*) || ' new orders from ' ||
  min(no_o_id) || ' to ' || max(no_o_id)
FROM new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*))"},
      {4, "the sum of O_OL_CNT is the number of order lines", R"(
SELECT 'district ' || d_w_id || '/' || d_id || ': O_OL_CNT ' || ifnull(told, 0) || ', lines ' || lines
FROM (
  SELECT d_w_id, d_id,
    (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS told,
    (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id) AS lines
  FROM district)
WHERE ifnull(told, 0) <> lines)"},
      {5, "an order has no carrier if and only if it is a new order", R"(
SELECT 'order ' || o_w_id || '/' || o_d_id || '/' || o_id || ': carrier ' ||
  ifnull(o_carrier_id, 'none') || ', ' || iif(no_o_id IS NULL, 'no new order', 'a new order')
FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL))"},
      {6, "O_OL_CNT is the number of the order's lines", R"(
SELECT 'order ' || o_w_id || '/' || o_d_id || '/' || o_id || ': O_OL_CNT ' || o_ol_cnt ||
  ', lines ' || lines
FROM (
  SELECT o_w_id, o_d_id, o_id, o_ol_cnt,
    (SELECT count(*) FROM order_line
     WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) AS lines
  FROM orders)
WHERE o_ol_cnt IS NOT lines)"},
      {7, "an order line has no delivery date if and only if its order has no carrier", R"(
SELECT 'order line ' || ol_w_id || '/' || ol_d_id || '/' || ol_o_id || '/' || ol_number ||
  ': delivered ' || ifnull(ol_delivery_d, 'never') || ', carrier ' || ifnull(o_carrier_id, 'none')
FROM order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL))"},
      {8, "W_YTD is the sum of the warehouse's H_AMOUNT", R"(
SELECT 'warehouse ' || w_id || ': W_YTD ' || w_ytd || ', history ' || ifnull(paid, 0)
FROM warehouse LEFT JOIN
  (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) ON h_w_id = w_id
WHERE w_ytd IS NOT ifnull(paid, 0))"},
      {9, "D_YTD is the sum of the district's H_AMOUNT", R"(
SELECT 'district ' || d_w_id || '/' || d_id || ': D_YTD ' || d_ytd || ', history ' || ifnull(paid, 0)
FROM district LEFT JOIN
  (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id)
  ON h_w_id = d_w_id AND h_d_id = d_id
WHERE d_ytd IS NOT ifnull(paid, 0))"},
      {10, "C_BALANCE is what was delivered less what was paid", balances_of(10).c_str()},
      // The standard's number, 2100, is of a database without deliveries; each is counted by a
      // customer.
      {11, "orders less new orders are those delivered at first and since", R"(
SELECT 'district ' || d_w_id || '/' || d_id || ': orders ' || orders || ', new orders ' || waiting ||
  ', delivered since ' || delivered
FROM (
  SELECT d_w_id, d_id,
    (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS orders,
    (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS waiting,
    (SELECT sum(c_delivery_cnt) FROM customer WHERE c_w_id = d_w_id AND c_d_id = d_id) AS delivered
  FROM district)
WHERE orders - waiting IS NOT ?1 + delivered)"},
      {12, "C_BALANCE and C_YTD_PAYMENT together are what was delivered", balances_of(12).c_str()},
  };
  return all;
}

std::vector<std::string> violations(Connection& connection, const Size& size) {
  std::vector<std::string> found;
  for (const Condition& condition : conditions()) {
    Statement statement(connection, condition.query);
    Rows rows = ::sqlite3_bind_parameter_count(statement.handle()) == 0
                    ? statement.rows()
                    : statement.rows(size.orders() - size.new_orders());
    if (rows.next())
      found.push_back(
          fmt::format("condition {}, {}: {}", condition.number, condition.claim, rows.text(0)));
  }
  return found;
}

}  // namespace perdure::bench::tpcc
