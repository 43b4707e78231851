// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/terminal.h"

#include <chrono>
#include <utility>

namespace perdure::bench::tpcc {
namespace {

using Clock = std::chrono::steady_clock;

void prepare(Connection& connection, const Load& load, const Mode& mode) {
  apply(mode, connection);
  if (load.cache_mib != 0)
    connection.run("PRAGMA cache_size = -" + std::to_string(load.cache_mib * 1024));
}

}  // namespace

Terminals::Terminals(const Load& load, const Mode& mode, const std::string& path,
                     std::uint64_t seed, std::mutex& turn)
    : connection_(path, mode.vfs, Connection::Access::kWrite, mode.parameters),
      session_((prepare(connection_, load, mode), connection_), turn),
      draw_(seed, load.size, constants_of_run(load.seed, constants_of_load(load.seed))) {
  for (std::size_t kind = 0; kind < kCards.size(); ++kind)
    deck_.insert(deck_.end(), static_cast<std::size_t>(kCards[kind]), static_cast<Kind>(kind));
}

Kind Terminals::next_card() {
  if (next_ == 0) {
    for (std::size_t i = deck_.size() - 1; i > 0; --i)
      std::swap(deck_[i],
                deck_[static_cast<std::size_t>(draw_.uniform(0, static_cast<std::int64_t>(i)))]);
  }
  const Kind kind = deck_[next_];
  next_ = (next_ + 1) % deck_.size();
  return kind;
}

void Terminals::run_card(Kind kind, Tally& tally) {
  // A terminal belongs to a warehouse and, for Stock-Level, to a district of it.
  const std::int64_t warehouse = draw_.uniform(1, draw_.size().warehouses);
  const auto timed = [&](const auto& transaction) {
    const Clock::time_point begin = Clock::now();
    const auto result = transaction();
    tally.ns[static_cast<std::size_t>(kind)].push_back(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count()));
    return result;
  };
  switch (kind) {
    case Kind::kNewOrder: {
      const NewOrderInput input = any_new_order(draw_, warehouse);
      const NewOrderResult result = timed([&] { return session_.new_order(input); });
      tally.rollbacks += result.committed ? 0 : 1;
      tally.lines += static_cast<std::uint64_t>(result.lines);
      return;
    }
    case Kind::kPayment: {
      const PaymentInput input = any_payment(draw_, warehouse);
      timed([&] { return session_.payment(input); });
      return;
    }
    case Kind::kOrderStatus: {
      const OrderStatusInput input = any_order_status(draw_, warehouse);
      timed([&] { return session_.order_status(input); });
      return;
    }
    case Kind::kDelivery: {
      const DeliveryInput input = any_delivery(draw_, warehouse);
      const DeliveryResult result = timed([&] { return session_.delivery(input); });
      tally.delivered += static_cast<std::uint64_t>(result.orders);
      tally.skipped += static_cast<std::uint64_t>(kDistricts - result.orders);
      return;
    }
    case Kind::kStockLevel: {
      const StockLevelInput input = any_stock_level(draw_, warehouse, draw_.district());
      timed([&] { return session_.stock_level(input); });
      return;
    }
  }
}

void Terminals::run_one(Tally& tally) { run_card(next_card(), tally); }

void Terminals::run(double seconds, std::uint64_t transactions, Tally& tally) {
  if (transactions != 0) {
    for (std::uint64_t i = 0; i < transactions; ++i) run_one(tally);
    return;
  }
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  while (Clock::now() < end) run_one(tally);
}

}  // namespace perdure::bench::tpcc
