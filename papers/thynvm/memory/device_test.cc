// SPDX-License-Identifier: BSD-3-Clause
// Every time is computed by hand from Table 2, in cycles of 3 GHz:
//
//   row hit         40 ns    120        DRAM row miss          80 ns    240
//   issue            5 ns     15        NVM row miss, clean   128 ns    384
//                                       NVM row miss, dirty   368 ns   1104
//
// A row is 128 lines, there are 16 banks: line 0 is in row 0 of bank 0, line 128 in row 0 of bank 1, line
// 2048 in row 1 of bank 0.
#include "papers/thynvm/memory/device.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace perdure::memory {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kBank = 128, kRow = 2048;  // lines from one to the next
constexpr Time kHit = 120, kMiss = 384, kDirtyMiss = 1104, kDramMiss = 240, kIssue = 15;

const DeviceTiming kStrict = Model::of(Reading::kStrict).nvm;
const DeviceTiming kPaper = Model::of(Reading::kPaperCode).nvm;
const DeviceTiming kDram = Model::of(Reading::kStrict).dram;

Line line_of(unsigned char value) {
  Line line;
  line.fill(value);
  return line;
}

TEST(DeviceTimings, AreThoseOfTable2) {
  for (const Reading reading : {Reading::kStrict, Reading::kPaperCode}) {
    const Model model = Model::of(reading);
    EXPECT_EQ(model.dram.row_hit, kHit);
    EXPECT_EQ(model.nvm.row_hit, kHit);
    EXPECT_EQ(model.dram.clean_miss, kDramMiss);
    EXPECT_EQ(model.dram.dirty_miss, kDramMiss);
    EXPECT_EQ(model.nvm.clean_miss, kMiss);
    EXPECT_EQ(model.nvm.dirty_miss, kDirtyMiss);
    EXPECT_EQ(model.nvm.issue, kIssue);  // 64 B at 12.8 GB/s: 5 ns
    EXPECT_EQ(model.lookup, 9U);         // 3 ns
  }
}

// ---- Reads ------------------------------------------------------------------------------------------

TEST(DeviceReads, MissARowOnceAndHitItUntilAnotherIsOpened) {
  Device nvm(kStrict, false);
  EXPECT_EQ(nvm.read(0, 0), kMiss);
  EXPECT_EQ(nvm.read(127, 1000), 1000 + kHit);  // the row's last line
  EXPECT_EQ(nvm.read(kRow, 2000), 2000 + kMiss);
  EXPECT_EQ(nvm.read(0, 3000), 3000 + kMiss);
  EXPECT_EQ(nvm.reads(), 4U);
  EXPECT_EQ(nvm.writes(), 0U);
  Device dram(kDram, false);
  EXPECT_EQ(dram.read(0, 0), kDramMiss);
  EXPECT_EQ(dram.read(1, 1000), 1000 + kHit);
}

TEST(DeviceReads, OfOneBankWaitForEachOther) {
  Device nvm(kStrict, false);
  EXPECT_EQ(nvm.read(0, 0), kMiss);
  EXPECT_EQ(nvm.read(1, 0), kMiss + kHit);
  EXPECT_EQ(nvm.read(kRow, 0), kMiss + kHit + kMiss);
}

TEST(DeviceReads, OfTwoBanksOverlapExceptForTheChannel) {
  Device nvm(kStrict, false);
  for (std::uint64_t bank = 0; bank < 16; ++bank)
    EXPECT_EQ(nvm.read(bank * kBank, 0), bank * kIssue + kMiss) << bank;
  // Bank 0 has its row open and would answer at 384 + 120 = 504: not before the sixteenth, at 609.
  EXPECT_EQ(nvm.read(1, 384), 15 * kIssue + kMiss);
}

TEST(DeviceReads, AreIssuedAt12800MegabytesASecond) {
  Device nvm(kStrict, false);
  for (std::uint64_t bank = 0; bank < 16; ++bank) nvm.read(bank * kBank, 0);  // opens all rows
  Time last = 0;
  for (std::uint64_t i = 0; i < 1600; ++i) last = nvm.read(i % 16 * kBank, 10'000);
  // A bank is asked again after 16 x 15 = 240 cycles, when it is free: only the channel limits.
  EXPECT_EQ(last, 10'000 + 1599 * kIssue + kHit);
}

TEST(DeviceReads, AreAnsweredInTheirOrder) {
  Device nvm(kStrict, false);
  nvm.read(kBank, 0);                           // opens the row of bank 1
  EXPECT_EQ(nvm.read(0, 1000), 1000 + kMiss);   // 1384
  EXPECT_EQ(nvm.read(kBank + 1, 1000), 1384U);  // itself at 1000 + 15 + 120
  EXPECT_EQ(nvm.read(kBank + 2, 1390), 1390 + kHit);
}

// ---- Clean and dirty misses -------------------------------------------------------------------------

TEST(DeviceMisses, StrictlyAreDirtyWhenTheOpenRowWasWrittenTo) {
  Device nvm(kStrict, false);
  nvm.write(0, 0, nullptr);
  EXPECT_EQ(nvm.drain(0), kMiss);  // a write, but no row was open
  EXPECT_EQ(nvm.read(1, 1000), 1000 + kHit);
  EXPECT_EQ(nvm.read(kRow, 2000), 2000 + kDirtyMiss);  // closes the row that was written to
  EXPECT_EQ(nvm.read(2 * kRow, 4000), 4000 + kMiss);   // and this one was only read
  nvm.write(2 * kRow + 1, 5000, nullptr);
  EXPECT_EQ(nvm.drain(5000), 5000 + kHit);
  nvm.write(0, 6000, nullptr);
  EXPECT_EQ(nvm.drain(6000), 6000 + kDirtyMiss);
}

TEST(DeviceMisses, InThePublishedCodeAreDirtyWhenTheyAreWrites) {
  Device nvm(kPaper, false);
  nvm.write(0, 0, nullptr);
  EXPECT_EQ(nvm.drain(0), kDirtyMiss);
  EXPECT_EQ(nvm.read(kRow, 2000), 2000 + kMiss);  // although the open row was written to
  nvm.write(0, 3000, nullptr);
  EXPECT_EQ(nvm.drain(3000), 3000 + kDirtyMiss);  // although it was only read
  nvm.write(1, 5000, nullptr);
  EXPECT_EQ(nvm.drain(5000), 5000 + kHit);
}

TEST(DeviceMisses, OfDramTakeTheSame) {
  Device dram(kDram, false);
  dram.write(0, 0, nullptr);
  EXPECT_EQ(dram.drain(0), kDramMiss);
  EXPECT_EQ(dram.read(kRow, 1000), 1000 + kDramMiss);
}

// ---- Writes -----------------------------------------------------------------------------------------

// Neither for the write nor for its bank; what stays is the row that it opened.
TEST(DeviceWrites, InThePublishedCodeGoToTheirBankAndNobodyWaits) {
  Device nvm(kPaper, false);
  EXPECT_EQ(nvm.write(0, 0, nullptr), 0U);
  EXPECT_EQ(nvm.write(1, 0, nullptr), 0U);
  EXPECT_EQ(nvm.writes(), 2U);
  EXPECT_EQ(nvm.read(2, 0), 2 * kIssue + kHit);
  EXPECT_EQ(nvm.drain(0), kDirtyMiss);
  DeviceTiming waits = kPaper;
  waits.waits_for_bank = true;
  Device busy(waits, false);
  for (std::uint64_t line = 0; line < 2; ++line) busy.write(line, 0, nullptr);
  EXPECT_EQ(busy.read(2, 0), kDirtyMiss + kHit + kHit);
}

// Two lines that are 128 KiB apart, as a set of the last cache has them.
TEST(DeviceBanks, AreChosenByTheMapping) {
  const auto misses_of = [](BankMapping mapping, std::uint64_t one, std::uint64_t other) {
    DeviceTiming timing = kStrict;
    timing.mapping = mapping;
    Device nvm(timing, false);
    nvm.read(one, 0);
    nvm.read(other, 10'000);
    return nvm.read(one, 20'000) - 20'000 == kMiss;
  };
  EXPECT_TRUE(misses_of(BankMapping::kRowsInTurn, 0, kRow));
  EXPECT_TRUE(misses_of(BankMapping::kLinesInTurn, 0, kRow));
  EXPECT_FALSE(misses_of(BankMapping::kHashed, 0, kRow));
  // Neighbours of one row: of 16 lines in turn none meets another's bank.
  EXPECT_FALSE(misses_of(BankMapping::kRowsInTurn, 0, kBank));
  EXPECT_FALSE(misses_of(BankMapping::kLinesInTurn, 0, 15));
}

TEST(DeviceWrites, ThatWaitLetReadsGoFirst) {
  Device nvm(kStrict, false);
  EXPECT_EQ(nvm.write(0, 0, nullptr), 0U);
  EXPECT_EQ(nvm.read(kBank, 0), kMiss);                // at once
  EXPECT_EQ(nvm.read(2 * kBank, 10), kIssue + kMiss);  // the channel is free at 15
  EXPECT_EQ(nvm.read(1, 30), 30 + kMiss);              // even before the write to its own row
  EXPECT_EQ(nvm.drain(2000), 2000U);                   // it has taken place since
}

TEST(DeviceWrites, BeginAsSoonAsNoReadWantsTheDevice) {
  Device nvm(kStrict, false);
  nvm.write(0, 0, nullptr);
  // The write began at 0 and has the bank until 384.
  EXPECT_EQ(nvm.read(1, 100), kMiss + kHit);
}

TEST(DeviceWrites, ToOneLineThatWaitBecomeOne) {
  Device one(kStrict, false);
  for (int i = 0; i < 10; ++i) one.write(0, 0, nullptr);
  EXPECT_EQ(one.drain(0), kMiss);
  EXPECT_EQ(one.writes(), 10U);
  Device two(kStrict, false);
  two.write(0, 0, nullptr);
  two.write(1, 0, nullptr);
  EXPECT_EQ(two.drain(0), kMiss + kHit);
  Device begun(kStrict, false);
  begun.write(0, 0, nullptr);
  begun.write(0, 1, nullptr);  // too late: the first began at 0
  EXPECT_EQ(begun.drain(1), kMiss + kHit);
}

TEST(DeviceWrites, WaitUntilTheHighWatermarkAndAreThenDoneDownToTheLow) {
  Device nvm(kStrict, false);
  for (std::uint64_t line = 0; line < 47; ++line) nvm.write(line, 0, nullptr);
  EXPECT_EQ(nvm.read(kBank, 0), kMiss);
  Device drained(kStrict, false);
  for (std::uint64_t line = 0; line < 48; ++line) drained.write(line, 0, nullptr);
  // 48 - 16 = 32 writes, 15 each on the channel; they wait for their bank without keeping it.
  EXPECT_EQ(drained.read(kBank, 0), 32 * kIssue + kMiss);
  EXPECT_EQ(drained.read(32, 0), kMiss + 31 * kHit + kHit);  // of their bank: after them
}

TEST(DeviceWrites, WaitForRoomInAFullQueue) {
  DeviceTiming timing = kStrict;
  timing.queue = 2;
  timing.high = 100;  // never drained ahead
  Device nvm(timing, false);
  // Of one row, they begin at 0, 384, 504, 624.
  std::vector<Time> accepted;
  for (std::uint64_t line = 0; line < 5; ++line) accepted.push_back(nvm.write(line, 0, nullptr));
  EXPECT_THAT(accepted, ElementsAre(0, 0, 0, 384, 504));
  EXPECT_EQ(nvm.drain(504), kMiss + 4 * kHit);
}

// All of one row: they begin at 0, 384, 504, ..., the n-th (from 1) at 384 + 120 (n - 2). Each holds its
// place among 64 until it begins, also when a drain has decided the order.
TEST(DeviceWrites, WaitForRoomAlsoWhileTheQueueIsDrained) {
  Device nvm(kStrict, false);
  for (std::uint64_t n = 1; n <= 120; ++n) {
    const Time accepted = nvm.write(n - 1, 0, nullptr);
    const std::uint64_t first = n - 64;  // that must have begun
    EXPECT_EQ(accepted, n <= 65 ? 0 : kMiss + kHit * (first - 2)) << n;
  }
}

TEST(DeviceWrites, AreNotFasterThanTheirBank) {
  Device nvm(kStrict, false);
  Time now = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) now = nvm.write(i * kRow, now, nullptr);
  // Each a dirty miss but the first; 64 have not begun.
  EXPECT_GE(now, (1000 - 66) * kDirtyMiss);
  EXPECT_EQ(nvm.drain(now), kMiss + 999 * kDirtyMiss);
}

// ---- In the background ------------------------------------------------------------------------------

TEST(DeviceBackground, TransfersWaitUntilTheDeviceIsIdle) {
  Device nvm(kStrict, false);
  nvm.write_in_background(0, 0, nullptr);
  EXPECT_EQ(nvm.in_background(), 1U);
  EXPECT_EQ(nvm.read(kBank, 0), kMiss);
  EXPECT_EQ(nvm.in_background(), 1U);
  nvm.advance(15);  // the channel is free at 15: not before
  EXPECT_EQ(nvm.in_background(), 1U);
  nvm.advance(16);
  EXPECT_EQ(nvm.in_background(), 0U);
  EXPECT_EQ(nvm.background_done(), kIssue + kMiss);
}

TEST(DeviceBackground, TransfersWaitForQueuedWrites) {
  Device nvm(kStrict, false);
  nvm.write_in_background(kBank, 0, nullptr);
  nvm.write(0, 0, nullptr);
  nvm.write(1, 0, nullptr);
  nvm.advance(384);  // the second write begins at 384
  EXPECT_EQ(nvm.in_background(), 1U);
  nvm.advance(385);  // then the queue is empty, and the channel has long been free
  EXPECT_EQ(nvm.in_background(), 0U);
  EXPECT_EQ(nvm.background_done(), 384 + kMiss);
}

TEST(DeviceBackground, ATransferFromAnotherDeviceReadsThereFirst) {
  Device nvm(kStrict, false), dram(kDram, false);
  nvm.write_in_background(0, 0, nullptr, &dram, 0);
  EXPECT_EQ(nvm.finish_background(0), kDramMiss + kMiss);
  EXPECT_EQ(dram.read(1, 0), kDramMiss + kHit);  // its bank was busy with that
}

TEST(DeviceBackground, InThePublishedCodeTransfersTake40NsInABankOfTheirOwn) {
  Device nvm(kPaper, false);
  for (const std::uint64_t line : {std::uint64_t{0}, kRow, 2 * kRow, kBank})
    nvm.write_in_background(line, 0, nullptr);
  EXPECT_EQ(nvm.read(0, 0), kMiss);
  EXPECT_EQ(nvm.read(kBank, 0), kIssue + kMiss);  // nobody is delayed
  nvm.advance(1);
  EXPECT_EQ(nvm.in_background(), 3U);  // in their order: the last one waits, too
  EXPECT_EQ(nvm.finish_background(1), 3 * 120U);
  EXPECT_EQ(nvm.writes(), 4U);
  EXPECT_EQ(nvm.read(1, 400), 400 + kHit);  // and no row was closed
}

TEST(DeviceBackground, FinishIsNowWhenThereIsNothing) {
  Device nvm(kStrict, false);
  EXPECT_EQ(nvm.finish_background(77), 77U);
  EXPECT_EQ(nvm.drain(78), 78U);
}

TEST(DeviceDrain, WaitsForQueueAndBackground) {
  Device nvm(kStrict, false);
  nvm.write_in_background(1, 0, nullptr);
  nvm.write(0, 0, nullptr);
  EXPECT_EQ(nvm.drain(0), kMiss + kHit);
  EXPECT_EQ(nvm.in_background(), 0U);
  Device apart(kPaper, false);
  apart.write_in_background(0, 0, nullptr);
  apart.write_in_background(1, 0, nullptr);
  EXPECT_EQ(apart.drain(0), 240U);
}

// ---- Contents, and power cuts -----------------------------------------------------------------------

class DeviceContents : public testing::TestWithParam<Reading> {
 protected:
  DeviceContents() : timing_(Model::of(GetParam()).nvm) {}
  DeviceTiming timing_;
  std::mt19937_64 random_{1};
};
INSTANTIATE_TEST_SUITE_P(Readings, DeviceContents,
                         testing::Values(Reading::kStrict, Reading::kPaperCode),
                         [](const auto& reading) {
                           return reading.param == Reading::kStrict ? "strict" : "paperCode";
                         });

TEST_P(DeviceContents, AreReadAtOnceAndZeroBefore) {
  Device nvm(timing_, true);
  EXPECT_EQ(nvm.contents().read(5), Line{});
  const Line one = line_of(1), two = line_of(2);
  nvm.write(5, 0, &one);
  EXPECT_EQ(nvm.contents().read(5), one);
  nvm.write_in_background(5, 0, &two);
  EXPECT_EQ(nvm.contents().read(5), two);
}

TEST_P(DeviceContents, OfFinishedWritesSurviveAPowerCut) {
  Device nvm(timing_, true);
  const Line one = line_of(1), two = line_of(2), three = line_of(3);
  nvm.write(0, 0, &one);
  nvm.write_in_background(kBank, 0, &two);
  const Time done = nvm.drain(0);
  for (int i = 0; i < 50; ++i) {
    const Contents left = nvm.after_power_cut(done, random_);
    ASSERT_EQ(left.read(0), one);
    ASSERT_EQ(left.read(kBank), two);
  }
  nvm.write(0, done, &three);  // over the first
  const Time again = nvm.drain(done);
  EXPECT_EQ(nvm.after_power_cut(again, random_).read(0), three);
}

TEST_P(DeviceContents, OfAWriteThatIsBeingDoneMayBeTornByWords) {
  Device nvm(timing_, true);
  const Line one = line_of(1), two = line_of(2);
  nvm.write(0, 0, &one);
  const Time begun = nvm.drain(0);
  nvm.write(0, begun, &two);
  const Time done = nvm.drain(begun);
  int none = 0, all = 0, torn = 0;
  for (int i = 0; i < 200; ++i) {
    const Line left = nvm.after_power_cut(done - 1, random_).read(0);
    std::size_t taken = 0;
    for (std::size_t word = 0; word < kLineBytes; word += 8) {
      const std::set<unsigned char> bytes(&left[word], &left[word] + 8);
      ASSERT_EQ(bytes.size(), 1U);
      ASSERT_TRUE(*bytes.begin() == 1 || *bytes.begin() == 2);
      taken += *bytes.begin() == 2 ? 1 : 0;
    }
    ++(taken == 0 ? none : taken == 8 ? all : torn);
  }
  EXPECT_GT(none, 10);
  EXPECT_GT(all, 10);
  EXPECT_GT(torn, 10);
  EXPECT_EQ(nvm.after_power_cut(done, random_).read(0), two);
}

TEST_P(DeviceContents, OfATransferThatHasNotBegunAreAbsent) {
  Device nvm(timing_, true);
  const Line one = line_of(1);
  nvm.write_in_background(0, 0, &one);
  nvm.write_in_background(1, 0, &one);
  nvm.advance(1);  // the first begins
  for (int i = 0; i < 50; ++i) ASSERT_EQ(nvm.after_power_cut(1, random_).read(1), Line{});
  EXPECT_EQ(nvm.after_power_cut(nvm.background_done(), random_).read(0), one);
}

// Nothing orders what waits in the queue: any of it may have happened.
TEST(DeviceQueue, MayBeOnMediaAfterAPowerCut) {
  Device nvm(kStrict, true);
  std::mt19937_64 random(2);
  const Line one = line_of(1), two = line_of(2);
  nvm.write(0, 0, &one);
  nvm.write(kBank, 0, &two);
  std::set<std::pair<bool, bool>> seen;
  for (int i = 0; i < 200; ++i) {
    const Contents left = nvm.after_power_cut(0, random);
    seen.emplace(left.read(0) == one, left.read(kBank) == two);
  }
  EXPECT_EQ(seen.size(), 4U);
}

TEST_P(DeviceContents, ThatWereSimplyPutAreOnMedia) {
  Device nvm(timing_, true);
  const Line one = line_of(1), two = line_of(2);
  nvm.put(0, 0, &one);
  EXPECT_EQ(nvm.contents().read(0), one);
  EXPECT_EQ(nvm.after_power_cut(0, random_).read(0), one);
  EXPECT_EQ(nvm.writes(), 1U);
  EXPECT_EQ(nvm.drain(0), 0U);
  // Over a write that is still under way.
  nvm.write(1, 0, &one);
  const Time done = nvm.drain(0);
  nvm.put(1, done - 1, &two);
  nvm.advance(done + 1);
  EXPECT_EQ(nvm.after_power_cut(done + 1, random_).read(1), two);
}

TEST_P(DeviceContents, AWriteCanBeWaitedFor) {
  Device nvm(timing_, true);
  const Line one = line_of(1);
  std::vector<Time> called;
  nvm.call_after_writes(3, [&](Time now) { called.push_back(now); });
  nvm.write(0, 10, &one);
  nvm.write_in_background(1, 20, &one);
  EXPECT_TRUE(called.empty());
  nvm.put(2, 30, &one);
  nvm.write(3, 40, &one);
  EXPECT_THAT(called, ElementsAre(30));
}

}  // namespace
}  // namespace perdure::memory
