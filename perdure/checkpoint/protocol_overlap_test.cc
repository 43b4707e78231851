// SPDX-License-Identifier: BSD-3-Clause
// Pages that come into DRAM while the epoch runs, and stay until their place is wanted. (Whether all of
// it is safe: sim/checkpoint/prover_slow_test.cc.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/checkpoint/protocol.h"

namespace perdure::checkpoint {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class PagesOnTheirWay : public ::testing::Test {
 protected:
  static Geometry geometry() {
    Geometry geometry;
    geometry.block_entries = 4;
    geometry.page_entries = 2;
    geometry.block_slots = 8;
    geometry.buffers = 4;
    geometry.fill_while_running = geometry.stay_until_wanted = true;
    return geometry;
  }
  Place store(std::uint32_t block, int times = 1) {
    StoreTo to;
    for (int i = 0; i < times; ++i) to = protocol_.store(block);
    EXPECT_EQ(to.verdict, Verdict::kStore);
    return to.place;
  }
  void checkpoint() {
    protocol_.end_epoch();
    for (std::size_t i = 0; i < protocol_.plan().pages.size(); ++i) protocol_.page_saved(i);
    protocol_.commit();
    ASSERT_EQ(protocol_.broken_invariant(), "");
  }
  void fill() {
    protocol_.begin_fill();
    protocol_.end_fill();
  }
  /// 23 stores to block 5, and a checkpoint: page 0 is to come into DRAM.
  void begin() {
    store(5, 23);
    checkpoint();
    EXPECT_TRUE(protocol_.page_tracked(0));
  }

  Protocol protocol_{geometry()};
};

TEST_F(PagesOnTheirWay, ABlockIsWhereItWasUntilItHasArrived) {
  const Place slot = store(5, 23);
  const Plan& plan = protocol_.end_epoch();
  EXPECT_EQ(plan.promoted, 1U);
  EXPECT_THAT(plan.fills, IsEmpty());
  EXPECT_EQ(protocol_.visible(5), slot);
  EXPECT_EQ(protocol_.visible(6), (Place{Area::kHome, 6}));
  const std::vector<Copy> begun = protocol_.begin_fill();
  ASSERT_THAT(begun, SizeIs(64));
  EXPECT_EQ(begun[5].from, slot);
  EXPECT_EQ(protocol_.visible(5), slot);
  EXPECT_THAT(protocol_.end_fill(), SizeIs(64));
  EXPECT_EQ(protocol_.visible(5).area, Area::kPageCache);
  EXPECT_THAT(protocol_.begin_fill(), IsEmpty());
}

TEST_F(PagesOnTheirWay, AStoreOvertakesTheCopyThatIsOnTheWay) {
  begin();
  protocol_.begin_fill();
  const Place stored = store(5);
  EXPECT_EQ(stored.area, Area::kPageCache);
  EXPECT_EQ(protocol_.visible(5), stored);
  const std::vector<Copy> filled = protocol_.end_fill();
  EXPECT_THAT(filled, SizeIs(63));
  for (const Copy& copy : filled) EXPECT_NE(copy.number, 5U);
}

TEST_F(PagesOnTheirWay, APageIsCompletedBeforeItIsWrittenBackAndOnlyIfItIs) {
  begin();
  store(6);
  EXPECT_THAT(protocol_.end_epoch().fills, SizeIs(63));
  EXPECT_THAT(protocol_.plan().pages, SizeIs(1));
  EXPECT_THAT(protocol_.begin_fill(), IsEmpty());
  EXPECT_EQ(protocol_.broken_invariant(), "");
}

TEST_F(PagesOnTheirWay, APageThatWasNotStoredToGoesOnComing) {
  begin();
  protocol_.begin_fill();
  checkpoint();
  EXPECT_THAT(protocol_.plan().fills, IsEmpty());
  EXPECT_THAT(protocol_.fill_under_way(), IsEmpty());
  EXPECT_THAT(protocol_.begin_fill(), SizeIs(64));
}

TEST_F(PagesOnTheirWay, EntriesOfAPagesBlocksCanBeReplaced) {
  begin();
  for (const std::uint32_t page : {10U, 11U, 12U}) store(page * 64);
  EXPECT_THAT(protocol_.moves(), IsEmpty());
  store(13 * 64);
  ASSERT_THAT(protocol_.moves(), SizeIs(1));
  EXPECT_EQ(protocol_.moves()[0].number, 5U);
  EXPECT_EQ(protocol_.visible(5), (Place{Area::kHome, 5}));
  EXPECT_EQ(protocol_.begin_fill().at(5).from, (Place{Area::kHome, 5}));
}

TEST_F(PagesOnTheirWay, PagesWithFewStoresStayUntilOthersWantTheirPlaces) {
  begin();
  for (int epoch = 0; epoch < 4; ++epoch) {
    fill();
    store(6);
    checkpoint();
    EXPECT_TRUE(protocol_.page_tracked(0)) << epoch;
  }
  store(64, 23);  // page 1 takes the free place
  checkpoint();
  EXPECT_TRUE(protocol_.page_tracked(0));
  store(128, 23);  // page 2 finds none
  checkpoint();
  EXPECT_TRUE(protocol_.page_tracked(2));
  EXPECT_EQ(protocol_.pages_tracked(), 2U);
}

}  // namespace
}  // namespace perdure::checkpoint
