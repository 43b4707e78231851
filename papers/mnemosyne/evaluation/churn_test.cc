// SPDX-License-Identifier: BSD-3-Clause
#include "papers/mnemosyne/evaluation/churn.h"

#include <filesystem>
#include <mutex>
#include <unordered_map>

#include <gtest/gtest.h>

namespace perdure::bench::reproduce {
namespace {

/// A store in ordinary memory that counts what it is asked for, and loses a key if it is told to.
class ToyStore final : public UpdateStore {
 public:
  struct Log {
    std::uint64_t made = 0;
    std::uint64_t puts = 0;
    std::uint64_t erasures = 0;
    std::uint64_t most = 0;  // records at the same time
    std::vector<Phase> phases;
  };
  ToyStore(Log& log, std::uint64_t lost_key) : log_(log), lost_key_(lost_key) { ++log_.made; }

  void enter(Phase phase) override { log_.phases.push_back(phase); }
  void put(std::uint64_t key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    ++log_.puts;
    if (key != lost_key_) records_[key] = value;
    log_.most = std::max<std::uint64_t>(log_.most, records_.size());
  }
  void erase(std::uint64_t key) override {
    const std::lock_guard lock(mutex_);
    ++log_.erasures;
    EXPECT_TRUE(records_.erase(key) == 1 || key == lost_key_);
  }
  std::string get(std::uint64_t key) override {
    const auto found = records_.find(key);
    return found == records_.end() ? std::string() : found->second;
  }

 private:
  Log& log_;
  std::uint64_t lost_key_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::string> records_;
};

constexpr std::uint64_t kNoKey = ~std::uint64_t{0};

ChurnOptions small() {
  ChurnOptions options;
  options.threads = 2;
  options.value_bytes = 16;
  options.live = 50;
  options.rules = {3, 0.0005};
  return options;
}

TEST(RaceUpdates, InsertsAndDeletesAtTheSameRateInAFreshStoreForEveryRun) {
  ToyStore::Log log;
  const auto results =
      race_updates({[&] { return std::make_unique<ToyStore>(log, kNoKey); }}, small());
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(log.made, 3u);
  EXPECT_EQ(log.puts - 3u * 2 * 50, log.erasures) << "all but the filling";
  EXPECT_LE(log.most, 2u * 51);
  const std::vector<Phase> once{Phase::kFill, Phase::kWarmUp, Phase::kMeasure};
  ASSERT_EQ(log.phases.size(), 9u);
  for (std::size_t i = 0; i < log.phases.size(); ++i) EXPECT_EQ(log.phases[i], once[i % 3]);
  EXPECT_GT(results[0].insert_us.median, 0);
  EXPECT_LE(results[0].updates_per_s.min, results[0].updates_per_s.max);
}

TEST(RaceUpdates, RefusesTheFiguresOfAStoreThatLosesARecord) {
  // One of the keys that the second thread fills in and never replaces may be any: take one that
  // stays unless it is deleted, and lose it always.
  ToyStore::Log log;
  int caught = 0;
  for (std::uint64_t key = 1; key <= 100; ++key) {
    try {
      race_updates({[&] { return std::make_unique<ToyStore>(log, key); }}, small());
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), Code::kCorrupt);
      ++caught;
    }
  }
  EXPECT_GT(caught, 50) << "half of the keys are live at the end of a run, and there are three";
}

TEST(RaceUpdates, IdlenessLowersTheThroughputNotTheLatency) {
  ToyStore::Log log;
  ChurnOptions options = small();
  options.threads = 1;
  options.rules = {5, 0.003};
  const auto make = [&] { return std::make_unique<ToyStore>(log, kNoKey); };
  const ChurnResult busy = race_updates({make}, options)[0];
  options.idle_part = 0.9;
  const ChurnResult idle = race_updates({make}, options)[0];
  EXPECT_LT(idle.updates_per_s.median, busy.updates_per_s.median / 2);
}

TEST(HashTable, HoldsWhatTheWorkloadPutsIntoIt) {
  StoreOptions options;
  options.dir = std::filesystem::temp_directory_path();
  options.pool = new_pool_options(options.memory);
  const auto results = race_updates({[&] { return make_hash_table(options); }}, [] {
    ChurnOptions churn = small();
    churn.rules.repetitions = 1;
    return churn;
  }());
  EXPECT_GT(results[0].insert_us.median, 0.3) << "two emulated latencies at least";
}

TEST(BerkeleyDb, OnADeviceWaitsForTheBlocksThatReachIt) {
  StoreOptions options;
  options.dir = std::filesystem::temp_directory_path();
  const PeerDisk disk = make_peer_disk(options.dir);
  if (disk.device == nullptr) GTEST_SKIP() << disk.said;
  options.device = disk.device.get();
  options.memory.latency_ns = 100'000;
  ChurnOptions churn = small();
  churn.rules.repetitions = 1;
  const auto results = race_updates({[&] { return peers().berkeley_db(options); }}, churn);
  EXPECT_GE(results[0].device_us, 2 * 100) << "one block at least, and one fence";
}

TEST(HashTable, WhatAnInsertTouchesGrowsWithItsValue) {
  StoreOptions options;
  options.dir = std::filesystem::temp_directory_path();
  options.pool = new_pool_options(options.memory);
  options.value_bytes = 64;
  const Touched small = touched_by_inserts(options, 100, 1);
  options.value_bytes = 1024;
  const Touched large = touched_by_inserts(options, 100, 1);
  EXPECT_GE(small.words, 8) << "the value itself";
  EXPECT_GE(small.lines, 2) << "not all in one";
  EXPECT_LE(small.lines, small.words);
  EXPECT_NEAR(large.words - small.words, (1024 - 64) / 8, 4);
  EXPECT_NEAR(large.lines - small.lines, (1024 - 64) / 64, 2);
}

}  // namespace
}  // namespace perdure::bench::reproduce
