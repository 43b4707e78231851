// SPDX-License-Identifier: BSD-3-Clause
// What an XilLog promises while the power stays on, and what it asks of its domain.
#include "papers/blurred/xil_log.h"

#include <gtest/gtest.h>

#include "papers/blurred/xil_test_media.h"
#include "perdure/domain/dram.h"

namespace perdure {
namespace {

struct XilLogTest : ::testing::Test {
  /// An empty log in `memory` whose first record stands at index `start` of the ring, on a lap with either torn bit.
  XilLog at_start(RingWords& memory, std::uint64_t start) {
    XilLog log = open_xil(domain, memory.ring(), 0);
    // An aborted transaction takes a place more than it has records: two, or three to get to odd places.
    for (bool odd = start % 2 != 0; log.begin() % (2 * log.capacity_records()) != start;
         odd = false) {
      log.append(domain, 0, 0);
      if (odd) log.append(domain, 0, 0);
      log.abort(domain);
      drop(log, log.begin());
    }
    return log;
  }
  void drop(XilLog& log, XilLog::Place position) {
    log.reset_holes(domain, position);
    log.truncate_to(position);
  }
  std::vector<RememberedUpdate> append_random(XilLog& log, std::uint64_t count) {
    std::vector<RememberedUpdate> updates;
    for (std::uint64_t i = 0; i < count; ++i) {
      updates.push_back(
          {(random() & kMax48) / 8 * 8, random(), static_cast<std::uint8_t>(random())});
      log.append(domain, updates.back().address, updates.back().value, updates.back().bytes);
    }
    return updates;
  }
  Dram domain;
  std::mt19937_64 random{6};
};

TEST_F(XilLogTest, ARecordHoldsEveryValueMaskAndAddressUnderEitherTornBit) {
  for (int round = 0; round < 10000; ++round) {
    const xil::Update update{(random() & kMax48) / 8 * 8, random(),
                             static_cast<std::uint8_t>(random()),
                             static_cast<unsigned>(random() % 16)};
    const bool torn = round % 2 == 0;
    const xil::Halves halves = xil::encode(update, torn);
    ASSERT_EQ((halves.data & xil::kTornInData) != 0, torn);
    ASSERT_EQ((halves.meta & xil::kTornInMeta) != 0, torn);
    ASSERT_TRUE(xil::is_data(halves));
    const xil::Update back = xil::update_of(halves);
    ASSERT_EQ(back.address, update.address);
    ASSERT_EQ(back.value, update.value);
    ASSERT_EQ(back.bytes, update.bytes);
    ASSERT_EQ(back.rewrites, update.rewrites);
  }
}

TEST_F(XilLogTest, AClosingRecordHoldsTheEndsOfItsRanges) {
  RingWords memory(32);
  const xil::Records records(memory.ring());
  for (const std::uint64_t back : {std::uint64_t{1}, std::uint64_t{31}}) {
    for (const std::uint64_t age : {std::uint64_t{0}, std::uint64_t{1}, xil::kMaxAge}) {
      for (const std::uint64_t rewrites :
           {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{256}, xil::kMaxRewriteSum}) {
        records.store(domain, 40, records.seal({true, kMax48, back, age, rewrites}, 40));
        ASSERT_TRUE(records.written(40));
        const auto closing = records.closing_at(40);
        ASSERT_TRUE(closing);
        EXPECT_TRUE(closing->commits);
        EXPECT_EQ(closing->timestamp, kMax48);
        EXPECT_EQ(closing->back, back);
        EXPECT_EQ(closing->age, age);
        EXPECT_EQ(closing->rewrites, rewrites);
      }
    }
  }
}

TEST_F(XilLogTest, EveryLengthRoundTripsFromEveryStart) {
  RingWords memory(32);
  for (std::uint64_t start = 0; start < 64; ++start) {
    for (std::uint64_t length = 1; length <= 31; ++length) {
      RingWords fresh(32);
      memory = fresh;
      XilLog log = at_start(memory, start);
      ASSERT_EQ(log.begin() % 64, start);
      ASSERT_EQ(log.free_records(), 31u);
      const auto updates = append_random(log, length);
      EXPECT_TRUE(scan_xil(memory.ring(), 0).transactions.empty()) << "not committed yet";
      ASSERT_TRUE(commit(log, domain, 7));
      const XilScan scan = scan_xil(memory.ring(), 0);
      ASSERT_EQ(scan.damage, nullptr) << scan.damage;
      ASSERT_EQ(read_all(memory.ring(), scan), (std::vector<Remembered>{{7, updates}}))
          << "start " << start << " length " << length;
      EXPECT_TRUE(scan_xil(memory.ring(), 7).transactions.empty()) << "retired";
    }
  }
}

TEST_F(XilLogTest, AFullRingIsReadToItsLastRecord) {
  for (std::uint64_t start = 0; start < 64; ++start) {
    RingWords memory(32);
    XilLog log = at_start(memory, start);
    std::vector<Remembered> model;
    for (std::uint64_t timestamp = 1; log.free_records() > 0; ++timestamp) {
      const std::uint64_t length = std::min<std::uint64_t>(1 + timestamp % 3, log.free_records());
      model.push_back({timestamp, append_random(log, length)});
      ASSERT_TRUE(commit(log, domain, timestamp));
    }
    const XilScan scan = scan_xil(memory.ring(), 0);
    ASSERT_EQ(scan.damage, nullptr) << scan.damage;
    ASSERT_EQ(read_all(memory.ring(), scan), model) << start;
  }
}

TEST_F(XilLogTest, ATransactionReadsAndChangesWhatItWrote) {
  for (int round = 0; round < 300; ++round) {
    RingWords memory(64);
    XilLog log = at_start(memory, static_cast<std::uint64_t>(round) % 128);
    const Offset address = 8 * (random() % 1000);
    Word expected = random();
    std::uint8_t bytes = static_cast<std::uint8_t>(random());
    XilLog::Place place = log.append(domain, address, expected, bytes);
    for (std::uint64_t change = random() % 60; change > 0; --change) {
      const Word value = random();
      const auto mask = static_cast<std::uint8_t>(random());
      for (unsigned i = 0; i < 8; ++i) {
        if ((mask >> i & 1) != 0)
          expected = (expected & ~byte_mask(i, 1)) | (value & byte_mask(i, 1));
      }
      bytes |= mask;
      place = log.rewrite(domain, place, value, mask);
      ASSERT_EQ(log.update(place).value, expected);
      ASSERT_EQ(log.update(place).bytes, bytes);
      ASSERT_EQ(log.update(place).address, address);
    }
    ASSERT_TRUE(commit(log, domain, 1));
    const auto found = read_all(memory.ring(), scan_xil(memory.ring(), 0));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].updates.back(), (RememberedUpdate{address, expected, bytes}));
  }
}

TEST_F(XilLogTest, ARecordIsRewrittenFifteenTimesThenAnotherTakesItsPlace) {
  RingWords memory(32);
  XilLog log = open_xil(domain, memory.ring(), 0);
  const XilLog::Place first = log.append(domain, 8, 0);
  for (Word value = 1; value <= xil::kMaxRewrites; ++value)
    EXPECT_EQ(log.rewrite(domain, first, value), first);
  const XilLog::Place second = log.rewrite(domain, first, 16);
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(log.rewrite(domain, second, 17), second);
  EXPECT_EQ(log.open_records(), 2u);
}

TEST_F(XilLogTest, TheRewritesOfATransactionStayWithinTheCommitRecordsCount) {
  RingWords memory(1024);
  XilLog log = open_xil(domain, memory.ring(), 0);
  std::vector<XilLog::Place> places;
  for (Offset i = 0; i < 300; ++i) places.push_back(log.append(domain, 8 * i, 0));
  Word value = 0;
  std::uint64_t moved = 0;
  for (int round = 0; round < 14; ++round) {  // 4,200 rewrites, of which 4,095 fit
    for (XilLog::Place& place : places) {
      const XilLog::Place now = log.rewrite(domain, place, ++value);
      moved += now != place ? 1 : 0;
      place = now;
    }
  }
  EXPECT_EQ(moved, 14 * 300 - xil::kMaxRewriteSum);
  ASSERT_TRUE(commit(log, domain, 1));
  std::map<Offset, Word> home;
  const auto found = read_all(memory.ring(), scan_xil(memory.ring(), 0));
  ASSERT_EQ(found.size(), 1u);
  for (const RememberedUpdate& update : found[0].updates) home[update.address] = update.value;
  for (Offset i = 0; i < 300; ++i) EXPECT_EQ(home.at(8 * i), value - 299 + i);
}

TEST_F(XilLogTest, AbortedTransactionsAreCrossed) {
  for (std::uint64_t length = 1; length < 300; ++length) {
    RingWords memory(1024);
    XilLog log = open_xil(domain, memory.ring(), 0);
    std::vector<Remembered> model;
    for (std::uint64_t timestamp = 1; timestamp <= 3; ++timestamp) {
      model.push_back({timestamp, append_random(log, 2)});
      ASSERT_TRUE(commit(log, domain, timestamp));
      append_random(log, length / timestamp);
      log.abort(domain);
      if (timestamp == 2) log.abort(domain);  // of nothing: changes nothing
    }
    const XilScan scan = scan_xil(memory.ring(), 0);
    ASSERT_EQ(scan.damage, nullptr) << scan.damage;
    ASSERT_EQ(read_all(memory.ring(), scan), model) << length;
    // The distance from any aborted record to the abort record behind it.
    const xil::Records records(memory.ring());
    std::uint64_t unexplained = 0;
    for (auto place = scan.head; place < log.begin(); ++place) {
      unexplained = xil::is_data(records.load(place)) ? unexplained + 1 : 0;
      ASSERT_LT(unexplained, XilLog::kAbortEvery);
    }
  }
}

TEST_F(XilLogTest, OneFencePerCommitAndNoneForAnAbort) {
  RingWords memory(256);
  CachedLines counting(memory);
  XilLog log = open_xil(counting, memory.ring(), 0);
  counting.fences = 0;
  for (int i = 0; i < 100; ++i) log.append(counting, 8, 1);
  log.abort(counting);
  EXPECT_EQ(counting.fences, 0u);
  for (int i = 0; i < 3; ++i) log.append(counting, 8, 1);
  ASSERT_TRUE(commit(log, counting, 1));
  EXPECT_EQ(counting.fences, 1u);
  log.reset_holes(counting, log.begin());
  log.truncate_to(log.begin());
  EXPECT_EQ(counting.fences, 1u) << "truncation adds none to the caller's";
}

TEST_F(XilLogTest, AFailedFenceIsReported) {
  struct BrokenDram : Dram {
    bool fence(Site) { return false; }
  } broken;
  RingWords memory(32);
  XilLog log = open_xil(domain, memory.ring(), 0);
  log.append(broken, 8, 1);
  log.commit(broken, 1);
  EXPECT_FALSE(log.make_durable(broken));
}

TEST_F(XilLogTest, TheRoomOfATruncationIsUsedAtOnceAndTheOpenTransactionStays) {
  RingWords memory(32);
  XilLog log = open_xil(domain, memory.ring(), 0);
  append_random(log, 20);
  ASSERT_TRUE(commit(log, domain, 1));
  auto updates = append_random(log, log.free_records());
  EXPECT_EQ(log.free_records(), 0u);
  drop(log, log.begin());
  EXPECT_EQ(log.free_records(), 21u);
  const auto more = append_random(log, 21);
  updates.insert(updates.end(), more.begin(), more.end());
  ASSERT_EQ(updates.size(), 31u);
  ASSERT_TRUE(commit(log, domain, 2));
  const XilScan scan = scan_xil(memory.ring(), 1);
  ASSERT_EQ(scan.damage, nullptr) << scan.damage;
  EXPECT_EQ(read_all(memory.ring(), scan), (std::vector<Remembered>{{2, updates}}));
}

}  // namespace
}  // namespace perdure
