// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/random.h"

#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace perdure::bench::tpcc {
namespace {

constexpr Size kFull{};
constexpr int kDraws = 200'000;

TEST(TpccRandomTest, LastNamesAreMadeOfThreeSyllables) {
  EXPECT_EQ(last_name(0), "BARBARBAR");
  EXPECT_EQ(last_name(371), "PRICALLYOUGHT");
  EXPECT_EQ(last_name(40), "BARPRESBAR");
  EXPECT_EQ(last_name(999), "EINGEINGEING");
  std::set<std::string> names;
  for (std::int64_t number = 0; number < 1'000; ++number) names.insert(last_name(number));
  EXPECT_EQ(names.size(), 1'000u);
}

TEST(TpccRandomTest, NurandStaysInItsRangeAndReachesItsEnds) {
  Generator draw(1, kFull, constants_of_load(1));
  std::set<std::int64_t> customers, items;
  for (int i = 0; i < kDraws; ++i) {
    customers.insert(draw.customer());
    items.insert(draw.item());
  }
  EXPECT_EQ(*customers.begin(), 1);
  EXPECT_EQ(*customers.rbegin(), 3'000);
  EXPECT_GT(customers.size(), 2'700u) << "all but the rarest, those of few ones";
  EXPECT_GE(*items.begin(), 1);
  EXPECT_LE(*items.rbegin(), 100'000);
}

TEST(TpccRandomTest, NurandIsFarFromUniform) {
  Generator draw(1, kFull, constants_of_load(1));
  std::vector<int> drawn(3'001);
  for (int i = 0; i < kDraws; ++i) ++drawn[static_cast<std::size_t>(draw.customer())];
  std::sort(drawn.rbegin(), drawn.rend());
  int first_tenth = 0;
  for (int i = 0; i < 300; ++i) first_tenth += drawn[static_cast<std::size_t>(i)];
  // A uniform draw would give 10 %, and chance not much more; OR-ing favours numbers of many ones.
  EXPECT_GT(first_tenth, kDraws / 4);
}

TEST(TpccRandomTest, NurandIsTheFormulaOfTheStandard) {
  // With A = 0 what is OR-ed in is nothing: a uniform draw that C turns round.
  Generator draw(1, kFull, {});
  Generator same(1, kFull, {});
  for (int i = 0; i < 1'000; ++i) {
    const std::int64_t plain = draw.nurand(0, 10, 19, 0);
    EXPECT_EQ(same.nurand(0, 10, 19, 7), (plain + 7) % 10 + 10);
  }
}

TEST(TpccRandomTest, TheConstantOfNamesKeepsItsDistanceFromTheLoads) {
  for (const std::int64_t distance : {64, 96, 112, 120}) EXPECT_FALSE(may_follow(distance, 0));
  for (const std::int64_t distance : {65, 95, 97, 111, 113, 119}) {
    EXPECT_TRUE(may_follow(distance, 0));
    EXPECT_TRUE(may_follow(0, distance));
  }
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const NurandConstants load = constants_of_load(seed);
    const NurandConstants run = constants_of_run(seed, load);
    EXPECT_TRUE(may_follow(run.last_name, load.last_name)) << seed;
    EXPECT_LE(run.last_name, 255);
    EXPECT_LE(run.customer, 1'023);
    EXPECT_LE(run.item, 8'191);
  }
}

TEST(TpccRandomTest, AScaledDrawAsksOnlyForWhatWasLoaded) {
  for (const std::int64_t divisor : {2, 7, 100}) {
    const Size size{1, divisor};
    std::set<std::string> loaded;
    for (std::int64_t name = 0; name < size.names(); ++name) loaded.insert(last_name(name));
    Generator draw(3, size, constants_of_load(3));
    for (int i = 0; i < 10'000; ++i) {
      const std::int64_t customer = draw.customer();
      ASSERT_TRUE(customer >= 1 && customer <= size.customers()) << customer;
      const std::int64_t item = draw.item();
      ASSERT_TRUE(item >= 1 && item <= size.items()) << item;
      ASSERT_TRUE(loaded.contains(draw.name()));
    }
  }
}

TEST(TpccRandomTest, ATenthOfTheDataIsOriginal) {
  Generator draw(1, kFull, {});
  int original = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string data = draw.data();
    ASSERT_TRUE(data.size() >= 26 && data.size() <= 50);
    original += data.find("ORIGINAL") != std::string::npos ? 1 : 0;
  }
  EXPECT_NEAR(original, 2'000, 200);
}

TEST(TpccRandomTest, AnotherWarehouseIsAnyButHome) {
  Generator draw(1, {4, 1}, {});
  std::map<std::int64_t, int> drawn;
  for (int i = 0; i < 3'000; ++i) ++drawn[draw.other_warehouse(2)];
  EXPECT_EQ(drawn.size(), 3u);
  EXPECT_FALSE(drawn.contains(2));
  for (const auto& [warehouse, times] : drawn) EXPECT_NEAR(times, 1'000, 150) << warehouse;
}

}  // namespace
}  // namespace perdure::bench::tpcc
