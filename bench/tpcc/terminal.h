// SPDX-License-Identifier: BSD-3-Clause
// The terminals of one connection: they draw their transactions from a deck of cards, and note the
// answers.
#pragma once

#include <mutex>
#include <vector>

#include "bench/tpcc/driver.h"
#include "bench/tpcc/transactions.h"

namespace perdure::bench::tpcc {

class Terminals {
 public:
  Terminals(const Load& load, const Mode& mode, const std::string& path, std::uint64_t seed,
            std::mutex& turn);

  /// One transaction of a terminal drawn at random: without keying and think times a connection
  /// stands for any number of them.
  void run_one(Tally& tally);
  /// Runs for `seconds`, or `transactions` if that is not 0.
  void run(double seconds, std::uint64_t transactions, Tally& tally);
  Connection& connection() { return connection_; }

 private:
  /// 5.2.4.2: the cards are drawn in random order, then all are put back.
  Kind next_card();
  void run_card(Kind kind, Tally& tally);

  Connection connection_;
  Session session_;
  Generator draw_;
  std::vector<Kind> deck_;
  std::size_t next_ = 0;
};

}  // namespace perdure::bench::tpcc
