// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/transactions.h"

#include <array>
#include <vector>

#include <fmt/format.h>

namespace perdure::bench::tpcc {

struct Session::Statements {
  explicit Statements(Connection& connection) : db(connection) {
    for (std::int64_t district = 1; district <= kDistricts; ++district)
      stock_of_district.push_back(std::make_unique<Statement>(
          db, fmt::format("SELECT s_quantity, s_dist_{:02}, s_data FROM stock"
                          " WHERE s_w_id = ?1 AND s_i_id = ?2",
                          district)));
  }

  Connection& db;
  Statement begin{db, "BEGIN"};
  Statement begin_writing{db, "BEGIN IMMEDIATE"};
  Statement commit{db, "COMMIT"};
  Statement rollback{db, "ROLLBACK"};

  // New-Order
  Statement warehouse_tax{db, "SELECT w_tax FROM warehouse WHERE w_id = ?"};
  Statement district_tax_and_order{
      db, "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?"};
  Statement take_order_number{
      db, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?"};
  Statement customer_discount{db,
                              "SELECT c_discount, c_last, c_credit FROM customer"
                              " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"};
  Statement insert_order{db, "INSERT INTO orders VALUES (?, ?, ?, ?, ?, NULL, ?, ?)"};
  Statement insert_new_order{db, "INSERT INTO new_order VALUES (?, ?, ?)"};
  Statement item{db, "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?"};
  std::vector<std::unique_ptr<Statement>> stock_of_district;
  Statement update_stock{db,
                         "UPDATE stock SET s_quantity = ?3, s_ytd = s_ytd + ?4,"
                         " s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ?5"
                         " WHERE s_w_id = ?1 AND s_i_id = ?2"};
  Statement insert_line{db, "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)"};

  // Payment, and Order-Status
  Statement pay_warehouse{db, "UPDATE warehouse SET w_ytd = w_ytd + ?2 WHERE w_id = ?1"};
  Statement warehouse_address{
      db,
      "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse"
      " WHERE w_id = ?"};
  Statement pay_district{db,
                         "UPDATE district SET d_ytd = d_ytd + ?3 WHERE d_w_id = ?1 AND d_id = ?2"};
  Statement district_address{
      db,
      "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district"
      " WHERE d_w_id = ? AND d_id = ?"};
  Statement customers_of_name{db,
                              "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ?"
                              " AND c_last = ? ORDER BY c_first"};
  Statement customer{db,
                     "SELECT c_balance, c_credit, c_first, c_middle, c_last, c_street_1,"
                     " c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit_lim,"
                     " c_discount FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"};
  Statement customer_data{
      db, "SELECT c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"};
  Statement pay_customer{db,
                         "UPDATE customer SET c_balance = c_balance - ?4,"
                         " c_ytd_payment = c_ytd_payment + ?4, c_payment_cnt = c_payment_cnt + 1"
                         " WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3"};
  Statement pay_customer_of_bad_credit{
      db,
      "UPDATE customer SET c_balance = c_balance - ?4, c_ytd_payment = c_ytd_payment + ?4,"
      " c_payment_cnt = c_payment_cnt + 1, c_data = ?5"
      " WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3"};
  Statement insert_history{db, "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)"};
  Statement customer_balance{db,
                             "SELECT c_balance, c_first, c_middle, c_last FROM customer"
                             " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?"};
  Statement last_order{db,
                       "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ?"
                       " AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1"};
  Statement lines{db,
                  "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d"
                  " FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"};

  // Delivery
  Statement oldest_new_order{db,
                             "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ?"
                             " ORDER BY no_o_id LIMIT 1"};
  Statement delete_new_order{
      db, "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?"};
  Statement customer_of_order{
      db, "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?"};
  Statement give_to_carrier{
      db, "UPDATE orders SET o_carrier_id = ?4 WHERE o_w_id = ?1 AND o_d_id = ?2 AND o_id = ?3"};
  Statement date_lines{db,
                       "UPDATE order_line SET ol_delivery_d = ?4"
                       " WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id = ?3"};
  Statement amount_of_order{
      db,
      "SELECT sum(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"};
  Statement bill_customer{db,
                          "UPDATE customer SET c_balance = c_balance + ?4,"
                          " c_delivery_cnt = c_delivery_cnt + 1"
                          " WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_id = ?3"};

  // Stock-Level
  Statement next_order{db, "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?"};
  Statement low_stock{db,
                      "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock"
                      " ON s_w_id = ol_w_id AND s_i_id = ol_i_id"
                      " WHERE ol_w_id = ?1 AND ol_d_id = ?2 AND ol_o_id >= ?3 - 20"
                      " AND ol_o_id < ?3 AND s_quantity < ?4"};
};

/// Rolls back unless it was committed.
class Session::Transaction {
 public:
  enum class Kind : std::uint8_t { kReads, kWrites };
  Transaction(Session& session, Kind kind)
      : sql_(*session.sql_), turn_(session.turn_, std::defer_lock) {
    if (kind == Kind::kWrites) turn_.lock();
    (kind == Kind::kWrites ? sql_.begin_writing : sql_.begin).run();
  }
  ~Transaction() {
    if (ended_) return;
    try {
      sql_.rollback.run();
    } catch (const Exception&) {
      // After some failures SQLite has rolled back itself; the one that brings us here is told.
    }
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() { end(sql_.commit); }
  void rollback() { end(sql_.rollback); }

 private:
  void end(Statement& statement) {
    statement.run();
    ended_ = true;
  }

  Statements& sql_;
  std::unique_lock<std::mutex> turn_;
  bool ended_ = false;
};

namespace {

constexpr std::int64_t kUnit = 10'000;  // of taxes and discounts

/// Goes to a row that must be there.
void require_row(Rows& rows, const Statement& statement) {
  if (!rows.next()) statement.throw_unexpected("found no row");
}

/// Reads what a terminal would show.
void read_texts(const Rows& rows, int first, int last) {
  for (int column = first; column <= last; ++column) static_cast<void>(rows.text(column));
}

}  // namespace

Session::Session(Connection& connection, std::mutex& turn)
    : turn_(turn), sql_(std::make_unique<Statements>(connection)) {}
Session::~Session() = default;

NewOrderResult Session::new_order(const NewOrderInput& input) {
  Transaction transaction(*this, Transaction::Kind::kWrites);
  NewOrderResult result;
  std::int64_t tax = 0;
  std::int64_t discount = 0;
  {
    Rows warehouse = sql_->warehouse_tax.rows(input.warehouse);
    require_row(warehouse, sql_->warehouse_tax);
    tax = warehouse.number(0);
    Rows district = sql_->district_tax_and_order.rows(input.warehouse, input.district);
    require_row(district, sql_->district_tax_and_order);
    tax += district.number(0);
    result.order = district.number(1);
    Rows customer = sql_->customer_discount.rows(input.warehouse, input.district, input.customer);
    require_row(customer, sql_->customer_discount);
    discount = customer.number(0);
    read_texts(customer, 1, 2);
  }
  sql_->take_order_number.change_one(input.warehouse, input.district);

  std::int64_t all_local = 1;
  for (const LineInput& line : input.lines) {
    if (line.supply_warehouse != input.warehouse) all_local = 0;
  }
  result.lines = static_cast<std::int64_t>(input.lines.size());
  sql_->insert_order.run(input.warehouse, input.district, result.order, input.customer, input.date,
                         result.lines, all_local);
  sql_->insert_new_order.run(input.warehouse, input.district, result.order);

  std::int64_t sum = 0;
  for (std::size_t index = 0; index < input.lines.size(); ++index) {
    const std::optional<std::int64_t> amount = order_line(input, result.order, index);
    if (!amount) {
      transaction.rollback();
      return {};
    }
    sum += *amount;
  }
  transaction.commit();
  result.committed = true;
  result.total = sum * (kUnit - discount) / kUnit * (kUnit + tax) / kUnit;
  return result;
}

std::optional<std::int64_t> Session::order_line(const NewOrderInput& input, std::int64_t order,
                                                std::size_t index) {
  const LineInput& line = input.lines[index];
  Rows item = sql_->item.rows(line.item);
  if (!item.next()) return std::nullopt;
  const std::int64_t amount = item.number(0) * line.quantity;
  read_texts(item, 1, 2);

  Statement& stock_statement =
      *sql_->stock_of_district[static_cast<std::size_t>(input.district - 1)];
  Rows stock = stock_statement.rows(line.supply_warehouse, line.item);
  require_row(stock, stock_statement);
  std::int64_t quantity = stock.number(0) - line.quantity;
  if (quantity < 10) quantity += 91;
  const std::string district_info(stock.text(1));
  read_texts(stock, 2, 2);

  const std::int64_t remote = line.supply_warehouse != input.warehouse ? 1 : 0;
  sql_->update_stock.change_one(line.supply_warehouse, line.item, quantity, line.quantity, remote);
  sql_->insert_line.run(input.warehouse, input.district, order,
                        static_cast<std::int64_t>(index + 1), line.item, line.supply_warehouse,
                        line.quantity, amount, district_info);
  return amount;
}

std::int64_t Session::number_of(const CustomerChoice& choice) {
  if (choice.number != 0) return choice.number;
  std::vector<std::int64_t> numbers;
  Rows rows = sql_->customers_of_name.rows(choice.warehouse, choice.district, choice.last_name);
  while (rows.next()) numbers.push_back(rows.number(0));
  if (numbers.empty())
    sql_->customers_of_name.throw_unexpected("found no customer called " + choice.last_name);
  return numbers[(numbers.size() + 1) / 2 - 1];
}

PaymentResult Session::payment(const PaymentInput& input) {
  const CustomerChoice& who = input.customer;
  Transaction transaction(*this, Transaction::Kind::kWrites);
  sql_->pay_warehouse.change_one(input.warehouse, input.amount);
  sql_->pay_district.change_one(input.warehouse, input.district, input.amount);
  std::string names;
  {
    Rows warehouse = sql_->warehouse_address.rows(input.warehouse);
    require_row(warehouse, sql_->warehouse_address);
    Rows district = sql_->district_address.rows(input.warehouse, input.district);
    require_row(district, sql_->district_address);
    names = std::string(warehouse.text(0)) + "    " + std::string(district.text(0));
    read_texts(warehouse, 1, 5);
    read_texts(district, 1, 5);
  }

  PaymentResult result;
  result.customer = number_of(who);
  bool good_credit = true;
  {
    Rows customer = sql_->customer.rows(who.warehouse, who.district, result.customer);
    require_row(customer, sql_->customer);
    result.balance = customer.number(0) - input.amount;
    good_credit = customer.text(1) != "BC";
    read_texts(customer, 2, 13);
  }
  if (good_credit) {
    sql_->pay_customer.change_one(who.warehouse, who.district, result.customer, input.amount);
  } else {
    std::string data =
        fmt::format("{} {} {} {} {} {}.{:02} | ", result.customer, who.district, who.warehouse,
                    input.district, input.warehouse, input.amount / 100, input.amount % 100);
    {
      Rows before = sql_->customer_data.rows(who.warehouse, who.district, result.customer);
      require_row(before, sql_->customer_data);
      data += before.text(0);
    }
    static constexpr std::size_t kMaxData = 500;
    if (data.size() > kMaxData) data.resize(kMaxData);
    sql_->pay_customer_of_bad_credit.change_one(who.warehouse, who.district, result.customer,
                                                input.amount, data);
  }
  sql_->insert_history.run(result.customer, who.district, who.warehouse, input.district,
                           input.warehouse, input.date, input.amount, names);
  transaction.commit();
  return result;
}

OrderStatusResult Session::order_status(const OrderStatusInput& input) {
  const CustomerChoice& who = input.customer;
  Transaction transaction(*this, Transaction::Kind::kReads);
  OrderStatusResult result;
  result.customer = number_of(who);
  {
    Rows customer = sql_->customer_balance.rows(who.warehouse, who.district, result.customer);
    require_row(customer, sql_->customer_balance);
    result.balance = customer.number(0);
    read_texts(customer, 1, 3);
    Rows order = sql_->last_order.rows(who.warehouse, who.district, result.customer);
    require_row(order, sql_->last_order);
    result.order = order.number(0);
    read_texts(order, 1, 2);
    Rows lines = sql_->lines.rows(who.warehouse, who.district, result.order);
    for (; lines.next(); ++result.lines) read_texts(lines, 0, 4);
  }
  transaction.commit();
  return result;
}

bool Session::deliver_one(const DeliveryInput& input, std::int64_t district) {
  std::int64_t order = 0;
  {
    Rows oldest = sql_->oldest_new_order.rows(input.warehouse, district);
    if (!oldest.next()) return false;
    order = oldest.number(0);
  }
  sql_->delete_new_order.change_one(input.warehouse, district, order);
  std::int64_t customer = 0;
  {
    Rows found = sql_->customer_of_order.rows(input.warehouse, district, order);
    require_row(found, sql_->customer_of_order);
    customer = found.number(0);
  }
  sql_->give_to_carrier.change_one(input.warehouse, district, order, input.carrier);
  sql_->date_lines.run(input.warehouse, district, order, input.date);
  std::int64_t amount = 0;
  {
    Rows sum = sql_->amount_of_order.rows(input.warehouse, district, order);
    require_row(sum, sql_->amount_of_order);
    amount = sum.number(0);
  }
  sql_->bill_customer.change_one(input.warehouse, district, customer, amount);
  return true;
}

DeliveryResult Session::delivery(const DeliveryInput& input) {
  Transaction transaction(*this, Transaction::Kind::kWrites);
  DeliveryResult result;
  for (std::int64_t district = 1; district <= kDistricts; ++district)
    result.orders += deliver_one(input, district) ? 1 : 0;
  transaction.commit();
  return result;
}

StockLevelResult Session::stock_level(const StockLevelInput& input) {
  Transaction transaction(*this, Transaction::Kind::kReads);
  StockLevelResult result;
  {
    Rows next = sql_->next_order.rows(input.warehouse, input.district);
    require_row(next, sql_->next_order);
    Rows low =
        sql_->low_stock.rows(input.warehouse, input.district, next.number(0), input.threshold);
    require_row(low, sql_->low_stock);
    result.low_stock = low.number(0);
  }
  transaction.commit();
  return result;
}

}  // namespace perdure::bench::tpcc
