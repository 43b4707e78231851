// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/append_log.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace perdure
