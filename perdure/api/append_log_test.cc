// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/append_log.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/log/tornbit_log.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

std::vector<std::string> records_of(const Log& log) {
  std::vector<std::string> records;
  log.for_each([&](std::span<const std::byte> record) {
    records.emplace_back(reinterpret_cast<const char*>(record.data()), record.size());
  });
  return records;
}

class AppendLogTest : public ::testing::Test {
 protected:
  ~AppendLogTest() override { std::filesystem::remove(path_); }
  Pool pool() { return Pool::open_or_create(path_).value(); }
  std::string path_ =
      ::testing::TempDir() + "append_log_test." + std::to_string(::getpid()) + ".pool";
};

TEST_F(AppendLogTest, RecordsOfAnyLengthSurviveReopening) {
  std::vector<std::string> written;
  {
    Pool open = pool();
    Log log = Log::open_or_create(open, "events", 64 << 10).value();
    for (std::size_t bytes = 0; bytes < 200; ++bytes) {
      written.emplace_back(bytes, static_cast<char>('a' + bytes % 26));
      ASSERT_TRUE(log.append(written.back().data(), bytes));
    }
    log.flush();
    EXPECT_EQ(records_of(log), written);
  }
  Pool again = pool();
  EXPECT_EQ(records_of(Log::open_or_create(again, "events", 64 << 10).value()), written);
}

TEST_F(AppendLogTest, FreeBytesShrinkWithEachRecordAndComeBackAtATruncation) {
  Pool open = pool();
  Log log = Log::open_or_create(open, "events", 64 << 10).value();
  const std::string record(1000, 'r');
  const std::uint64_t empty = log.free_bytes();
  EXPECT_GE(empty, 64u << 10);
  for (std::uint64_t free = empty; log.append(record.data(), record.size());) {
    EXPECT_GE(free - log.free_bytes(), record.size());
    EXPECT_LE(free - log.free_bytes(), record.size() + 64);
    free = log.free_bytes();
  }
  EXPECT_LT(log.free_bytes(), record.size() + 64);
  log.truncate();
  EXPECT_EQ(log.free_bytes(), empty);
}

// What the transaction that made the log wrote must not come back over what the log wrote later.
TEST_F(AppendLogTest, ALogThatWasMadeInTheSameLifeSurvivesAKill) {
  testing::Image image = testing::Image::formatted();
  std::vector<std::string> written;
  std::optional<testing::Image> killed;
  {
    Pool open = image.pool().value();
    Log log = Log::open_or_create(open, "events", 4096).value();
    while (log.append("some record", 11)) {
    }
    log.flush();
    log.truncate();
    for (const char* record : {"a", "b", "c"}) {
      ASSERT_TRUE(log.append(record, 1));
      written.emplace_back(record);
    }
    log.flush();
    killed.emplace(image);
  }
  Pool again = killed->pool().value();
  EXPECT_EQ(records_of(Log::open_or_create(again, "events", 4096).value()), written);
}

TEST_F(AppendLogTest, OnlyTheThreadThatAppendedMayFlush) {
  Pool open = pool();
  Log log = Log::open_or_create(open, "events", 4096).value();
  std::thread([&] { ASSERT_TRUE(log.append("a", 1)); }).join();
  EXPECT_EQ(testing::code_thrown_by([&] { log.flush(); }), code_name(Code::kMisuse));
  EXPECT_EQ(testing::code_thrown_by([&] { (void)log.append("b", 1); }), code_name(Code::kMisuse));
  log.truncate();
  EXPECT_TRUE(log.append("c", 1));
  log.flush();
}

TEST_F(AppendLogTest, TruncateDropsAllAndTheRingIsUsedAgainManyTimes) {
  for (int opening = 0; opening < 3; ++opening) {
    Pool open = pool();
    Log log = Log::open_or_create(open, "events", 4096).value();
    for (int lap = 0; lap < 20; ++lap) {
      const std::string record(300, static_cast<char>('0' + lap));
      int appended = 0;
      while (log.append(record.data(), record.size())) ++appended;
      EXPECT_GE(appended, 10);
      log.flush();
      EXPECT_EQ(records_of(log).size(), static_cast<std::size_t>(appended));
      log.truncate();
      EXPECT_TRUE(records_of(log).empty());
    }
  }
}

TEST_F(AppendLogTest, AFullLogRefusesAndStaysAsItIs) {
  Pool open = pool();
  Log log = Log::open_or_create(open, "events", 4096).value();
  const std::string large(5000, 'x');
  EXPECT_FALSE(log.append(large.data(), large.size()));
  EXPECT_TRUE(log.append("small", 5));
  log.flush();
  EXPECT_EQ(records_of(log), std::vector<std::string>{"small"});
}

// ---- damage -------------------------------------------------------------------------------------

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
    for (const std::string& record : records_of(log.value())) EXPECT_EQ(record, text_of(records++));
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
  EXPECT_EQ(records_of(found).size(), kRecords + 1);
}

INSTANTIATE_TEST_SUITE_P(Laps, DamagedLog, ::testing::Values(0, 1, 2),
                         [](const auto& of) { return "Lap" + std::to_string(of.param); });

// As earlier releases have made it.
TEST_F(AppendLogTest, ALogWithoutSumsIsReadAndGoesOn) {
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
  EXPECT_EQ(records_of(Log::open_or_create(pool, "events", 4096).value()), both);
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
