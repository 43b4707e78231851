// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"
#include "perdure/container/hash_map.h"
#include "perdure/wraps.h"
#include "tests/modelled_words.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;
using testing::kSanitized;

constexpr Geometry kWide = {std::uint64_t{16} << 20, std::uint64_t{128} << 10, 64 << 10, 20, 16};
constexpr std::size_t kWords = 32768;  // 64 pages
constexpr std::uint64_t kMost = 16;    // pages
using Words = std::array<std::uint64_t, kWords>;

/// A pool in memory of which few pages may be private.
class SoftwrapPages : public ::testing::TestWithParam<Truncation> {
 protected:
  SoftwrapPages() { pool_.set_truncation(GetParam()); }
  /// The state that a kill at this moment would leave.
  Pool after_kill() {
    pool_.set_truncation(Truncation::kWhenFull);  // nobody writes while the memory is copied
    killed_ = std::make_unique<Image>(image_);
    pool_.set_truncation(GetParam());
    return killed_->pool(EngineKind::kSoftwrap, 12).value();
  }
  /// The word as it is at home.
  std::uint64_t home_of(const std::uint64_t& word) {
    const std::ptrdiff_t at =
        reinterpret_cast<const std::byte*>(&word) - core_of(pool_).region().base();
    return image_.word(static_cast<Offset>(at));
  }
  DomainCounters counters_;
  Image image_ = Image::formatted(kWide);
  std::unique_ptr<Image> killed_;
  Pool pool_ = image_.paged_pool(Counted<Dram>(counters_), 12, kMost).value();
};
INSTANTIATE_TEST_SUITE_P(Retirement, SoftwrapPages,
                         ::testing::Values(Truncation::kBackground, Truncation::kWhenFull),
                         testing::truncation_case);

TEST_P(SoftwrapPages, TransactionsSeeAndKeepWhatWentHomeAndCameBack) {
  Words* words = pool_.root<Words>("words");
  pool_.checkpoint();
  testing::ModelledWords<kWords> model(1);
  std::uint64_t most_seen = 0;
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    pool_.atomically([&](Tx& tx) { model.store(tx, *words, 1 + round % 9, round); });
    most_seen = std::max(most_seen, image_.private_pages().count());
    if (round % 1000 != 0) continue;
    Pool after = after_kill();
    model.expect_same(*after.find_root<Words>("words"));
  }
  EXPECT_GT(most_seen, kMost / 4);
  // A commit that finds too many waits, but its own, and those stored to meanwhile, come on top.
  EXPECT_LE(most_seen, 2 * kMost + 9);
  pool_.checkpoint();
  model.expect_same(*words, [&](const std::uint64_t& word) { return home_of(word); });
}

TEST_P(SoftwrapPages, WhatAnOpenWrapStoredStaysAndDoesNotGoHome) {
  Words* words = pool_.root<Words>("words");
  pool_.checkpoint();
  Wraps wraps(pool_);
  wraps.open();
  for (std::size_t i = 0; i < kWords; i += 1024) wraps.store((*words)[i], 7);
  // Another thread commits to the same pages, and to others, again and again.
  std::thread([&] {
    for (std::uint64_t round = 1; round <= 200; ++round) {
      pool_.atomically([&](Tx& tx) {
        for (std::size_t i = 1; i < kWords; i += 512) tx.store((*words)[i], round);
      });
    }
    pool_.checkpoint();
  }).join();
  EXPECT_LE(image_.private_pages().count(), kWords / 1024 + 2 * kMost);
  for (std::size_t i = 0; i < kWords; i += 1024) {
    ASSERT_EQ(wraps.load((*words)[i]), 7u);
    ASSERT_EQ(home_of((*words)[i]), 0u) << "not committed";
    ASSERT_EQ(home_of((*words)[i + 1]), 200u) << "committed, in the same line";
  }
  wraps.close();
  pool_.checkpoint();
  for (std::size_t i = 0; i < kWords; i += 1024) ASSERT_EQ(home_of((*words)[i]), 7u);
  EXPECT_LE(image_.private_pages().count(), 2 * kMost);
}

TEST_P(SoftwrapPages, ThreadsFindWhatTheyStoredWhilePagesComeAndGo) {
  Words* words = pool_.root<Words>("words");
  constexpr std::size_t kThreads = 3;
  const std::uint64_t rounds = kSanitized ? 1000 : 6000;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (std::uint64_t i = 0; i < rounds; ++i) {
        const std::size_t page = random() % (kWords / 512) * 512;
        pool_.atomically([&](Tx& tx) {
          // A word of its own, and one of all.
          tx.store((*words)[page + t], tx.load((*words)[page + t]) + 1);
          tx.store((*words)[page + 8], tx.load((*words)[page + 8]) + 1);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto expect_sums = [&](auto load) {
    std::uint64_t own = 0;
    std::uint64_t shared = 0;
    for (std::size_t page = 0; page < kWords; page += 512) {
      for (std::size_t t = 0; t < kThreads; ++t) own += load((*words)[page + t]);
      shared += load((*words)[page + 8]);
    }
    EXPECT_EQ(own, kThreads * rounds);
    EXPECT_EQ(shared, kThreads * rounds);
  };
  expect_sums([](const std::uint64_t& word) { return load_word(&word); });
  pool_.checkpoint();
  expect_sums([&](const std::uint64_t& word) { return home_of(word); });
  Pool after = after_kill();
  words = after.find_root<Words>("words");
  expect_sums([](const std::uint64_t& word) { return load_word(&word); });
}

TEST_P(SoftwrapPages, ALogOfTheApplicationKeepsItsOwnProtocol) {
  Words* words = pool_.root<Words>("words");
  const std::string entry(100, 'x');
  // Its space has been an object's, in pages that are private by now.
  pool_.atomically([&](Tx& tx) {
    auto* object = static_cast<std::uint64_t*>(tx.allocate(64 << 10));
    for (std::size_t i = 0; i < (64 << 10) / kWordBytes; ++i) tx.store(object[i], i + 1);
    tx.store((*words)[0], tx.link_to(object).offset);
  });
  pool_.atomically([&](Tx& tx) { tx.free(tx.at(pptr<void>{tx.load((*words)[0])})); });
  Log log = Log::open_or_create(pool_, "events", 64 << 10).value();
  for (std::uint64_t round = 1; round <= 400; ++round) {
    ASSERT_TRUE(log.append(entry.data(), entry.size()));
    pool_.atomically([&](Tx& tx) {
      for (std::size_t i = 0; i < 8; ++i) tx.store((*words)[(round * 8 + i) * 64 % kWords], round);
    });
    log.flush();
  }
  const auto entries_of = [&](const Log& of) {
    std::size_t entries = 0;
    of.for_each([&](std::span<const std::byte> bytes) {
      EXPECT_EQ(bytes.size(), entry.size());
      ++entries;
    });
    return entries;
  };
  EXPECT_EQ(entries_of(log), 400u);
  Pool after = after_kill();
  EXPECT_EQ(entries_of(Log::open_or_create(after, "events", 64 << 10).value()), 400u);
}

/// One fence for each commit; each line goes home once for all that wrote it.
TEST(SoftwrapPagesCost, ACommitWaitsOnce) {
  DomainCounters counters;
  Image image = Image::formatted(kWide);
  Pool pool = image.paged_pool(Counted<Dram>(counters), 12, 64).value();
  pool.set_truncation(Truncation::kWhenFull);
  Words* words = pool.root<Words>("words");
  pool.checkpoint();
  const auto before = counters.total();
  constexpr std::uint64_t kCommits = 500;
  for (std::uint64_t i = 0; i < kCommits; ++i)
    pool.atomically([&](Tx& tx) { tx.store((*words)[i % 4 * 64], i); });
  const auto commits = counters.total() - before;
  EXPECT_EQ(commits.fences, kCommits);
  EXPECT_EQ(commits.stores, 0u) << "nothing goes home";
  const auto middle = counters.total();
  pool.checkpoint();
  const auto home = counters.total() - middle;
  EXPECT_LT(home.flushes, 12u) << "four lines, a timestamp, a head";
}

/// Wraps of two threads that store bytes of the same words, some of which are aborted.
TEST_P(SoftwrapPages, WrapsTakeBackTheirOwnBytesOnly) {
  using Bytes = std::array<std::uint8_t, 4096>;
  Bytes* bytes = pool_.root<Bytes>("bytes");
  Wraps wraps(pool_);
  std::vector<std::thread> threads;
  std::array<std::vector<std::uint8_t>, 2> models;
  for (std::size_t t = 0; t < 2; ++t) {
    models[t].assign(sizeof(Bytes), 0);
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t + 7);
      for (int round = 0; round < (kSanitized ? 300 : 2000); ++round) {
        const bool aborted = random() % 3 == 0;
        wraps.open();
        std::vector<std::uint8_t> mine = models[t];
        for (int i = 0; i < 20; ++i) {
          const std::size_t at = random() % (sizeof(Bytes) / 2) * 2 + t;
          mine[at] = static_cast<std::uint8_t>(random());
          wraps.store((*bytes)[at], mine[at]);
        }
        if (aborted) {
          wraps.abort();
          EXPECT_EQ(testing::code_thrown_by([&] { wraps.close(); }), "aborted");
        } else {
          wraps.close();
          models[t] = mine;
        }
        const std::size_t at = random() % (sizeof(Bytes) / 2) * 2 + t;
        ASSERT_EQ(wraps.load((*bytes)[at]), models[t][at]) << at;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Pool after = after_kill();
  const Bytes* found = after.find_root<Bytes>("bytes");
  for (std::size_t i = 0; i < sizeof(Bytes); ++i) ASSERT_EQ((*found)[i], models[i % 2][i]) << i;
}

/// Space whose pages are private, and stay so, becomes a log of the application: both mappings have
/// what it says.
TEST(SoftwrapPagesOfALog, ShowWhatItWroteThrough) {
  Image image = Image::formatted(kWide);
  Pool pool = image.paged_pool(Dram{}, 12, 4096).value();
  constexpr std::size_t kBytes = 64 << 10;
  auto* root = pool.root<pptr<std::uint64_t>>("object");
  pool.atomically([&](Tx& tx) {
    auto* object = static_cast<std::uint64_t*>(tx.allocate(kBytes));
    for (std::size_t i = 0; i < kBytes / kWordBytes; ++i) tx.store(object[i], i + 1);
    tx.store(*root, tx.link_to(object));
  });
  pool.atomically([&](Tx& tx) { tx.free(tx.at(tx.load(*root))); });
  Log log = Log::open_or_create(pool, "events", kBytes).value();
  const std::string entry(100, 'x');
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(log.append(entry.data(), entry.size()));
  log.flush();
  int entries = 0;
  log.for_each([&](std::span<const std::byte> bytes) {
    EXPECT_EQ(std::memcmp(bytes.data(), entry.data(), entry.size()), 0);
    ++entries;
  });
  EXPECT_EQ(entries, 50);
}

/// Nobody asks for it: the thread that retires starts when there is something to do.
TEST(SoftwrapPagesInTheBackground, GoHomeBeforeALogIsFull) {
  const testing::TempDir directory;
  papers::LabOptions options;
  options.domain = DomainKind::kDram;
  options.engine = EngineKind::kSoftwrap;
  options.capacity_bytes = std::uint64_t{64} << 20;
  options.ring_bytes = 64 << 10;
  options.count = true;
  papers::LabPool pool = papers::create(directory / "pages.pool", options).value();
  Words* words = pool.root<Words>("words");
  pool.checkpoint();
  const std::uint64_t before = pool.counts().stores;
  for (std::size_t i = 0; i < 1600; ++i)  // of 4 or 5 words of log each, which has 8192
    pool.atomically([&](Tx& tx) { tx.store((*words)[i], i); });
  for (int waits = 0; pool.counts().stores < before + 1600 && waits < 1000; ++waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GE(pool.counts().stores, before + 1600);
}

/// On a file the pages that are given back show what the device has, whatever the engine.
class PagesOnFiles : public ::testing::TestWithParam<EngineKind> {
 protected:
  PagesOnFiles() {
    options_.domain = DomainKind::kSync;
    options_.engine = GetParam();
    options_.capacity_bytes = std::uint64_t{64} << 20;
    options_.ring_bytes = 256 << 10;
    options_.private_bytes = kMost * kPageBytes;
  }
  /// Of this process, not in the page cache.
  static std::uint64_t private_bytes_of(const void* begin, std::size_t bytes) {
    std::ifstream maps("/proc/self/smaps");
    const auto from = reinterpret_cast<std::uintptr_t>(begin);
    bool inside = false;
    std::uint64_t sum = 0;
    for (std::string line; std::getline(maps, line);) {
      std::uintptr_t low = 0;
      std::uintptr_t high = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx ", &low, &high) == 2)
        inside = low < from + bytes && from < high;
      std::uint64_t kib = 0;
      if (inside && std::sscanf(line.c_str(), "Anonymous: %lu kB", &kib) == 1) sum += kib << 10;
    }
    return sum;
  }
  testing::TempDir directory_;
  papers::LabOptions options_;
};
INSTANTIATE_TEST_SUITE_P(Engines, PagesOnFiles,
                         ::testing::Values(EngineKind::kMnemosyne, EngineKind::kBlurred,
                                           EngineKind::kAdaptive, EngineKind::kSoftwrap),
                         [](const auto& of) { return testing::name_of(of.param); });

TEST_P(PagesOnFiles, ArePartOfMemoryOnlyAsLongAsTheyMust) {
  testing::ModelledWords<kWords> model(5);
  const std::string path = directory_ / "pages.pool";
  {
    papers::LabPool pool = papers::create(path, options_).value();
    Words* words = pool.root<Words>("words");
    for (std::uint64_t round = 1; round <= 600; ++round) {
      pool.atomically(round % 50 == 0 ? Durability::kStrict : Durability::kRelaxed, [&](Tx& tx) {
        // Now and then more than a log takes.
        model.store(tx, *words, round % 200 == 0 ? 20'000 : 5, round);
      });
    }
    model.expect_same(*words);
    pool.checkpoint();
    for (int i = 0; i < 3;
         ++i) {  // what was stored to lately goes when it was not stored to for a while
      pool.atomically([&](Tx& tx) { tx.store((*words)[0], model[0]); });
      pool.checkpoint();
    }
    const std::uint64_t left = private_bytes_of(words, sizeof(Words));
    if (!kSanitized) {
      // Of 64 pages; those of the log, which are not in the heap, stay.
      EXPECT_LE(left, options_.ring_bytes + 2 * options_.private_bytes);
    }
  }
  papers::LabPool pool = papers::open(path, options_).value();
  model.expect_same(*pool.find_root<Words>("words"));
}

TEST(SoftwrapPagesOptions, AreRefusedWithWhatTheyMayBe) {
  const testing::TempDir directory;
  const std::string path = directory / "softwrap.pool";
  papers::LabOptions options;
  options.domain = DomainKind::kDram;
  options.capacity_bytes = std::uint64_t{64} << 20;
  options.engine = EngineKind::kSoftwrap;
  options.private_bytes = 4096;
  EXPECT_NE(papers::create(path, options).error().message.find("at least 65536"),
            std::string::npos);
  options.private_bytes = 1 << 20;
  options.truncation = Truncation::kEachCommit;
  EXPECT_NE(papers::create(path, options).error().message.find("background or when-full"),
            std::string::npos);
  options.truncation = Truncation::kAuto;
  papers::LabPool pool = papers::create(path, options).value();
  EXPECT_EQ(core_of(pool).engine().truncation(), Truncation::kBackground);
  EXPECT_THROW(pool.set_truncation(Truncation::kNextCommit), Exception);
  EXPECT_THROW(pool.set_truncation(Truncation::kEachCommit), Exception);
}

}  // namespace
}  // namespace perdure
