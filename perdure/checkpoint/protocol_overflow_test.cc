// SPDX-License-Identifier: BSD-3-Clause
// What happens when tables, slots or buffers are full; pages alone; and how a recovered image goes
// on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/checkpoint/protocol.h"

namespace perdure::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Geometry small_geometry() {
  Geometry geometry;
  geometry.block_entries = 2;
  geometry.page_entries = 1;
  geometry.block_slots = 4;
  geometry.buffers = 2;
  return geometry;
}

Geometry pages_only() {
  Geometry geometry = small_geometry();
  geometry.scheme = Scheme::kPagesOnly;
  geometry.to_blocks = 1;
  return geometry;
}

Verdict verdict_of(Protocol& protocol, std::uint32_t block, bool may_spill = false) {
  return protocol.store(block, may_spill).verdict;
}
void checkpoint(Protocol& protocol) {
  protocol.end_epoch();
  for (std::size_t i = 0; i < protocol.plan().pages.size(); ++i) protocol.page_saved(i);
  protocol.commit();
}

TEST(Overflow, EndsTheEpochWhenNoEntryIsFreeOrClean) {
  Protocol protocol(small_geometry());
  protocol.store(100);
  protocol.store(200);
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kEndEpoch);
  EXPECT_EQ(verdict_of(protocol, 100), Verdict::kStore);  // those that have one
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kEndEpoch);
  EXPECT_EQ(protocol.state(300), BlockState::kFree);
  EXPECT_EQ(protocol.blocks_tracked(), 2U);
  EXPECT_EQ(protocol.spilled(), 0U);
}

TEST(Overflow, WaitsWhileACheckpointRuns) {
  Protocol protocol(small_geometry());
  protocol.store(100);
  protocol.store(200);
  protocol.end_epoch();
  // Both entries are clean; to replace one now could mix epochs.
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kWait);
  EXPECT_THAT(protocol.moves(), IsEmpty());
  EXPECT_EQ(verdict_of(protocol, 300, true), Verdict::kWait);
  protocol.commit();
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kStore);
}

TEST(Overflow, WaitsForBuffers) {
  Geometry geometry = small_geometry();
  geometry.block_entries = 4;
  geometry.block_slots = 8;
  Protocol protocol(geometry);
  protocol.end_epoch();
  EXPECT_EQ(protocol.store(100).place.area, Area::kBuffer);
  EXPECT_EQ(protocol.store(200).place.area, Area::kBuffer);
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kWait);
  EXPECT_EQ(verdict_of(protocol, 200), Verdict::kStore);
  protocol.commit();
  EXPECT_EQ(protocol.store(300).place.area, Area::kSlot);  // needs none
  EXPECT_EQ(protocol.broken_invariant(), "");
}

// A clean block is brought home, and its slot kept for what a crash still reads.
TEST(Overflow, ReplacesCleanEntriesBetweenCheckpoints) {
  Geometry geometry = small_geometry();
  geometry.block_entries = 1;
  geometry.block_slots = 2;
  Protocol protocol(geometry);
  const Place first = protocol.store(100).place;
  checkpoint(protocol);
  const StoreTo to = protocol.store(200);
  EXPECT_EQ(to.verdict, Verdict::kStore);
  ASSERT_THAT(protocol.moves(), SizeIs(1));
  const Copy& move = protocol.moves()[0];
  EXPECT_EQ(move.number, 100U);
  EXPECT_FALSE(move.page);
  EXPECT_EQ(move.cause, CopyCause::kReplacement);
  EXPECT_EQ(move.from, first);
  EXPECT_EQ(move.to, (Place{Area::kHome, 100}));
  EXPECT_EQ(protocol.visible(100), (Place{Area::kHome, 100}));
  EXPECT_NE(to.place, first) << "the newest backup still names it";
  EXPECT_THAT(protocol.image().blocks, ElementsAre(BlockAt{100, first.index}));
  EXPECT_EQ(protocol.broken_invariant(), "");
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kEndEpoch);  // no clean one is left
  protocol.store(200);
  EXPECT_THAT(protocol.moves(), IsEmpty());
  checkpoint(protocol);
  EXPECT_EQ(protocol.store(300).place, first);  // free by that commit
}

TEST(Overflow, KeepsTheSlotOfADroppedBlockUntilTheCommit) {
  Geometry geometry = small_geometry();
  geometry.block_slots = 2;
  Protocol protocol(geometry);
  const Place first = protocol.store(100).place;
  checkpoint(protocol);
  protocol.store(100);  // hidden: its entry goes at this epoch's end
  protocol.end_epoch();
  protocol.store(200);
  protocol.commit();
  EXPECT_EQ(protocol.store(300).place, first);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(Spill, TakesWhatMaySpillBeyondTheTable) {
  Geometry geometry = small_geometry();
  geometry.spill_entries = 2;
  geometry.block_slots = 8;
  Protocol protocol(geometry);
  for (const std::uint32_t block : {100, 200})
    EXPECT_EQ(verdict_of(protocol, block), Verdict::kStore);
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kEndEpoch);
  EXPECT_EQ(verdict_of(protocol, 300, true), Verdict::kStore);
  EXPECT_EQ(verdict_of(protocol, 400, true), Verdict::kStore);
  EXPECT_EQ(protocol.spilled(), 2U);
  EXPECT_EQ(verdict_of(protocol, 500, true), Verdict::kEndEpoch);
  EXPECT_EQ(protocol.spilled(), 2U);
  EXPECT_EQ(protocol.broken_invariant(), "");
  checkpoint(protocol);
  EXPECT_THAT(protocol.image().blocks, SizeIs(4));
  // Back to the table's size before anything is added.
  EXPECT_EQ(verdict_of(protocol, 500), Verdict::kStore);
  EXPECT_THAT(protocol.moves(), SizeIs(3));
  EXPECT_EQ(protocol.blocks_tracked(), 2U);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

// A full spill whose clean entries are fewer than it takes to get back to the table's size.
TEST(Spill, UsesTheFewCleanEntriesThatThereAre) {
  Geometry geometry = small_geometry();
  geometry.spill_entries = 2;
  geometry.block_slots = 8;
  Protocol protocol(geometry);
  for (const std::uint32_t block : {100, 200, 300, 400}) protocol.store(block, true);
  checkpoint(protocol);
  for (const std::uint32_t block : {100, 200, 300}) protocol.store(block);  // hidden
  EXPECT_EQ(verdict_of(protocol, 500, true), Verdict::kStore);
  ASSERT_THAT(protocol.moves(), SizeIs(1));
  EXPECT_EQ(protocol.moves()[0].number, 400U);
  EXPECT_EQ(verdict_of(protocol, 600, true), Verdict::kEndEpoch);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

// Of the entries that blocks of new pages keep, and nothing can replace.
TEST(Spill, IsLeftInHalfToTheNextEpoch) {
  Geometry geometry = small_geometry();
  geometry.page_entries = 4;
  geometry.block_entries = 23;
  geometry.spill_entries = 2 * 23;
  geometry.block_slots = 2 * 69;
  Protocol protocol(geometry);
  for (std::uint32_t page = 0; page < 3; ++page)
    for (std::uint32_t block = 0; block < 23; ++block)
      EXPECT_EQ(verdict_of(protocol, page * 64 + block, true), Verdict::kStore);
  checkpoint(protocol);
  EXPECT_EQ(protocol.pages_tracked(), 2U);  // 46 = 23 + 46 / 2 entries; with the third it were 69
  for (std::uint32_t block = 0; block < 23; ++block)
    EXPECT_EQ(verdict_of(protocol, 1000 + block, true), Verdict::kStore) << block;
  EXPECT_EQ(protocol.broken_invariant(), "");
}

// ---- Pages alone --------------------------------------------------------------------------------

TEST(PagesOnly, TheFirstStoreBringsThePageIn) {
  Protocol protocol(pages_only());
  const StoreTo to = protocol.store(130);
  EXPECT_EQ(to.verdict, Verdict::kStore);
  EXPECT_EQ(to.place, (Place{Area::kPageCache, 0}));
  ASSERT_THAT(protocol.moves(), SizeIs(1));
  EXPECT_TRUE(protocol.moves()[0].page);
  EXPECT_EQ(protocol.moves()[0].number, 2U);
  EXPECT_EQ(protocol.moves()[0].cause, CopyCause::kMigration);
  EXPECT_EQ(protocol.moves()[0].from, (Place{Area::kHome, 2}));
  EXPECT_EQ(protocol.moves()[0].to, to.place);
  protocol.store(131);
  EXPECT_THAT(protocol.moves(), IsEmpty());
  EXPECT_EQ(protocol.blocks_tracked(), 0U);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(PagesOnly, AStoreToAPageThatIsWrittenBackWaits) {
  Protocol protocol(pages_only());
  protocol.store(130);
  protocol.end_epoch();
  EXPECT_EQ(verdict_of(protocol, 130), Verdict::kWait);
  EXPECT_EQ(protocol.visible(130).area, Area::kPageCache);
  protocol.page_saved(0);
  EXPECT_EQ(verdict_of(protocol, 130), Verdict::kStore);
}

TEST(PagesOnly, OverflowAndLeaving) {
  Protocol protocol(pages_only());
  protocol.store(0);
  EXPECT_EQ(verdict_of(protocol, 64), Verdict::kEndEpoch);
  checkpoint(protocol);
  EXPECT_EQ(verdict_of(protocol, 64), Verdict::kEndEpoch);
  checkpoint(protocol);  // without a store: page 0 goes home, and its entry with this commit
  EXPECT_EQ(protocol.pages_tracked(), 0U);
  EXPECT_EQ(protocol.visible(0), (Place{Area::kHome, 0}));
  EXPECT_EQ(verdict_of(protocol, 64), Verdict::kStore);
  checkpoint(protocol);
  protocol.end_epoch();
  EXPECT_EQ(verdict_of(protocol, 0), Verdict::kWait);
}

// ---- After a crash ------------------------------------------------------------------------------

TEST(Recovery, OfNothingStartsAnew) {
  Protocol protocol(small_geometry(), Image{});
  EXPECT_EQ(protocol.epoch(), 1U);
  EXPECT_FALSE(protocol.checkpointing());
  EXPECT_EQ(protocol.visible(7), (Place{Area::kHome, 7}));
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(Recovery, FindsWhatTheImageNames) {
  const Image image = {41, {{100, 3}, {200, 0}}, {{9, 0}}};
  Protocol protocol(small_geometry(), image);
  EXPECT_EQ(protocol.epoch(), 42U);
  EXPECT_EQ(protocol.image(), image);
  EXPECT_EQ(protocol.visible(100), (Place{Area::kSlot, 3}));
  EXPECT_EQ(protocol.visible(200), (Place{Area::kSlot, 0}));
  EXPECT_EQ(protocol.state(100), BlockState::kClean);
  EXPECT_EQ(protocol.visible(9 * 64 + 5), (Place{Area::kPageCache, 0}));
  EXPECT_EQ(protocol.visible(300), (Place{Area::kHome, 300}));
  EXPECT_EQ(protocol.blocks_tracked(), 2U);
  EXPECT_EQ(protocol.pages_tracked(), 1U);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(Recovery, GoesOnWithoutTouchingWhatACrashWouldReadAgain) {
  Geometry geometry = small_geometry();
  geometry.to_blocks = 1;
  Protocol protocol(geometry, Image{41, {{100, 3}, {200, 0}}, {{9, 0}}});
  EXPECT_EQ(protocol.store(100).place, (Place{Area::kHome, 100}));  // clean: its slot stays
  const StoreTo to = protocol.store(300);                           // in place of the clean 200
  EXPECT_EQ(to.place.area, Area::kSlot);
  EXPECT_NE(to.place.index, 3U);
  EXPECT_NE(to.place.index, 0U);
  protocol.store(9 * 64);
  protocol.end_epoch();
  EXPECT_EQ(protocol.image().epoch, 42U);
  ASSERT_THAT(protocol.plan().pages, SizeIs(1));
  EXPECT_EQ(protocol.plan().pages[0].to, (Place{Area::kHome, 9}));  // its slot has the last one
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(Recovery, OfASpilledTableGetsBackToItsSize) {
  Geometry geometry = small_geometry();
  geometry.spill_entries = 2;
  geometry.block_slots = 8;
  Protocol protocol(geometry, Image{5, {{1, 0}, {2, 1}, {3, 2}, {4, 3}}, {}});
  EXPECT_EQ(protocol.blocks_tracked(), 4U);
  EXPECT_EQ(verdict_of(protocol, 300), Verdict::kStore);
  EXPECT_EQ(protocol.blocks_tracked(), 2U);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

// What the DRAM of a controller must hold: 37 KB.
TEST(Geometry, TakesTheBytesOfThePaper) {
  EXPECT_EQ(Geometry{}.table_bytes(), 2048 * 53 / 8.0 + 4096 * 47 / 8.0);
}

}  // namespace
}  // namespace perdure::checkpoint
