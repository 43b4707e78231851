// SPDX-License-Identifier: BSD-3-Clause
#include "papers/softwrap/tables.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"
#include "perdure/container/hash_map.h"
#include "tests/modelled_words.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;

constexpr Geometry kWide = {std::uint64_t{16} << 20, std::uint64_t{128} << 10, 64 << 10, 20, 16};
constexpr std::size_t kWords = 4096;
using Words = std::array<std::uint64_t, kWords>;

/// A pool in memory whose tables are full after eight words.
class SoftwrapTest : public ::testing::TestWithParam<Truncation> {
 protected:
  Pool open(Image& image) {
    Pool pool = adopt_region(
                    image.region().value(), {[this](const EngineParts& parts) {
                      return std::make_unique<softwrap::Tables<Counted<Dram>>>(
                          parts, Counted<Dram>(counters_), softwrap::TableSizes{{256, 16, 64}, 32});
                    }},
                    12)
                    .value();
    pool.set_truncation(GetParam());
    return pool;
  }
  /// The state that a kill at this moment would leave.
  Pool after_kill() {
    pool_.set_truncation(Truncation::kWhenFull);  // nobody writes while the memory is copied
    killed_ = std::make_unique<Image>(image_);
    return open(*killed_);
  }
  DomainCounters counters_;
  Image image_ = Image::formatted(kWide);
  std::unique_ptr<Image> killed_;
  Pool pool_ = open(image_);
};
INSTANTIATE_TEST_SUITE_P(Retirement, SoftwrapTest,
                         ::testing::Values(Truncation::kBackground, Truncation::kWhenFull),
                         testing::truncation_case);

TEST_P(SoftwrapTest, TransactionsSeeAndKeepWhatManyTablesTookHome) {
  Words* words = pool_.root<Words>("words");
  testing::ModelledWords<kWords> model(1);
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    pool_.atomically([&](Tx& tx) { model.store(tx, *words, 1 + round % 9, round); });
    if (round % 1000 != 0) continue;
    Pool after = after_kill();
    pool_.set_truncation(GetParam());
    model.expect_same(*after.find_root<Words>("words"));
  }
}

TEST_P(SoftwrapTest, AnOldReaderKeepsItsStateAndHoldsNobodyUp) {
  Words* words = pool_.root<Words>("words");
  const std::uint64_t seen = pool_.read_only([&](Tx& tx) {
    const std::uint64_t first = tx.load((*words)[0]);
    // More than both tables, and than the log, take.
    std::thread([&] {
      for (std::uint64_t round = 1; round <= 4000; ++round) {
        pool_.atomically([&](Tx& other) {
          for (std::uint64_t i = 0; i < 8; ++i)
            other.store((*words)[8 + (round * 8 + i) % (kWords - 8)], round);
        });
      }
    }).join();
    return first + tx.load((*words)[1]);
  });
  EXPECT_EQ(seen, 0u);
  Pool after = after_kill();
  const Words* found = after.find_root<Words>("words");
  for (std::uint64_t round = 4000; round > 4000 - 500; --round) {
    for (std::uint64_t i = 0; i < 8; ++i)
      ASSERT_EQ((*found)[8 + (round * 8 + i) % (kWords - 8)], round);
  }
}

TEST_P(SoftwrapTest, WhatNoTableAndNoLogHasRoomForGoesHomeOverOlderWords) {
  Words* words = pool_.root<Words>("words");
  for (std::uint64_t round = 1; round <= 20; ++round) {
    // Some in tables, some in none; then more than a log takes, and what only the tables take.
    pool_.atomically([&](Tx& tx) { tx.store((*words)[round * 100], 1'000'000); });
    pool_.atomically([&](Tx& tx) {
      for (std::size_t i = 0; i < kWords; ++i) tx.store((*words)[i], round * kWords + i);
    });
    pool_.atomically([&](Tx& tx) {
      for (std::size_t i = 0; i < 300; ++i) tx.store((*words)[i], tx.load((*words)[i]) + 1);
    });
    pool_.atomically([&](Tx& tx) { tx.store((*words)[0], round); });
    Pool after = after_kill();
    pool_.set_truncation(GetParam());
    const Words* found = after.find_root<Words>("words");
    EXPECT_EQ((*found)[0], round);
    for (std::size_t i = 1; i < kWords; ++i)
      ASSERT_EQ((*found)[i], round * kWords + i + (i < 300 ? 1 : 0)) << i;
    pool_.read_only([&](Tx& tx) {
      for (std::size_t i = 1; i < kWords; ++i) ASSERT_EQ(tx.load((*words)[i]), (*found)[i]) << i;
    });
  }
}

TEST_P(SoftwrapTest, ThreadsMoveMoneyAndNoneIsLost) {
  Words* accounts = pool_.root<Words>("accounts");
  constexpr int kThreads = 4;
  constexpr std::size_t kAccounts = 64;
  const int rounds = testing::kSanitized ? 1000 : 10000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < rounds; ++i) {
        pool_.atomically([&](Tx& tx) {
          std::uint64_t& from = (*accounts)[random() % kAccounts * 8];
          std::uint64_t& to = (*accounts)[random() % kAccounts * 8];
          tx.store(from, tx.load(from) - 1);
          tx.store(to, tx.load(to) + 1);
        });
        if (i % 64 != 0) continue;
        const std::uint64_t sum = pool_.read_only([&](Tx& tx) {
          std::uint64_t all = 0;
          for (std::size_t account = 0; account < kAccounts; ++account)
            all += tx.load((*accounts)[account * 8]);
          return all;
        });
        ASSERT_EQ(sum, 0u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Pool after = after_kill();
  const Words* found = after.find_root<Words>("accounts");
  std::uint64_t sum = 0;
  for (std::size_t account = 0; account < kAccounts; ++account) sum += (*found)[account * 8];
  EXPECT_EQ(sum, 0u);
}

TEST_P(SoftwrapTest, ThreadsShareAMapWhoseNodesComeAndGo) {
  auto* map = pool_.root<hash_map<std::uint64_t, std::uint64_t>>("map");
  const std::uint64_t rounds = testing::kSanitized ? 300 : 3000;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < rounds; ++i) {
        const std::uint64_t key = t * 1000 + i % 200;
        pool_.atomically([&](Tx& tx) {
          if (i / 200 % 2 == 0) {
            map->put(tx, key, i);
          } else {
            map->erase(tx, key);
          }
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Pool after = after_kill();
  auto* found = after.find_root<hash_map<std::uint64_t, std::uint64_t>>("map");
  const auto entries = [](Pool& pool, auto* of) {
    return pool.read_only([&](Tx& tx) {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
      of->for_each(tx, [&](std::uint64_t key, std::uint64_t value) {
        all.emplace_back(key, value);
        return true;
      });
      std::sort(all.begin(), all.end());
      return all;
    });
  };
  EXPECT_EQ(entries(after, found), entries(pool_, map));
  after.read_only([&](Tx& tx) {
    const auto wrong =
        found->audit(tx, [&](Offset object) { core_of(after).heap().check_live(object); });
    EXPECT_FALSE(wrong) << *wrong;
  });
}

TEST(Softwrap, ACommitWaitsOnceAndAWordGoesHomeOnceForManyCommits) {
  DomainCounters counters;
  Image image = Image::formatted(kWide);
  Pool pool = adopt_region(image.region().value(),
                           papers::on_dram(EngineKind::kSoftwrapTables, &counters), 12)
                  .value();
  pool.set_truncation(Truncation::kWhenFull);
  Words* words = pool.root<Words>("words");
  const auto before = counters.total();
  constexpr std::uint64_t kCommits = 500;
  for (std::uint64_t i = 0; i < kCommits; ++i)
    pool.atomically([&](Tx& tx) { tx.store((*words)[i % 4 * 64], i); });
  const auto commits = counters.total() - before;
  EXPECT_EQ(commits.fences, kCommits);
  const auto middle = counters.total();
  pool.checkpoint();
  const auto home = counters.total() - middle;
  EXPECT_LT(home.flushes, 60u) << "four words, and those of the root's making";
}

// A log's head is made by a transaction, and stored past them from then on: the table still has what it was.
TEST_P(SoftwrapTest, WhatIsStoredPastTheTransactionsIsFoundAndStays) {
  const auto records = [](Pool& of) {
    std::vector<std::uint64_t> found;
    Log::open_or_create(of, "log", kPageBytes)
        .value()
        .for_each([&](std::span<const std::byte> bytes) {
          std::memcpy(&found.emplace_back(), bytes.data(), sizeof(std::uint64_t));
        });
    return found;
  };
  Words* words = pool_.root<Words>("words");
  Log log = Log::open_or_create(pool_, "log", kPageBytes).value();
  for (const std::uint64_t record : {1, 2}) {
    ASSERT_TRUE(log.append(&record, sizeof(record)));
    log.flush();
    if (record == 1) log.truncate();
  }
  EXPECT_EQ(records(pool_), std::vector<std::uint64_t>{2});
  for (std::uint64_t step = 1; step <= 1000; ++step)  // tables come home
    pool_.atomically([&](Tx& tx) { tx.store((*words)[step], step); });
  EXPECT_EQ(records(pool_), std::vector<std::uint64_t>{2});
  Pool after = after_kill();
  EXPECT_EQ(records(after), std::vector<std::uint64_t>{2});
}

TEST(Softwrap, OptionsThatItCannotHonourAreRefusedWithWhatItCan) {
  const testing::TempDir directory;
  const std::string path = directory / "softwrap.pool";
  papers::LabOptions options;
  options.domain = DomainKind::kDram;
  options.capacity_bytes = std::uint64_t{64} << 20;
  options.engine = EngineKind::kSoftwrapTables;
  options.truncation = Truncation::kEachCommit;
  EXPECT_NE(papers::create(path, options).error().message.find("background or when-full"),
            std::string::npos);
  options.truncation = Truncation::kAuto;
  options.tables.limits.words = 100;
  EXPECT_NE(papers::create(path, options).error().message.find("power of two"), std::string::npos);
  options.tables.limits.words = 1024;
  options.tables.threshold = 1;
  EXPECT_NE(papers::create(path, options).error().message.find("threshold is 1"),
            std::string::npos);
  options.tables.threshold = 8;
  EXPECT_FALSE(std::filesystem::exists(path));
  papers::LabPool pool = papers::create(path, options).value();
  EXPECT_THROW(pool.set_truncation(Truncation::kNextCommit), Exception);
}

}  // namespace
}  // namespace perdure
