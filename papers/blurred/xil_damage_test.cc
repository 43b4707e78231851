// SPDX-License-Identifier: BSD-3-Clause
// What recovery makes of a ring that no power cut leaves: changed bits, garbage, a broken rule.
#include <cstdio>

#include <gtest/gtest.h>

#include "papers/blurred/xil_test_media.h"

namespace perdure {
namespace {

TEST(XilDamage, EveryFlippedBitIsDetectedOrHarmlessOrLooksLikeACutOfTheNewest) {
  std::uint64_t detected = 0;
  std::uint64_t harmless = 0;
  std::uint64_t newest_missing = 0;
  for (std::uint64_t start = 0; start < 64; ++start) {
    UsedLog used(start);
    std::vector<Remembered> model{used.first};
    for (const std::uint64_t length : {3, 1, 4}) {
      append_random(used.domain, used.log(), used.random, length % 3);
      used.log().abort(used.domain);
      model.push_back(
          {++used.timestamp, append_random(used.domain, used.log(), used.random, length)});
      ASSERT_TRUE(commit(used.log(), used.domain, used.timestamp));
    }
    const std::vector<Remembered> without_newest(model.begin(), model.end() - 1);
    for (std::uint64_t word = 0; word < used.memory.size(); ++word) {
      for (unsigned bit = 0; bit < 64; ++bit) {
        used.memory[word] ^= Word{1} << bit;
        const XilScan scan = scan_xil(used.memory.ring(), used.retired);
        if (scan.damage != nullptr) {
          ++detected;
          EXPECT_TRUE(scan.transactions.empty());
        } else if (const auto found = read_all(used.memory.ring(), scan); found == model) {
          ++harmless;
        } else {
          ASSERT_EQ(found, without_newest) << "word " << word << " bit " << bit;
          const std::uint64_t back = (used.log().begin() - 1 - word / 2) % 32;
          ASSERT_LE(back, 5u) << "only the newest: 4 records, their commit, an abort record before";
          ++newest_missing;
        }
        used.memory[word] ^= Word{1} << bit;
      }
    }
  }
  // A torn bit or a count of rewrites in the newest transaction, and what makes its commit record one. Of all flips that
  // are not harmless it is one in 78.
  EXPECT_GT(newest_missing, 0u);
  EXPECT_LT(newest_missing * 60, detected);
  std::printf("flips: %llu detected, %llu harmless, %llu as a cut\n",
              static_cast<unsigned long long>(detected), static_cast<unsigned long long>(harmless),
              static_cast<unsigned long long>(newest_missing));
}

TEST(XilDamage, RoomThatIsUsedBeforeItsTimestampIsRetiredIsFound) {
  RingWords memory(32);
  CachedLines domain(memory);
  std::mt19937_64 random{10};
  XilLog log = open_xil(domain, memory.ring(), 0);
  append_random(domain, log, random, 3);
  ASSERT_TRUE(commit(log, domain, 1));
  log.truncate_to(log.begin());
  append_random(domain, log, random, 3);
  ASSERT_TRUE(commit(log, domain, 2));
  EXPECT_EQ(scan_xil(memory.ring(), 1).damage, nullptr);
  EXPECT_NE(scan_xil(memory.ring(), 0).damage, nullptr) << "timestamp 1 was not retired after all";
}

/// Rings that no log writes, put together by hand: closing records whose checks hold, but which lead astray.
struct XilDamageByHand : ::testing::Test {
  /// A transaction of one record and its commit record.
  void put(xil::Place commit, std::uint64_t timestamp, std::uint64_t age) {
    records.store(domain, commit - 1, xil::encode({8, timestamp, 0xff}, records.torn(commit - 1)));
    records.store(domain, commit, records.seal({true, timestamp, 1, age}, commit));
  }
  void put_abort(xil::Place at, std::uint64_t timestamp, std::uint64_t back) {
    records.store(domain, at, records.seal({false, timestamp, back}, at));
  }
  XilScan scan() { return scan_xil(memory.ring(), 0); }
  RingWords memory{32};
  CachedLines domain{memory};
  xil::Records records{memory.ring()};
};

TEST_F(XilDamageByHand, ALogThatIsLongerThanItsRingIsDamage) {
  put(100, 3, 1);
  put_abort(98, 2, 20);
  put(78, 2, 0);
  EXPECT_EQ(scan().transactions.size(), 2u);
  put(78, 2, 1);
  put_abort(76, 1, 20);
  put(56, 1, 0);  // 46 records before the end
  EXPECT_NE(scan().damage, nullptr);
}

TEST_F(XilDamageByHand, AnAbortRecordThatLeadsToAnotherCommitThanItNamesIsDamage) {
  put(90, 2, 0);
  put(100, 8, 6);
  put_abort(98, 2, 8);
  EXPECT_EQ(scan().transactions.size(), 2u);
  put(100, 8, 2);
  put_abort(98, 6, 8);
  EXPECT_NE(scan().damage, nullptr) << "the commit there is of timestamp 2";
}

TEST_F(XilDamageByHand, ACutCommitThatIsNotBehindTheEndIsDamage) {
  put(100, 3, 0);
  put(110, 4, 1);
  *records.data_half(109) ^= xil::kTornInData;
  EXPECT_EQ(scan().transactions.size(), 1u) << "a cut of the newest";
  put(110 - 32, 4, 1);  // on the lap before
  *records.data_half(109 - 32) ^= xil::kTornInData;
  EXPECT_NE(scan().damage, nullptr);
}

TEST(XilDamage, AnyGarbageIsSurvivedAndAnEmptyRingIsAnEmptyLog) {
  std::mt19937_64 random{9};
  std::uint64_t damaged = 0;
  for (int round = 0; round < 20000; ++round) {
    RingWords memory(round % 2 == 0 ? 8 : 64);
    for (std::uint64_t i = 0; round > 0 && i < memory.size(); ++i) {
      memory[i] = random() >> random() % 64;
      if (i % 2 == 1 && random() % 2 == 0) {  // many commit and abort records, with short ways
        const Word meta = xil::kClosing | (random() % 4 == 0 ? 0 : xil::kCommits);
        memory[i] = meta | (random() % 2) | (random() % 5) << 16 | (random() % 5) << 40;
      }
    }
    const std::uint64_t retired = random() % 4;
    const XilScan scan = scan_xil(memory.ring(), retired);
    if (scan.damage != nullptr) {
      ++damaged;
      ASSERT_TRUE(scan.transactions.empty());
      ASSERT_LT(scan.damaged_record, memory.size() / 2);
      continue;
    }
    ASSERT_LE(scan.tail - scan.head, memory.size() / 2);
    // The log goes on from there.
    auto expected = read_all(memory.ring(), scan);
    CachedLines domain(memory);
    XilLog log = open_xil(domain, memory.ring(), retired);
    std::uint64_t timestamp = retired + 1;
    std::uint64_t now_retired = retired;
    if (!expected.empty()) {
      timestamp = expected.back().timestamp + 1;
      if (log.free_records() < 2) {
        now_retired = expected.back().timestamp;
        log.truncate_to(log.begin());
      }
    }
    const Remembered next{timestamp, append_random(domain, log, random, 2)};
    ASSERT_TRUE(commit(log, domain, timestamp));
    const auto found = read_all(memory.ring(), scan_xil(memory.ring(), now_retired));
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.back(), next);
  }
  EXPECT_GT(damaged, 1000u);
}

}  // namespace
}  // namespace perdure
