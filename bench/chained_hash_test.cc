// SPDX-License-Identifier: BSD-3-Clause
#include "bench/chained_hash.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/pool.h"
#include "perdure/tx.h"
#include "tests/small_pool.h"

namespace perdure::bench {
namespace {

constexpr std::uint64_t kEntries = 100;

/// `run(body)` runs body(tx) as a transaction. Few keys and buckets: chains, and keys that come again.
template <class Run>
void compare_with_a_map(ChainedHash& hash, Run run) {
  std::map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t key = random() % (3 * kEntries);
    const std::uint64_t value = random() | 1;
    const bool inserts = random() % 2 == 0;
    run([&](auto& tx) {
      if (inserts) {
        ASSERT_EQ(hash.insert(tx, key, value), model.try_emplace(key, value).second);
      } else {
        ASSERT_EQ(hash.erase(tx, key), model.erase(key) == 1);
      }
      for (const std::uint64_t other : {key, key + 1}) {
        const auto found = model.find(other);
        ASSERT_EQ(hash.get(tx, other), found == model.end() ? 0 : found->second);
      }
    });
    if (::testing::Test::HasFatalFailure()) return;
  }
  run([&](auto& tx) { hash.clear(tx); });
  for (const auto& [key, value] : model) run([&](auto& tx) { EXPECT_EQ(hash.get(tx, key), 0u); });
}

TEST(ChainedHash, HoldsWhatAMapHoldsInOrdinaryMemory) {
  std::vector<std::uint64_t> buckets(ChainedHash::buckets_for(kEntries));
  ChainedHash hash{};
  PlainTx tx;
  hash.make(tx, buckets.data(), kEntries);
  compare_with_a_map(hash, [&](auto body) { body(tx); });
}

TEST(ChainedHash, HoldsWhatAMapHoldsInAPool) {
  testing::Image image = testing::Image::formatted(testing::kSmallGeometry);
  Pool pool = image.pool().value();
  auto* hash = pool.root<ChainedHash>("hash");
  pool.atomically([&](Tx& tx) {
    const std::uint64_t bytes = ChainedHash::array_bytes(kEntries);
    void* buckets = tx.allocate(bytes);
    const std::vector<std::byte> zeros(bytes);
    tx.write(buckets, zeros.data(), bytes);
    hash->make(tx, buckets, kEntries);
  });
  compare_with_a_map(*hash, [&](auto body) { pool.atomically([&](Tx& tx) { body(tx); }); });
}

}  // namespace
}  // namespace perdure::bench
