// SPDX-License-Identifier: BSD-3-Clause
// Programs whose time is known: computed by hand from Table 2 (cycles of 3 GHz: see device_test.cc).
#include "papers/thynvm/memory/machine.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "papers/thynvm/memory/marks.h"

namespace perdure::memory {
namespace {

using testing::Each;
using testing::IsEmpty;

constexpr std::uint64_t kBase = 0x10000;  // a page's first byte
constexpr Time kHit = 120, kDramMiss = 240, kNvmMiss = 384, kNvmDirtyMiss = 1104, kLookup = 9;

Access load(std::uint64_t address, unsigned gap = 1) {
  return Access::of(AccessKind::kLoad, address, 3, gap);
}
Access store(std::uint64_t address, unsigned gap = 1) {
  return Access::of(AccessKind::kStore, address, 3, gap);
}
/// One access of each of so many lines, in their order.
std::vector<Access> sweep(AccessKind kind, std::uint64_t lines) {
  std::vector<Access> accesses;
  for (std::uint64_t i = 0; i < lines; ++i)
    accesses.push_back(Access::of(kind, kBase + i * kLineBytes, 3, 1));
  return accesses;
}

void run_one(Machine& machine, Access access) { machine.run({&access, 1}); }
Time time_of(Machine& machine, const std::vector<Access>& accesses) {
  const Time before = machine.now();
  machine.run(accesses);
  return machine.now() - before;
}

// ---- The core ---------------------------------------------------------------------------------------

TEST(Core, RunsAnInstructionACycleStrictly) {
  Machine machine(System::kDram, Model::of(Reading::kStrict), false);
  run_one(machine, Access::run(1'000'000));
  EXPECT_EQ(machine.now(), 1'000'000U);
  EXPECT_EQ(machine.results().ipc(), 1);
  EXPECT_EQ(machine.results().seconds(), 1e6 / 3e9);
}

TEST(Core, WaitsForEachFetchInThePublishedCode) {
  Machine machine(System::kDram, Model::of(Reading::kPaperCode), false);
  run_one(machine, Access::run(1'000'000));
  EXPECT_EQ(machine.now(), 4'000'000U);  // 4 cycles of the first cache
  EXPECT_EQ(machine.results().ipc(), 0.25);
}

TEST(Core, CountsTheInstructionsBetweenAccesses) {
  Machine machine(System::kDram, Model::of(Reading::kStrict), false);
  run_one(machine, load(kBase, 100));
  const Time first = machine.now();
  EXPECT_EQ(first, 100 + 28 + kDramMiss);
  machine.run(std::vector<Access>(10, load(kBase, 7)));
  EXPECT_EQ(machine.now() - first, 70U);
  EXPECT_EQ(machine.results().instructions, 170U);
  EXPECT_EQ(machine.results().loads, 11U);
  EXPECT_EQ(machine.results().stores, 0U);
  EXPECT_EQ(machine.results().ipc(), 170.0 / double(first + 70));
}

// ---- Caches -----------------------------------------------------------------------------------------

struct Levels {
  Reading reading;
  Time l1, l2, l3;  // an instruction that loads from there, and runs alone
};

class LoadsThatHit : public testing::TestWithParam<Levels> {};

// Strictly: 1, and the latency of the cache beyond the first. In the published code: 4 for the fetch, 4
// for the first cache, and the latency of the other one.
INSTANTIATE_TEST_SUITE_P(Readings, LoadsThatHit,
                         testing::Values(Levels{Reading::kStrict, 1, 1 + 12, 1 + 28},
                                         Levels{Reading::kPaperCode, 4 + 4, 4 + 4 + 12,
                                                4 + 4 + 28}),
                         [](const auto& levels) {
                           return levels.param.reading == Reading::kStrict ? "strict" : "paperCode";
                         });

TEST_P(LoadsThatHit, TakeTheLatencyOfTheirCache) {
  const auto [reading, l1, l2, l3] = GetParam();
  for (const System system : kSystems) {
    // In an LRU cache a sweep over more lines than it has misses always: 512, 4,096 and 32,768 lines.
    struct {
      std::uint64_t lines;
      Time each;
    } const sweeps[] = {{512, l1}, {4'096, l2}, {32'768, l3}};
    for (const auto& [lines, each] : sweeps) {
      Machine machine(system, Model::of(reading), false);
      const std::vector<Access> accesses = sweep(AccessKind::kLoad, lines);
      machine.run(accesses);
      EXPECT_EQ(machine.results().l3_misses, lines);
      EXPECT_EQ(time_of(machine, accesses), lines * each) << lines << system_name(system);
      EXPECT_EQ(machine.results().l3_misses, lines);
    }
  }
}

// A row has 128 lines: of 128 loads one misses it. The core waits for each, so that nothing overlaps.
TEST(LoadsThatMiss, TakeTheLatencyOfTheirDevice) {
  constexpr std::uint64_t kLines = 128 * 100;
  const std::vector<Access> accesses = sweep(AccessKind::kLoad, kLines);
  for (const Reading reading : {Reading::kStrict, Reading::kPaperCode}) {
    const Time before = reading == Reading::kStrict ? 1 + 28 : 4 + 4 + 28;
    for (const System system : kSystems) {
      Machine machine(system, Model::of(reading), false);
      const Time miss = system == System::kDram ? kDramMiss : kNvmMiss;
      const Time lookup = system == System::kDram || system == System::kNvm ? 0 : kLookup;
      EXPECT_EQ(time_of(machine, accesses),
                kLines * (before + lookup + kHit) + kLines / 128 * (miss - kHit))
          << system_name(system);
      const Results results = machine.results();
      EXPECT_EQ(results.l1_misses, kLines);
      EXPECT_EQ(results.l2_misses, kLines);
      EXPECT_EQ(results.l3_misses, kLines);
      EXPECT_EQ(results.footprint_bytes, kLines * 64);
      EXPECT_EQ(results.traffic.cpu_lines, 0U);
    }
  }
}

TEST(Caches, AnAccessAcrossALineIsOneLoadAndTwoLines) {
  Machine machine(System::kDram, Model::of(Reading::kStrict), false);
  run_one(machine, load(kBase + 60));  // bytes 60 to 67
  EXPECT_EQ(machine.results().loads, 1U);
  EXPECT_EQ(machine.results().l1_misses, 2U);
  EXPECT_EQ(machine.now(), 1 + 28 + kDramMiss + 28 + kHit);
  run_one(machine, load(kBase + 64));
  EXPECT_EQ(machine.results().l1_misses, 2U);
  run_one(machine, load(kBase + 120));  // bytes 120 to 127: the second line's last
  EXPECT_EQ(machine.results().l1_misses, 2U);
  run_one(machine, store(kBase + 121));
  EXPECT_EQ(machine.results().l1_misses, 3U);
  EXPECT_EQ(machine.results().stores, 1U);
  run_one(machine, Access::of(AccessKind::kLoad, kBase + 4096 - 32, 6, 1));  // into another page
  EXPECT_EQ(machine.results().l1_misses, 5U);
  EXPECT_EQ(machine.results().footprint_bytes, 2 * kPageBytes);
}

TEST(Caches, OfInstructionsAndOfDataAreApart) {
  Machine machine(System::kDram, Model::of(Reading::kStrict), false);
  run_one(machine, Access::of(AccessKind::kFetch, kBase, 0, 1));
  EXPECT_EQ(machine.now(), 1 + 28 + kDramMiss);
  run_one(machine, load(kBase));
  EXPECT_EQ(machine.now(), 1 + 28 + kDramMiss + 1 + 12);  // in the second cache, which is shared
  EXPECT_EQ(machine.results().l1_misses, 2U);
  EXPECT_EQ(machine.results().l2_misses, 1U);
  EXPECT_EQ(machine.results().loads, 1U);
}

// Twice the third cache: what is stored in the first half is written back while the second is read.
TEST(Caches, WriteBackEachDirtyLineOnce) {
  for (const System system : {System::kDram, System::kNvm}) {
    Machine machine(system, Model::of(Reading::kStrict), false);
    machine.run(sweep(AccessKind::kStore, 32'768));
    EXPECT_EQ(machine.results().traffic.cpu_lines, 0U);
    machine.run(sweep(AccessKind::kLoad, 3 * 32'768));
    const Traffic traffic = machine.results().traffic;
    EXPECT_EQ(traffic.cpu_lines, 32'768U);
    EXPECT_EQ(system == System::kDram ? traffic.dram_bytes : traffic.cpu_to_nvm, 32'768U * 64);
    EXPECT_EQ(traffic.nvm_bytes() + traffic.dram_bytes, 32'768U * 64);
  }
}

// ---- Marks ------------------------------------------------------------------------------------------

TEST(Marks, BeginForgetsAllBeforeAndIsNoTraffic) {
  Machine machine(System::kThyNvm, Model::of(Reading::kPaperCode), false);
  machine.run(sweep(AccessKind::kStore, 10'000));
  run_one(machine, store(PERDURE_MARK_OPERATION_WORD));
  EXPECT_GT(machine.results().epochs.epochs, 0U);
  EXPECT_EQ(machine.results().operations, 1U);
  run_one(machine, store(PERDURE_MARK_BEGIN_WORD, 5));
  Results results = machine.results();
  EXPECT_EQ(results.instructions + results.loads + results.stores + results.operations, 0U);
  EXPECT_EQ(results.l1_misses + results.l2_misses + results.l3_misses + results.time, 0U);
  EXPECT_EQ(results.traffic.nvm_bytes() + results.traffic.dram_bytes + results.traffic.cpu_lines,
            0U);
  EXPECT_EQ(results.epochs.epochs + results.epochs.full + results.epochs.stopped, 0U);
  EXPECT_THAT(results.epochs.lengths, IsEmpty());
  for (int i = 0; i < 7; ++i) run_one(machine, store(PERDURE_MARK_OPERATION_WORD, 3));
  results = machine.results();
  EXPECT_EQ(results.operations, 7U);
  EXPECT_EQ(results.instructions, 21U);
  EXPECT_EQ(results.stores, 0U);
  EXPECT_EQ(results.time, 21U * 4);
  run_one(machine, load(PERDURE_MARK_OPERATION_WORD));  // only a store is a mark
  EXPECT_EQ(machine.results().operations, 7U);
  EXPECT_EQ(machine.results().loads, 0U);
}

// ---- The ends of epochs -----------------------------------------------------------------------------

// 1 s is 100 epochs of 10 ms; an empty one's end takes less than a microsecond.
TEST(Epochs, OfAnIdleProgramLastTenMilliseconds) {
  for (const System system : kSystems) {
    const bool ideal = system == System::kDram || system == System::kNvm;
    Machine machine(system, Model::of(Reading::kStrict), false);
    for (int i = 0; i < 305; ++i) {  // 3.05 ms each
      run_one(machine, Access::run(9'150'000 - 1));
      run_one(machine, load(kBase));
    }
    const std::uint64_t expected = ideal ? 0 : machine.now() / 30'000'000;
    EXPECT_EQ(machine.results().epochs.epochs, expected) << system_name(system);
    EXPECT_EQ(machine.results().epochs.full, 0U);
  }
}

TEST(Epochs, EndAlsoWhileNothingIsAccessed) {
  Machine machine(System::kThyNvm, Model::of(Reading::kStrict), false);
  run_one(machine, Access::run(1'000'000'000));
  EXPECT_EQ(machine.now(), 1'000'000'000U);  // nothing is dirty: no stop
  EXPECT_EQ(machine.results().epochs.epochs, 33U);
  EXPECT_THAT(machine.results().epochs.lengths, Each(30'000'000U));
  EXPECT_EQ(machine.results().instructions, 1'000'000'000U);
}

TEST(Epochs, InThePublishedCodeHaveNoTimer) {
  for (const System system : kSystems) {
    Machine machine(system, Model::of(Reading::kPaperCode), false);
    run_one(machine, Access::run(1'000'000'000));
    run_one(machine, load(kBase));
    EXPECT_EQ(machine.results().epochs.epochs, 0U) << system_name(system);
  }
}

TEST(Epochs, FinishEndsTheLastOneExceptOfIdealMemory) {
  for (const System system : kSystems)
    for (const Reading reading : {Reading::kStrict, Reading::kPaperCode}) {
      Machine machine(system, Model::of(reading), false);
      run_one(machine, store(kBase));
      machine.finish();
      const bool ideal = system == System::kDram || system == System::kNvm;
      EXPECT_EQ(machine.results().epochs.epochs, ideal ? 0U : 1U) << system_name(system);
    }
}

// Stores to new lines: each cache in turn is written back whenever it has dirtied 2,048 lines, so that
// memory gets 2,048 lines at each 2,048th store. The journal's table has 2,048 + 4,096 entries.
// (64 + 64 + 12) B x 6,144 at 64 B / 40 ns: 6,144 x 140 x 120 / 64 = 1,612,800 cycles = 537.6 us.
TEST(JournalInThePublishedCode, EndsAnEpochAfter6144BlocksAndStops538Microseconds) {
  Machine machine(System::kJournal, Model::of(Reading::kPaperCode), false);
  const std::vector<Access> accesses = sweep(AccessKind::kStore, 6'144);
  machine.run(std::span(accesses).first(6'143));
  EXPECT_EQ(machine.results().traffic.cpu_lines, 4'096U);
  EXPECT_EQ(machine.results().epochs.epochs, 0U);
  machine.run(std::span(accesses).last(1));
  const Results results = machine.results();
  EXPECT_EQ(results.traffic.cpu_lines, 6'144U);
  EXPECT_EQ(results.epochs.epochs, 1U);
  EXPECT_EQ(results.epochs.full, 1U);
  EXPECT_EQ(results.epochs.stopped, 1'612'800U);
  EXPECT_EQ(results.traffic.checkpoint_bytes, 6'144U * 140);
}

// (2,048 + 4,096) x 8 B at 64 B / 40 ns: 49,152 x 120 / 64 = 92,160 cycles = 30.72 us.
TEST(ThyNvmInThePublishedCode, Stops31Microseconds) {
  Machine machine(System::kThyNvm, Model::of(Reading::kPaperCode), false);
  machine.finish();
  EXPECT_EQ(machine.results().epochs.stopped, 92'160U);
}

// Page 0 in bank 0, as are all areas used below. One store; its line was read, so that row 0 is open.
//   flush    lookup 9
//   journal  directory 384 (its bank's row was only read), then, each a dirty miss of 1104: journal, seal,
//            home, seal
TEST(StrictStops, OfAJournalWithOneBlock) {
  Machine machine(System::kJournal, Model::of(Reading::kStrict), false);
  run_one(machine, store(kBase));
  machine.finish();
  EXPECT_EQ(machine.results().epochs.stopped, kLookup + kNvmMiss + 4 * kNvmDirtyMiss);
}

//   flush    lookup 9; 64 lines are read from the open row
//   shadow   64 lines to another row, whose bank was only read; map and seal, dirty misses
TEST(StrictStops, OfShadowPagingWithOnePage) {
  Machine machine(System::kShadow, Model::of(Reading::kStrict), false);
  run_one(machine, store(kBase));
  machine.finish();
  EXPECT_EQ(machine.results().epochs.stopped,
            kLookup + 64 * kHit + (kNvmMiss + 63 * kHit) + 2 * kNvmDirtyMiss);
}

// Each epoch's flush writes back 2 MB of new and dense pages, while the entries of the blocks of those of
// the epoch before are kept until the pages themselves have been checkpointed.
TEST(StrictEpochs, HoldAFlushOfAllCachesOnTopOfTheOneBefore) {
  for (const System system :
       {System::kThyNvm, System::kThyNvmBlocks, System::kThyNvmPages, System::kShadow}) {
    Machine machine(system, Model::of(Reading::kStrict), false);
    for (std::uint64_t line = 0; line < 400'000; ++line)
      run_one(machine, store(kBase + line * kLineBytes, 200));
    machine.finish();
    EXPECT_GT(machine.results().epochs.epochs, 2U) << system_name(system);
    EXPECT_EQ(machine.results().traffic.cpu_lines, 400'000U) << system_name(system);
  }
}

TEST(StrictEpochs, HoldAFlushOfLinesThatAllAreOfOtherPages) {
  Model model = Model::of(Reading::kStrict);
  model.l2 = {64, 8, 12};
  model.l3 = {64, 16, 28};
  model.page_entries = model.block_entries = 128;
  for (const System system : {System::kThyNvm, System::kThyNvmPages}) {
    Machine machine(system, model, false);
    for (std::uint64_t page = 0; page < 12'000; ++page)
      run_one(machine, store(kBase + page * (kPageBytes + kLineBytes), 2000));
    machine.finish();
    EXPECT_GT(machine.results().epochs.epochs, 2U) << system_name(system);
    EXPECT_EQ(machine.results().traffic.cpu_lines, 12'000U) << system_name(system);
  }
}

// There tables end epochs as soon as they are full: they never hold more than a few lines beyond.
TEST(ThyNvmInThePublishedCode, EndsEpochsBeforeItsTablesOverflow) {
  for (const System system : {System::kThyNvm, System::kThyNvmBlocks, System::kThyNvmPages}) {
    Machine machine(system, Model::of(Reading::kPaperCode), false);
    for (std::uint64_t i = 0; i < 30'000; ++i) {
      run_one(machine, store(kBase + i * kLineBytes));
      run_one(machine, store((1U << 30) + i % 10'000 * (kPageBytes + kLineBytes)));
    }
    machine.finish();
    const EpochStatistics epochs = machine.results().epochs;
    EXPECT_GT(epochs.full, 1U) << system_name(system);
    EXPECT_LE(epochs.spilled, epochs.full) << system_name(system);
  }
}

// The third cache has one line: when the second is flushed, its second line drives the first one out,
// which is part of the flush as well, and copies its page (64 hits of the open row).
TEST(StrictStops, IncludeWhatAFlushDrivesOut) {
  Model model = Model::of(Reading::kStrict);
  model.l1 = model.l2 = {1, 2, 4};
  model.l3 = {1, 1, 28};
  Machine machine(System::kShadow, model, false);
  run_one(machine, store(kBase));
  run_one(machine, store(kBase + kLineBytes));
  machine.finish();
  EXPECT_EQ(machine.results().traffic.cpu_lines, 2U);
  EXPECT_EQ(machine.results().epochs.waited, 0U);
  EXPECT_GT(machine.results().epochs.stopped, 64 * kHit);
}

//   flush    lookup 9; all else happens beside the core
TEST(StrictStops, OfThyNvmWithOneBlock) {
  Machine machine(System::kThyNvm, Model::of(Reading::kStrict), false);
  run_one(machine, store(kBase));
  machine.finish();
  EXPECT_EQ(machine.results().epochs.stopped, kLookup);
}

// ---- The end-of-epoch instruction ---------------------------------------------------------------------

Access end_of_epoch() { return store(PERDURE_MARK_END_EPOCH_WORD); }

TEST(EndOfEpochInstruction, TakesNoTimeOnIdealMemory) {
  for (const System system : {System::kDram, System::kNvm}) {
    Machine machine(system, Model::of(Reading::kStrict), true);
    run_one(machine, store(kBase));
    EXPECT_EQ(time_of(machine, {end_of_epoch()}), 1U);
    EXPECT_EQ(machine.results().ended_by_program, 1U);
    EXPECT_EQ(machine.results().stores, 1U) << "it is no access";
    EXPECT_THAT(machine.wrong(), IsEmpty());
  }
}

// And it waits until the checkpoint is complete: an epoch that ends by itself does not.
TEST(EndOfEpochInstruction, IsTimeInWhichTheCoreStandsStill) {
  for (const Reading reading : {Reading::kStrict, Reading::kPaperCode}) {
    for (const System system :
         {System::kJournal, System::kShadow, System::kThyNvm, System::kThyNvmOverlap}) {
      Machine machine(system, Model::of(reading), false);
      machine.run(sweep(AccessKind::kStore, 100));
      const Time stood = machine.results().stood;
      const Time took = time_of(machine, {end_of_epoch()});
      const Results results = machine.results();
      EXPECT_EQ(results.stood - stood, took - Model::of(reading).cycles_per_instruction)
          << system_name(system);
      EXPECT_EQ(results.epochs.epochs, 1U) << system_name(system);
      EXPECT_EQ(results.traffic.cpu_lines, 100U) << system_name(system);
      if (system == System::kThyNvm) {
        EXPECT_GT(took, kNvmMiss) << "its header's way to NVM";
      }
    }
  }
}

}  // namespace
}  // namespace perdure::memory
