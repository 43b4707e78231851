// SPDX-License-Identifier: BSD-3-Clause
// The compared systems without core and caches: when tables are full, what the ends of epochs cost, and
// that traffic is accounted for.
#include "papers/thynvm/memory/memory_system.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "papers/thynvm/memory/thynvm.h"

namespace perdure::memory {
namespace {

constexpr std::uint64_t kMostLines = std::uint64_t{1} << 20;

std::unique_ptr<MemorySystem> make(System system, const Model& model, bool with_contents = false) {
  return make_system(system, model, with_contents, kMostLines);
}

/// Nothing of what it returns is to be waited for: checkpoints finish first.
Time end_epoch(MemorySystem& system, Time now) {
  while (system.is_busy(now)) now += 300;
  return system.end_epoch(now, 0);
}

TEST(Geometry, HasTheTablesOfThePaper) {
  const checkpoint::Geometry geometry = geometry_of(System::kThyNvm, Model::of(Reading::kStrict));
  EXPECT_EQ(geometry.block_entries, 2048U);
  EXPECT_EQ(geometry.page_entries, 4096U);
  EXPECT_EQ(geometry.page_entries * kPageBytes, 16U << 20);  // the DRAM of 16 MB
  // 42 + 2 + 2 + 1 + 6 = 53 and 36 + 2 + 2 + 1 + 6 = 47 bits: 13,568 B + 24,064 B, about 37 KB.
  EXPECT_EQ(geometry.table_bytes(), 37'632);
  EXPECT_EQ(geometry.to_pages, 22U);
  EXPECT_EQ(geometry.to_blocks, 16U);
}

TEST(Journal, IsFullWith6144BlocksWhateverIsWrittenTwice) {
  const auto journal = make(System::kJournal, Model::of(Reading::kPaperCode));
  Time now = 0;
  for (std::uint64_t line = 0; line < 6143; ++line)
    for (int twice = 0; twice < 2; ++twice) now = journal->write(line, now, nullptr, false);
  EXPECT_FALSE(journal->is_full());
  now = journal->write(0, now, nullptr, false);
  EXPECT_FALSE(journal->is_full());
  now = journal->write(7000, now, nullptr, false);
  EXPECT_TRUE(journal->is_full());
  EXPECT_EQ(journal->end_epoch(now, 0) - now, 1'612'800U);  // see machine_test.cc
  EXPECT_FALSE(journal->is_full());
  EXPECT_EQ(journal->epochs().full, 1U);
  EXPECT_EQ(journal->traffic().cpu_lines, 2 * 6143U + 2);
  EXPECT_EQ(journal->traffic().cpu_to_nvm, 0U);
}

// 4,128 pages, as in the published code: (4,096 + 12) B each at 64 B / 40 ns: 4,128 x 4,108 x 120 / 64 =
// 31,795,920 cycles = 10.6 ms.
TEST(Shadow, IsFullWhenAPageFindsNoBuffer) {
  const auto shadow = make(System::kShadow, Model::of(Reading::kPaperCode));
  Time now = 0;
  for (std::uint64_t page = 0; page < 4128; ++page)
    now = shadow->write(page * kLinesPerPage, now, nullptr, false);
  EXPECT_FALSE(shadow->is_full());
  now = shadow->write(4128 * kLinesPerPage - 1, now, nullptr, false);  // a page that is there
  EXPECT_FALSE(shadow->is_full());
  EXPECT_EQ(make(System::kShadow, Model::of(Reading::kPaperCode))->end_epoch(5, 0), 5U);
  now = shadow->write(4128 * kLinesPerPage, now, nullptr, false);
  EXPECT_TRUE(shadow->is_full());
  // The page that found none is written with the others.
  EXPECT_EQ(shadow->end_epoch(now, 0) - now, 4129U * 4108 * 120 / 64);
  EXPECT_EQ(shadow->traffic().checkpoint_bytes, 4129U * 4108);
}

TEST(Shadow, CopiesAPageBeforeItsFirstWriteAndStrictlyWaitsForThat) {
  const auto strict = make(System::kShadow, Model::of(Reading::kStrict));
  // Lookup 9; a miss of a row and 63 hits in NVM; the write itself is posted.
  const Time copied = 9 + 384 + 63 * 120;
  EXPECT_EQ(strict->write(0, 0, nullptr, false), copied);
  EXPECT_EQ(strict->epochs().waited, copied - 9);
  EXPECT_EQ(strict->write(1, 20'000, nullptr, false), 20'009U);
  const auto paper = make(System::kShadow, Model::of(Reading::kPaperCode));
  EXPECT_EQ(paper->write(0, 0, nullptr, false), 9U);
  EXPECT_EQ(paper->traffic().dram_bytes, kPageBytes + 64);
}

// The table may hold one entry more: the line that finds it full still belongs to the old epoch.
TEST(ThyNvm, IsFullWhenABlockFindsNoEntry) {
  for (const Reading reading : {Reading::kStrict, Reading::kPaperCode}) {
    const auto thynvm = make(System::kThyNvmBlocks, Model::of(reading));
    Time now = 0;
    for (std::uint64_t line = 0; line < 2048; ++line)
      now = thynvm->write(line, now, nullptr, false);
    EXPECT_FALSE(thynvm->is_full());
    now = thynvm->write(2048, now, nullptr, false);
    EXPECT_TRUE(thynvm->is_full());
    end_epoch(*thynvm, now);
    EXPECT_FALSE(thynvm->is_full());
    EXPECT_EQ(thynvm->epochs().spilled, 1U);
    EXPECT_EQ(thynvm->epochs().full, 1U);
    EXPECT_EQ(thynvm->traffic().cpu_to_nvm, 2049U * 64);
  }
}

// 23 stores to a page: its 64 blocks are brought to DRAM in the stop. 49,152 B of tables (30.72 us): 49,152 x
// 120 / 64 = 92,160 cycles; and 64 look-ups of 3 ns, all that the published code has the core wait for.
TEST(ThyNvm, MovesAPageInTheStopOfThePublishedCode) {
  const auto thynvm = make(System::kThyNvm, Model::of(Reading::kPaperCode));
  Time now = 0;
  for (std::uint64_t line = 0; line < 23; ++line) now = thynvm->write(line, now, nullptr, false);
  EXPECT_EQ(thynvm->end_epoch(now, 0) - now, 92'736U);
  EXPECT_EQ(thynvm->epochs().pages_promoted, 1U);
  EXPECT_EQ(thynvm->traffic().dram_bytes, kPageBytes);
}

// Ours: the core goes on at once. The page's blocks come meanwhile; until then they are read where they were.
TEST(ThyNvmOverlap, MovesAPageWhileTheEpochRuns) {
  for (const Reading reading : {Reading::kStrict, Reading::kPaperCode}) {
    const auto overlap = make(System::kThyNvmOverlap, Model::of(reading));
    Time now = 0;
    for (std::uint64_t line = 0; line < 23; ++line) now = overlap->write(line, now, nullptr, false);
    now += 100'000;
    EXPECT_EQ(overlap->end_epoch(now, 0), now);
    EXPECT_EQ(overlap->epochs().pages_promoted, 1U);
    const Time early = overlap->read(40, now, nullptr) - now;
    const Time late = overlap->read(40, now + 1'000'000, nullptr) - now - 1'000'000;
    const Model model = Model::of(reading);
    EXPECT_GT(early, model.lookup + model.dram.clean_miss) << "from NVM";
    EXPECT_LE(late, model.lookup + model.dram.clean_miss) << "from DRAM";
    EXPECT_EQ(overlap->traffic().dram_bytes, kPageBytes);
  }
}

// Of an epoch without stores: header and core's state. The published code counts 8 B of each entry,
// whatever the table holds, and our header.
TEST(ThyNvm, CountsItsTables) {
  const auto strict = make(System::kThyNvm, Model::of(Reading::kStrict));
  strict->finish(strict->end_epoch(0, 0));
  EXPECT_EQ(strict->traffic().checkpoint_bytes, 2U * 64);
  const auto paper = make(System::kThyNvm, Model::of(Reading::kPaperCode));
  paper->finish(paper->end_epoch(0, 0));
  EXPECT_EQ(paper->traffic().checkpoint_bytes, 49'152U + 64);
}

Model small_model() {
  Model model = Model::of(Reading::kStrict);
  model.block_entries = 48;
  model.page_entries = model.shadow_buffers = 8;
  model.to_pages = 8;
  model.to_blocks = 4;
  return model;
}

class TrafficOf : public testing::TestWithParam<System> {};

// Sparse and dense writes to 24 pages, so that pages move between the schemes. What has one cause has no
// other: together they are what the device was given.
TEST_P(TrafficOf, ByCauseAddsUpToWhatNvmWasGiven) {
  std::mt19937_64 random(7);
  const auto system = make(GetParam(), small_model());
  Time now = 0;
  for (int step = 0; step < 8'000; ++step) {
    const std::uint64_t page = random() % 24;
    const std::uint64_t run = random() % 8 == 0 ? 12 : 1;
    for (std::uint64_t i = 0; i < run; ++i) {
      const std::uint64_t line = page * kLinesPerPage + (step + i) % kLinesPerPage;
      now = random() % 4 == 0 ? system->read(line, now, nullptr)
                              : system->write(line, now, nullptr, false);
    }
    if (system->is_full() || random() % 200 == 0) now = end_epoch(*system, now);
  }
  now = system->finish(end_epoch(*system, now));
  const Traffic& traffic = system->traffic();
  EXPECT_EQ(traffic.nvm_bytes(), system->nvm().writes() * kLineBytes);
  EXPECT_GT(traffic.cpu_lines, 5'000U);
  const bool ideal = GetParam() == System::kDram || GetParam() == System::kNvm;
  if (!ideal) {
    EXPECT_GT(system->epochs().epochs, 40U);
    EXPECT_GT(traffic.checkpoint_bytes, 0U);
  }
  if (GetParam() == System::kThyNvm) {
    EXPECT_GT(system->epochs().pages_promoted, 5U);
    EXPECT_GT(traffic.migration_bytes, 0U);
    EXPECT_GT(traffic.cpu_to_nvm, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, TrafficOf, testing::ValuesIn(kSystems), [](const auto& system) {
  std::string name(system_name(system.param));
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace perdure::memory
