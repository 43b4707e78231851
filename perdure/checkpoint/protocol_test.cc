// SPDX-License-Identifier: BSD-3-Clause
// The table of states: what a store and an epoch's end do to a block in each. Then the switching
// between the schemes, overflows, and what a recovered image becomes. (Whether all of it is safe:
// sim/checkpoint/prover_slow_test.cc.)
#include "perdure/checkpoint/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint32_t kBlock = 5;  // of page 0

Geometry small_geometry() {
  Geometry geometry;
  geometry.block_entries = 4;
  geometry.page_entries = 2;
  geometry.block_slots = 8;
  geometry.buffers = 4;
  return geometry;
}

Place store(Protocol& protocol, std::uint32_t block, int times = 1) {
  Place place;
  for (int i = 0; i < times; ++i) {
    const StoreTo to = protocol.store(block);
    EXPECT_EQ(to.verdict, Verdict::kStore);
    place = to.place;
  }
  return place;
}
void checkpoint(Protocol& protocol) {
  protocol.end_epoch();
  for (std::size_t i = 0; i < protocol.plan().pages.size(); ++i) protocol.page_saved(i);
  protocol.commit();
}
/// Page 0 under page writeback, with 16 stores in the epoch that runs.
void make_dense(Protocol& protocol) {
  store(protocol, 0, 23);
  checkpoint(protocol);
  store(protocol, 0, 16);
}

/// A protocol whose kBlock is in this state, while a checkpoint runs or while none does.
Protocol protocol_with(BlockState state, bool checkpointing) {
  Protocol protocol(small_geometry());
  switch (state) {
    case BlockState::kFree: protocol.end_epoch(); break;
    case BlockState::kDirty: store(protocol, kBlock); return protocol;
    case BlockState::kClean:
      store(protocol, kBlock);
      protocol.end_epoch();
      break;
    case BlockState::kHidden:
      store(protocol, kBlock);
      checkpoint(protocol);
      store(protocol, kBlock);
      return protocol;
    case BlockState::kPreDirty:
      protocol.end_epoch();
      store(protocol, kBlock);
      break;
    case BlockState::kPreHidden:
      store(protocol, kBlock);
      protocol.end_epoch();
      store(protocol, kBlock);
      break;
    case BlockState::kLoan:
      make_dense(protocol);
      protocol.end_epoch();
      store(protocol, kBlock);
      break;
  }
  if (!checkpointing) protocol.commit();
  return protocol;
}

// ---- The table ----------------------------------------------------------------------------------

struct StoreRow {
  BlockState state;
  bool checkpointing;
  Area to;
  BlockState next;
};

class StoreTable : public testing::TestWithParam<StoreRow> {};

// Dirty and hidden are not met while a checkpoint runs.
INSTANTIATE_TEST_SUITE_P(
    All, StoreTable,
    testing::Values(StoreRow{BlockState::kFree, false, Area::kSlot, BlockState::kDirty},
                    StoreRow{BlockState::kDirty, false, Area::kSlot, BlockState::kDirty},
                    StoreRow{BlockState::kClean, false, Area::kHome, BlockState::kHidden},
                    StoreRow{BlockState::kHidden, false, Area::kHome, BlockState::kHidden},
                    StoreRow{BlockState::kPreDirty, false, Area::kSlot, BlockState::kDirty},
                    StoreRow{BlockState::kPreHidden, false, Area::kHome, BlockState::kHidden},
                    StoreRow{BlockState::kLoan, false, Area::kPageCache, BlockState::kFree},
                    StoreRow{BlockState::kFree, true, Area::kBuffer, BlockState::kPreDirty},
                    StoreRow{BlockState::kClean, true, Area::kBuffer, BlockState::kPreHidden},
                    StoreRow{BlockState::kPreDirty, true, Area::kBuffer, BlockState::kPreDirty},
                    StoreRow{BlockState::kPreHidden, true, Area::kBuffer, BlockState::kPreHidden},
                    StoreRow{BlockState::kLoan, true, Area::kBuffer, BlockState::kLoan}));

TEST_P(StoreTable, SaysWhereAStoreGoes) {
  const auto [state, checkpointing, area, next] = GetParam();
  Protocol protocol = protocol_with(state, checkpointing);
  ASSERT_EQ(protocol.state(kBlock), state);
  ASSERT_EQ(protocol.checkpointing(), checkpointing);
  const Place before = protocol.visible(kBlock);
  const StoreTo to = protocol.store(kBlock);
  EXPECT_EQ(to.verdict, Verdict::kStore);
  EXPECT_EQ(to.place.area, area);
  EXPECT_EQ(protocol.visible(kBlock), to.place);
  EXPECT_EQ(protocol.state(kBlock), next);
  if (state == next) {
    EXPECT_EQ(to.place, before);  // overwritten where it is
  }
  if (area == Area::kHome) {
    EXPECT_EQ(to.place.index, kBlock);
  }
  EXPECT_THAT(protocol.moves(), IsEmpty());
  EXPECT_EQ(protocol.store(kBlock).place, to.place);  // and stays there in this epoch
  EXPECT_EQ(protocol.broken_invariant(), "");
}

struct EndRow {
  BlockState state;
  BlockState next;
  Area copied_to;  // from its buffer; kNowhere: nothing is copied
  Area last;       // where the image has it
};

class EndTable : public testing::TestWithParam<EndRow> {};

INSTANTIATE_TEST_SUITE_P(
    All, EndTable,
    testing::Values(EndRow{BlockState::kFree, BlockState::kFree, Area::kNowhere, Area::kHome},
                    EndRow{BlockState::kDirty, BlockState::kClean, Area::kNowhere, Area::kSlot},
                    EndRow{BlockState::kClean, BlockState::kClean, Area::kNowhere, Area::kSlot},
                    EndRow{BlockState::kHidden, BlockState::kFree, Area::kNowhere, Area::kHome},
                    EndRow{BlockState::kPreDirty, BlockState::kClean, Area::kSlot, Area::kSlot},
                    EndRow{BlockState::kPreHidden, BlockState::kFree, Area::kHome, Area::kHome}));

TEST_P(EndTable, SaysWhatAnEpochsEndDoes) {
  const auto [state, next, copied_to, last] = GetParam();
  Protocol protocol = protocol_with(state, false);
  const Place work = protocol.visible(kBlock);
  const std::uint64_t epoch = protocol.epoch();
  const Plan& plan = protocol.end_epoch();
  EXPECT_EQ(protocol.epoch(), epoch + 1);
  EXPECT_EQ(protocol.image().epoch, epoch);
  EXPECT_EQ(protocol.state(kBlock), next);
  EXPECT_THAT(plan.merges, IsEmpty());
  EXPECT_THAT(plan.fills, IsEmpty());
  EXPECT_THAT(plan.pages, IsEmpty());
  if (copied_to == Area::kNowhere) {
    EXPECT_THAT(plan.blocks, IsEmpty());
  } else {
    ASSERT_THAT(plan.blocks, SizeIs(1));
    EXPECT_EQ(plan.blocks[0].number, kBlock);
    EXPECT_FALSE(plan.blocks[0].page);
    EXPECT_EQ(plan.blocks[0].cause, CopyCause::kCheckpoint);
    EXPECT_EQ(plan.blocks[0].from, work);
    EXPECT_EQ(plan.blocks[0].to.area, copied_to);
  }
  // Loads find it in its buffer until the copy is there, else where it was.
  EXPECT_EQ(protocol.visible(kBlock), work);
  EXPECT_EQ(protocol.broken_invariant(), "");
  protocol.commit();
  const Place after = protocol.visible(kBlock);
  EXPECT_EQ(after.area, last);
  EXPECT_EQ(protocol.state(kBlock), next);
  if (last == Area::kSlot) {
    EXPECT_THAT(protocol.image().blocks, ElementsAre(BlockAt{kBlock, after.index}));
  } else {
    EXPECT_THAT(protocol.image().blocks, IsEmpty());
    EXPECT_EQ(protocol.blocks_tracked(), 0U);
  }
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(Loans, ReturnToTheirPageAtAnEpochsEndBeforeItIsWrittenBack) {
  Protocol protocol = protocol_with(BlockState::kLoan, false);
  const Place loan = protocol.visible(kBlock);
  store(protocol, 0, 16);
  const Plan& plan = protocol.end_epoch();
  ASSERT_THAT(plan.merges, SizeIs(1));
  EXPECT_EQ(plan.merges[0].number, kBlock);
  EXPECT_EQ(plan.merges[0].from, loan);
  EXPECT_EQ(plan.merges[0].to, protocol.visible(kBlock));
  EXPECT_EQ(protocol.visible(kBlock).area, Area::kPageCache);
  ASSERT_THAT(plan.pages, SizeIs(1));
  EXPECT_THAT(plan.blocks, IsEmpty());
  EXPECT_EQ(protocol.state(kBlock), BlockState::kFree);
  EXPECT_EQ(protocol.blocks_tracked(), 0U);
}

TEST(Loans, MakeTheirPageDirtyAndCountAsItsStores) {
  Protocol protocol = protocol_with(BlockState::kLoan, false);  // one store
  for (int i = 0; i < 14; ++i) store(protocol, kBlock);         // 15
  Protocol with_one_more = protocol;
  store(with_one_more, kBlock);
  for (Protocol* each : {&protocol, &with_one_more}) {
    checkpoint(*each);
    ASSERT_THAT(each->plan().pages, SizeIs(1));
    EXPECT_EQ(each->page_tracked(0), each == &with_one_more);
  }
}

TEST(Loans, EndWhenThePageHasBeenSaved) {
  Protocol protocol = protocol_with(BlockState::kLoan, true);
  EXPECT_EQ(store(protocol, 7).area, Area::kBuffer);
  protocol.page_saved(0);
  EXPECT_EQ(protocol.visible(kBlock).area, Area::kBuffer);  // not by itself
  EXPECT_EQ(store(protocol, kBlock).area, Area::kPageCache);
  EXPECT_EQ(store(protocol, 8).area, Area::kPageCache);
  EXPECT_EQ(protocol.visible(7).area, Area::kBuffer);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(Blocks, ThatAreBeingCopiedGetAnotherBufferForTheNextEpoch) {
  Protocol protocol = protocol_with(BlockState::kPreDirty, false);
  protocol.end_epoch();
  const Place copied = protocol.plan().blocks[0].from;
  const Place work = store(protocol, kBlock);
  EXPECT_EQ(work.area, Area::kBuffer);
  EXPECT_NE(work, copied);
  protocol.commit();
  EXPECT_EQ(protocol.visible(kBlock), work);
  EXPECT_EQ(protocol.state(kBlock), BlockState::kPreHidden);  // its last checkpoint is in a slot
  EXPECT_EQ(protocol.broken_invariant(), "");
}

// ---- Switching ----------------------------------------------------------------------------------

TEST(Switching, ToPagesTakesMoreThan22StoresInAnEpoch) {
  for (const int stores : {22, 23}) {
    Protocol protocol(small_geometry());
    store(protocol, 3, 10);
    const Place slot = store(protocol, 9, stores - 10);  // of two blocks together
    const Plan& plan = protocol.end_epoch();
    ASSERT_EQ(protocol.page_tracked(0), stores == 23);
    if (stores == 22) continue;
    ASSERT_THAT(plan.fills, SizeIs(64));
    for (std::uint32_t i = 0; i < 64; ++i) {
      EXPECT_EQ(plan.fills[i].number, i);
      EXPECT_EQ(plan.fills[i].cause, CopyCause::kMigration);
      EXPECT_EQ(plan.fills[i].from.area, i == 3 || i == 9 ? Area::kSlot : Area::kHome);
      EXPECT_EQ(plan.fills[i].to, protocol.visible(i));
    }
    EXPECT_EQ(plan.fills[9].from, slot);
    EXPECT_EQ(protocol.visible(9).area, Area::kPageCache);
    // Its blocks are where a crash finds them until it has been checkpointed itself.
    EXPECT_THAT(protocol.image().blocks, SizeIs(2));
    EXPECT_THAT(protocol.image().pages, IsEmpty());
    protocol.commit();
    EXPECT_EQ(protocol.blocks_tracked(), 2U);
    store(protocol, 0, 16);
    checkpoint(protocol);
    EXPECT_EQ(protocol.blocks_tracked(), 0U);
    EXPECT_THAT(protocol.image().pages, SizeIs(1));
    EXPECT_EQ(protocol.broken_invariant(), "");
  }
}

TEST(Switching, CountsTheStoresOfOneEpochOnly) {
  Protocol protocol(small_geometry());
  for (int epoch = 0; epoch < 6; ++epoch) {
    store(protocol, kBlock, 22);
    checkpoint(protocol);
    EXPECT_FALSE(protocol.page_tracked(0)) << epoch;
  }
}

TEST(Switching, BackTakesFewerThan16Stores) {
  for (const int stores : {15, 16}) {
    Protocol protocol(small_geometry());
    make_dense(protocol);
    checkpoint(protocol);  // now its last checkpoint is in its slot
    store(protocol, 0, stores);
    protocol.end_epoch();
    ASSERT_THAT(protocol.plan().pages, SizeIs(1));
    const Copy& copy = protocol.plan().pages[0];
    EXPECT_EQ(copy.cause, CopyCause::kCheckpoint);
    EXPECT_EQ(copy.to, (Place{Area::kHome, 0}));
    EXPECT_TRUE(protocol.page_tracked(0));  // until what it leaves behind is complete
    protocol.page_saved(0);
    EXPECT_EQ(store(protocol, 1).area, stores == 15 ? Area::kBuffer : Area::kPageCache);
    protocol.commit();
    EXPECT_EQ(protocol.page_tracked(0), stores == 16);
    EXPECT_EQ(protocol.state(1), stores == 15 ? BlockState::kPreDirty : BlockState::kFree);
    EXPECT_EQ(protocol.broken_invariant(), "");
  }
}

TEST(Switching, BackOfACleanPage) {
  // Its blocks or its home have its last checkpoint: it goes at once.
  Protocol at_home(small_geometry());
  store(at_home, kBlock, 23);
  checkpoint(at_home);
  at_home.end_epoch();
  EXPECT_THAT(at_home.plan().pages, IsEmpty());
  EXPECT_FALSE(at_home.page_tracked(0));
  EXPECT_EQ(at_home.state(kBlock), BlockState::kClean);
  // Its slot has it: it is brought home first.
  Protocol in_slot(small_geometry());
  make_dense(in_slot);
  checkpoint(in_slot);
  in_slot.end_epoch();
  ASSERT_THAT(in_slot.plan().pages, SizeIs(1));
  EXPECT_EQ(in_slot.plan().pages[0].cause, CopyCause::kMigration);
  EXPECT_EQ(in_slot.plan().pages[0].to, (Place{Area::kHome, 0}));
  EXPECT_THAT(in_slot.image().pages, IsEmpty());
  in_slot.commit();
  EXPECT_FALSE(in_slot.page_tracked(0));
  EXPECT_EQ(in_slot.visible(kBlock), (Place{Area::kHome, kBlock}));
}

// A page that is dirty and has its last checkpoint at home can only be written to its slot: it
// leaves an epoch later.
TEST(Switching, BackOfADirtyPageFromHomeTakesTwoEpochs) {
  Protocol protocol(small_geometry());
  store(protocol, 0, 23);
  checkpoint(protocol);
  store(protocol, 0, 1);
  checkpoint(protocol);
  EXPECT_EQ(protocol.plan().pages[0].to.area, Area::kPageSlot);
  EXPECT_TRUE(protocol.page_tracked(0));
  checkpoint(protocol);
  EXPECT_EQ(protocol.plan().pages[0].to.area, Area::kHome);
  EXPECT_FALSE(protocol.page_tracked(0));
}

TEST(Switching, PagesAlternateBetweenTheirSlotAndHome) {
  Protocol protocol(small_geometry());
  store(protocol, 0, 23);
  checkpoint(protocol);
  for (const Area area : {Area::kPageSlot, Area::kHome, Area::kPageSlot, Area::kHome}) {
    store(protocol, 0, 100);  // the counter saturates
    checkpoint(protocol);
    ASSERT_THAT(protocol.plan().pages, SizeIs(1));
    EXPECT_EQ(protocol.plan().pages[0].to.area, area);
    EXPECT_THAT(protocol.image().pages, SizeIs(area == Area::kPageSlot ? 1 : 0));
  }
}

TEST(Switching, StopsWhenThePageTableIsFull) {
  Protocol protocol(small_geometry());  // of two pages
  for (std::uint32_t page = 0; page < 3; ++page) store(protocol, page * 64, 23);
  protocol.end_epoch();
  EXPECT_EQ(protocol.pages_tracked(), 2U);
  EXPECT_THAT(protocol.plan().fills, SizeIs(2 * 64));
  EXPECT_EQ(protocol.state(2 * 64), BlockState::kClean);
  EXPECT_EQ(protocol.broken_invariant(), "");
}

TEST(Switching, DoesNotHappenWithBlocksOnly) {
  Geometry geometry = small_geometry();
  geometry.scheme = Scheme::kBlocksOnly;
  Protocol protocol(geometry);
  store(protocol, 0, 63);
  checkpoint(protocol);
  EXPECT_EQ(protocol.pages_tracked(), 0U);
}

}  // namespace
}  // namespace perdure::checkpoint
