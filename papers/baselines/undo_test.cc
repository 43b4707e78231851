// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;

using Words = std::array<std::uint64_t, 400>;

TEST(Undo, WaitsForEachWordAndTwiceAtTheEnd) {
  DomainCounters counters;
  Image image = Image::formatted();
  Pool pool =
      adopt_region(image.region().value(), papers::on_dram(EngineKind::kUndo, &counters)).value();
  auto* words = pool.root<Words>("words");
  for (const std::uint64_t count : {1, 5, 20}) {
    const DomainCounts before = counters.total();
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < count; ++i) tx.store((*words)[i * 16], i);
    });
    EXPECT_EQ((counters.total() - before).fences, count + 2);
  }
}

TEST(Undo, WhatItsLogCannotTakeWordByWordIsLoggedAtOnce) {
  // A segment's metadata, of 128 words, and a transaction of 400: in a log of 512.
  Image image = Image::formatted({std::uint64_t{8} << 20, std::uint64_t{1} << 20, 4096, 2, 4});
  Pool pool = image.pool(EngineKind::kUndo).value();
  auto* words = pool.root<Words>("words");
  pool.atomically([&](Tx& tx) {
    for (std::uint64_t i = 0; i < words->size(); ++i) tx.store((*words)[i], i + 1);
  });
  for (int i = 0; i < 400; ++i) pool.atomically([](Tx& tx) { (void)tx.allocate(4096); });
  const std::uint64_t objects = core_of(pool).heap().usage().objects;
  Image killed = image;
  Pool after = killed.pool().value();
  EXPECT_EQ(after.recovery().records_replayed, 0u) << "nothing is left to take back";
  EXPECT_EQ(core_of(after).heap().usage().objects, objects);
  const Words& found = *after.find_root<Words>("words");
  for (std::uint64_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], i + 1);
}

TEST(Undo, AnotherTruncationIsRefused) {
  const testing::TempDir directory;
  papers::LabOptions options;
  options.domain = DomainKind::kDram;
  options.engine = EngineKind::kUndo;
  options.truncation = Truncation::kWhenFull;
  EXPECT_NE(papers::create(directory / "pool", options).error().message.find("at each commit"),
            std::string::npos);
  options.truncation = Truncation::kEachCommit;
  papers::LabPool pool = papers::create(directory / "pool", options).value();
  EXPECT_THROW(pool.set_truncation(Truncation::kBackground), Exception);
}

}  // namespace
}  // namespace perdure
