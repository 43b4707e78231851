// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;

using SixtyFour = std::array<std::uint64_t, 64>;

/// What the domain is asked for by one transaction of as many words.
DomainCounts counts_of(EngineKind engine, std::uint64_t words) {
  DomainCounters counters;
  Image image = Image::formatted();
  Pool pool = adopt_region(image.region().value(), papers::on_dram(engine, &counters)).value();
  auto* root = pool.root<SixtyFour>("words");
  const auto store_all = [&] {
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < words; ++i) tx.store((*root)[i], i + 1);
    });
  };
  store_all();  // the first one makes the log ready, too
  const DomainCounts before = counters.total();
  store_all();
  return counters.total() - before;
}

TEST(Base, WritesItsLogThroughTheCacheAndFlushesIt) {
  for (const std::uint64_t words : {1u, 8u, 64u}) {
    const DomainCounts cached = counts_of(EngineKind::kBase, words);
    const DomainCounts streamed = counts_of(EngineKind::kBaseStream, words);
    EXPECT_EQ(cached.written_words, 0u);
    EXPECT_GT(streamed.written_words, words);
    EXPECT_EQ(cached.stores, streamed.stores + streamed.written_words);
    EXPECT_EQ(cached.flushes, streamed.flushes) << "the same lines";
    EXPECT_EQ(cached.fences, streamed.fences);
  }
}

TEST(Base, WaitsOnceMoreThanALogOfTornBits) {
  // For the commit word; home words, and the head that drops the record, are waited for by both.
  Image image = Image::formatted();
  DomainCounters counters;
  Pool pool =
      adopt_region(image.region().value(), papers::on_dram(EngineKind::kMnemosyne, &counters))
          .value();
  pool.set_truncation(Truncation::kEachCommit);
  auto* root = pool.root<SixtyFour>("words");
  const auto store_one = [&] { pool.atomically([&](Tx& tx) { tx.store((*root)[0], 1); }); };
  store_one();
  const DomainCounts before = counters.total();
  store_one();
  EXPECT_EQ(counts_of(EngineKind::kBase, 1).fences, (counters.total() - before).fences + 1);
}

}  // namespace
}  // namespace perdure
