// SPDX-License-Identifier: BSD-3-Clause
// Many threads move money between accounts. Transactions isolate them from each other, and every
// transfer that was acknowledged survives: the sum is the same at all times, also after `kill -9`
// and a second start.
#include <cstdint>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "perdure/container/btree_map.h"
#include "perdure/pool.h"

namespace {

using Accounts = perdure::btree_map<std::uint64_t, std::uint64_t>;  // number → cents
constexpr std::uint64_t kAccounts = 1000;
constexpr std::uint64_t kEach = 10'000;

/// False when there is too little in `from`.
template <perdure::Transaction Tx>
bool transfer(Tx& tx, Accounts& accounts, std::uint64_t from, std::uint64_t to,
              std::uint64_t cents) {
  const std::uint64_t before = accounts.get(tx, from).value();
  if (before < cents) return false;
  accounts.put(tx, from, before - cents);
  accounts.put(tx, to, accounts.get(tx, to).value() + cents);
  return true;
}

}  // namespace

int main() {  // NOLINT(bugprone-exception-escape): an error may end an example
  auto pool = perdure::Pool::open_or_create("bank.pool").value();
  auto* accounts = pool.root<Accounts>("accounts");
  pool.atomically([&](auto& tx) {
    if (!accounts->empty(tx)) return;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> opening;
    opening.reserve(kAccounts);
    for (std::uint64_t number = 0; number < kAccounts; ++number)
      opening.emplace_back(number, kEach);
    accounts->bulk_load(tx, opening.begin(), opening.end());
  });

  std::vector<std::thread> tellers;
  tellers.reserve(4);
  for (unsigned teller = 0; teller < 4; ++teller) {
    tellers.emplace_back([&, teller] {
      std::mt19937_64 random(teller);
      for (int i = 0; i < 250; ++i) {
        const std::uint64_t from = random() % kAccounts;
        const std::uint64_t to = random() % kAccounts;
        const std::uint64_t cents = random() % 5000;
        pool.atomically([&](auto& tx) { return transfer(tx, *accounts, from, to, cents); });
      }
    });
  }
  for (std::thread& teller : tellers) teller.join();

  const std::uint64_t sum = pool.read_only([&](auto& tx) {
    std::uint64_t total = 0;
    accounts->for_each(tx, [&](std::uint64_t, std::uint64_t cents) { total += cents; });
    return total;
  });
  std::printf("%llu accounts hold %llu cents\n", static_cast<unsigned long long>(kAccounts),
              static_cast<unsigned long long>(sum));
  return sum == kAccounts * kEach ? 0 : 1;
}
