// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/cache.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::memory {
namespace {

using testing::UnorderedElementsAre;

std::vector<std::uint64_t> cleaned(Cache& cache) {
  std::vector<std::uint64_t> lines;
  cache.clean_all([&](std::uint64_t line) { lines.push_back(line); });
  return lines;
}

void expect_victim(const std::optional<Cache::Victim>& victim, std::uint64_t line, bool dirty) {
  ASSERT_TRUE(victim.has_value());
  EXPECT_EQ(victim->line, line);
  EXPECT_EQ(victim->dirty, dirty);
}

TEST(Cache, HasItsLatency) { EXPECT_EQ(Cache({1, 1, 28}).latency, 28U); }

TEST(Cache, MissesWhatWasNeverPutIn) {
  Cache cache({2, 2, 4});
  for (const std::uint64_t line : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 57})
    EXPECT_FALSE(cache.access(line, true)) << line;
  EXPECT_EQ(cache.dirtied(), 0U);  // a write that misses makes nothing dirty
}

TEST(Cache, FillsEmptyWaysBeforeItReplaces) {
  Cache cache({1, 3, 4});
  for (const std::uint64_t line : {5, 6, 7}) EXPECT_FALSE(cache.insert(line, false).has_value());
  for (const std::uint64_t line : {5, 6, 7}) EXPECT_TRUE(cache.access(line, false));
  EXPECT_TRUE(cache.insert(8, false).has_value());
}

// From most to least recently used, after each step:
//   insert 1, 2, 3   3 2 1
//   access 1         1 3 2
//   access 3         3 1 2
//   insert 4         4 3 1   2 goes
//   insert 5         5 4 3   1 goes
//   access 3         3 5 4
//   insert 6         6 3 5   4 goes
TEST(Cache, ReplacesTheLeastRecentlyUsed) {
  Cache cache({1, 3, 4});
  for (const std::uint64_t line : {1, 2, 3}) cache.insert(line, false);
  EXPECT_TRUE(cache.access(1, false));
  EXPECT_TRUE(cache.access(3, false));
  expect_victim(cache.insert(4, false), 2, false);
  expect_victim(cache.insert(5, false), 1, false);
  EXPECT_TRUE(cache.access(3, false));
  expect_victim(cache.insert(6, false), 4, false);
  EXPECT_FALSE(cache.access(4, false));
  for (const std::uint64_t line : {5, 3, 6}) EXPECT_TRUE(cache.access(line, false)) << line;
}

TEST(Cache, OneWayIsReplacedEachTime) {
  Cache cache({1, 1, 4});
  EXPECT_FALSE(cache.insert(1, true).has_value());
  expect_victim(cache.insert(2, false), 1, true);
  expect_victim(cache.insert(3, true), 2, false);
}

TEST(Cache, SetsAreApart) {
  Cache cache({4, 1, 4});
  for (const std::uint64_t line : {0, 1, 2, 3}) EXPECT_FALSE(cache.insert(line, false).has_value());
  expect_victim(cache.insert(6, false), 2, false);  // 6 % 4 = 2
  for (const std::uint64_t line : {0, 1, 3, 6}) EXPECT_TRUE(cache.access(line, false)) << line;
}

TEST(Cache, AVictimIsDirtyIfItWasWrittenToInAnyWay) {
  Cache cache({1, 4, 4});
  cache.insert(1, false);
  cache.insert(2, true);  // put in dirty
  cache.insert(3, false);
  cache.insert(4, false);
  cache.access(1, true);   // dirtied behind the front
  cache.access(1, false);  // and a load does not clean it
  cache.insert(5, false);
  cache.access(5, true);                            // dirtied in front; then 5 1 4 3
  expect_victim(cache.insert(6, false), 3, false);  // 2 went for 5
  expect_victim(cache.insert(7, false), 4, false);
  expect_victim(cache.insert(8, false), 1, true);
  expect_victim(cache.insert(9, false), 5, true);
}

TEST(Cache, CleanAllNamesEachDirtyLineOnceAndKeepsAll) {
  Cache cache({2, 2, 4});
  cache.insert(0, true);
  cache.insert(1, false);
  cache.insert(2, false);
  cache.insert(3, true);
  cache.access(2, true);
  EXPECT_THAT(cleaned(cache), UnorderedElementsAre(0, 2, 3));
  EXPECT_TRUE(cleaned(cache).empty());
  for (const std::uint64_t line : {0, 1, 2, 3}) EXPECT_TRUE(cache.access(line, false)) << line;
  cache.access(0, false);
  expect_victim(cache.insert(4, false), 2, false);  // clean now; and LRU among 0 and 2
}

TEST(Cache, DirtiedCountsLinesThatBecameDirtyUntilAllAreClean) {
  Cache cache({1, 2, 4});
  cache.insert(1, true);
  EXPECT_EQ(cache.dirtied(), 1U);
  cache.access(1, true);  // it was
  EXPECT_EQ(cache.dirtied(), 1U);
  cache.insert(2, false);
  EXPECT_EQ(cache.dirtied(), 1U);
  cache.access(2, true);
  EXPECT_EQ(cache.dirtied(), 2U);
  cache.insert(3, false);  // a dirty line that leaves still counts
  EXPECT_EQ(cache.dirtied(), 2U);
  cleaned(cache);
  EXPECT_EQ(cache.dirtied(), 0U);
  cache.access(2, true);
  EXPECT_EQ(cache.dirtied(), 1U);
}

// The obvious way: a list for each set.
class SlowCache {
 public:
  SlowCache(std::uint32_t sets, std::uint32_t ways) : ways_(ways), sets_(sets) {}

  bool access(std::uint64_t line, bool write) {
    std::list<Cache::Victim>& set = sets_[line % sets_.size()];
    const auto found = std::ranges::find(set, line, &Cache::Victim::line);
    if (found == set.end()) return false;
    if (write && !found->dirty) ++dirtied;
    set.push_front({line, found->dirty || write});
    set.erase(found);
    return true;
  }
  std::optional<Cache::Victim> insert(std::uint64_t line, bool dirty) {
    std::list<Cache::Victim>& set = sets_[line % sets_.size()];
    set.push_front({line, dirty});
    if (dirty) ++dirtied;
    if (set.size() <= ways_) return {};
    const Cache::Victim last = set.back();
    set.pop_back();
    return last;
  }
  std::vector<std::uint64_t> clean_all() {
    std::vector<std::uint64_t> lines;
    for (auto& set : sets_)
      for (Cache::Victim& each : set)
        if (std::exchange(each.dirty, false)) lines.push_back(each.line);
    dirtied = 0;
    return lines;
  }
  std::uint64_t dirtied = 0;

 private:
  std::size_t ways_;
  std::vector<std::list<Cache::Victim>> sets_;
};

class CacheOfShape : public testing::TestWithParam<CacheShape> {};

TEST_P(CacheOfShape, DoesWhatASlowOneDoes) {
  const CacheShape shape = GetParam();
  Cache cache(shape);
  SlowCache slow(shape.sets, shape.ways);
  std::mt19937_64 random(shape.sets * 100 + shape.ways);
  const std::uint64_t lines = std::uint64_t{shape.sets} * shape.ways * 2;  // every other one misses
  for (int step = 0; step < 100'000; ++step) {
    const std::uint64_t line = random() % lines;
    const bool write = random() % 3 == 0;
    const bool here = cache.access(line, write);
    ASSERT_EQ(here, slow.access(line, write)) << "step " << step;
    if (!here) {
      const auto victim = cache.insert(line, write);
      const auto expected = slow.insert(line, write);
      ASSERT_EQ(victim.has_value(), expected.has_value()) << "step " << step;
      if (victim) {
        ASSERT_EQ(victim->line, expected->line) << "step " << step;
        ASSERT_EQ(victim->dirty, expected->dirty) << "step " << step;
      }
    }
    ASSERT_EQ(cache.dirtied(), slow.dirtied) << "step " << step;
    if (random() % 2000 == 0) {
      ASSERT_THAT(cleaned(cache), testing::UnorderedElementsAreArray(slow.clean_all()));
      ASSERT_EQ(cache.dirtied(), 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CacheOfShape,
                         testing::Values(CacheShape{1, 1, 4}, CacheShape{1, 8, 4},
                                         CacheShape{7, 3, 4}, CacheShape{64, 8, 4},
                                         CacheShape{128, 16, 28}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.sets) + "x" +
                                  std::to_string(shape.param.ways);
                         });

}  // namespace
}  // namespace perdure::memory
