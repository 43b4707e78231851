// SPDX-License-Identifier: BSD-3-Clause
// An application's log whose words were damaged between two lives.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"
#include "perdure/log/tornbit_log.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

std::vector<std::string> records_in(const Log& log) {
  std::vector<std::string> records;
  log.for_each([&](std::span<const std::byte> record) {
    records.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
  });
  return records;
}

/// A log whose records were flushed one by one, after so many laps.
class DamagedLog : public ::testing::TestWithParam<int> {
 protected:
  static constexpr std::uint64_t kRecords = 36;
  static constexpr std::size_t kBytes = 4096;
  static std::string text_of(std::uint64_t n) {
    return "record " + std::to_string(n) + std::string(n * 11 % 70, 'x');
  }
  DamagedLog() {
    Pool pool = image_.pool().value();
    Log log = Log::open_or_create(pool, "events", kBytes).value();
    for (int lap = 0; lap < GetParam(); ++lap) {
      while (log.append("of an earlier lap", 17)) {
      }
      log.flush();
      log.truncate();
    }
    const std::uint64_t empty = log.free_bytes();
    for (std::uint64_t n = 0; n < kRecords; ++n) {
      last_ = empty - log.free_bytes();
      EXPECT_TRUE(log.append(text_of(n).data(), text_of(n).size()));
      log.flush();
    }
    used_ = empty - log.free_bytes();
    pool.read_only([&](Tx& tx) {
      const auto root = core_of(pool).find_root(tx, "events", 0, 0, false);
      const auto* words = static_cast<const Word*>(root->object);
      ring_ = words[0];
      head_ = *unseal(words[8], TornbitLog::kHeadSalt) * kWordBytes;
    });
    EXPECT_GT(used_, kBytes / 2);
  }
  /// The offset of a byte of the records.
  Offset at(std::uint64_t byte) const { return ring_ + (head_ + byte) % kBytes; }
  /// What a copy of the image, damaged so, is refused with; "" and fewer records if it is not.
  template <class Damage>
  std::string opened(Damage damage, std::size_t& records) {
    testing::Image image(image_);
    damage(image);
    Pool pool = image.pool().value();
    auto log = Log::open_or_create(pool, "events", kBytes);
    records = 0;
    if (!log) {
      EXPECT_EQ(log.error().code, Code::kCorrupt);
      EXPECT_TRUE(image == damaged(damage)) << "what is refused stays as it is";
      return log.error().message;
    }
    for (const std::string& record : records_in(log.value())) EXPECT_EQ(record, text_of(records++));
    return "";
  }
  template <class Damage>
  testing::Image damaged(Damage damage) {
    testing::Image image(image_);
    damage(image);
    return image;
  }

  testing::Image image_ = testing::Image::formatted();
  Offset ring_ = 0;
  std::uint64_t head_ = 0;  // bytes
  std::uint64_t last_ = 0;  // where the last record begins behind the head
  std::uint64_t used_ = 0;  // where it ends
};

TEST_P(DamagedLog, FlippedBitsAreMissedOrNeverMeantAnything) {
  for (std::uint64_t byte = 0; byte < used_; byte += kWordBytes) {
    // The torn bit, and others by turns.
    for (int bit = 63; bit >= 0; bit -= 21 + static_cast<int>(byte / kWordBytes % 21)) {
      std::size_t records = 0;
      const std::string told =
          opened([&](testing::Image& image) { image.word(at(byte)) ^= Word{1} << bit; }, records);
      // A torn bit of the last record reads as an append that was never flushed.
      const bool last = byte >= last_ && records == kRecords - 1;
      ASSERT_TRUE(!told.empty() || records == kRecords || last) << byte << ' ' << bit;
    }
  }
}

TEST_P(DamagedLog, EverySectorAndWordThatIsLostIsMissed) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{512}}) {
    for (const Word fill : {Word{0}, ~Word{0}, Word{0x5555555555555555}}) {
      for (std::uint64_t byte = 0; byte + bytes <= last_; byte += bytes) {
        std::size_t records = 0;
        const std::string told = opened(
            [&](testing::Image& image) {
              for (std::uint64_t i = 0; i < bytes; i += 8) image.word(at(byte + i)) = fill;
            },
            records);
        ASSERT_TRUE(!told.empty() || records == kRecords) << byte << ' ' << fill;
      }
    }
  }
}

TEST_P(DamagedLog, WhatIsWholeIsSalvaged) {
  for (std::uint64_t byte = 0; byte + 512 <= last_; byte += 104) {
    testing::Image image(image_);
    for (std::uint64_t i = 0; i < 104; i += 8) image.word(at(byte + i)) = 0;
    const testing::Image before(image);
    Pool pool = image.pool().value();
    std::vector<std::string> found;
    auto gaps = Log::salvage(pool, "events", [&](std::span<const std::byte> record) {
      found.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
    });
    EXPECT_EQ(gaps.value(), 1u);
    EXPECT_GE(found.size(), kRecords - 4);
    EXPECT_EQ(found.back(), text_of(kRecords - 1));
    std::uint64_t n = 0;
    for (const std::string& record : found) {
      while (n < kRecords && text_of(n) != record) ++n;
      EXPECT_LT(n, kRecords) << record << " is none of ours, or out of order";
    }
    EXPECT_TRUE(image == before);
  }
}

TEST_P(DamagedLog, AHoleInWhatWasNeverFlushedIsATornAppend) {
  Pool pool = image_.pool().value();
  Log log = Log::open_or_create(pool, "events", kBytes).value();
  const std::uint64_t before = log.free_bytes();
  ASSERT_TRUE(log.append("first", 5));
  ASSERT_TRUE(log.append("second", 6));
  ASSERT_TRUE(log.append("third", 5));
  const std::uint64_t each = (before - log.free_bytes()) / 3;
  testing::Image image(image_);
  image.word(at(used_ + each)) ^= Word{1} << 63;
  Pool again = image.pool().value();
  Log found = Log::open_or_create(again, "events", kBytes).value();
  EXPECT_EQ(records_in(found).size(), kRecords + 1);
}

INSTANTIATE_TEST_SUITE_P(Laps, DamagedLog, ::testing::Values(0, 1, 2),
                         [](const auto& of) { return "Lap" + std::to_string(of.param); });

// As earlier releases have made it.
TEST(OldLog, ALogWithoutSumsIsReadAndGoesOn) {
  testing::Image image = testing::Image::formatted();
  {
    Pool pool = image.pool().value();
    Log log = Log::open_or_create(pool, "events", 4096).value();
  }
  {
    Pool pool = image.pool().value();
    pool.atomically([&](Tx& tx) {
      auto* words = static_cast<Word*>(core_of(pool).find_root(tx, "events", 0, 0, false)->object);
      tx.store(words[2], seal((words[0] ^ words[1]) & kMax48, 0x4c4f));
    });
    Log log = Log::open_or_create(pool, "events", 4096).value();
    EXPECT_TRUE(log.append("one", 3));
    EXPECT_TRUE(log.append("two", 3));
    log.flush();
    pool.read_only([&](Tx& tx) {
      const auto* words =
          static_cast<Word*>(core_of(pool).find_root(tx, "events", 0, 0, false)->object);
      EXPECT_EQ(image.word(words[0]) & ~TornbitLog::kTornBit, seal(3, 0x4c52) & ~(Word{1} << 63))
          << "no bit says what was durable";
    });
  }
  Pool pool = image.pool().value();
  const std::vector<std::string> both{"one", "two"};
  EXPECT_EQ(records_in(Log::open_or_create(pool, "events", 4096).value()), both);
  std::vector<std::string> saved;
  EXPECT_EQ(Log::salvage(pool, "events",
                         [&](std::span<const std::byte> record) {
                           saved.emplace_back(reinterpret_cast<const char*>(record.data()),
                                              record.size());
                         })
                .value(),
            0u);
  EXPECT_EQ(saved, both);
  EXPECT_EQ(Log::salvage(pool, "none", [](std::span<const std::byte>) {}).error().code,
            Code::kNotFound);
}

}  // namespace
}  // namespace perdure
