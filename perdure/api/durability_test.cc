// SPDX-License-Identifier: BSD-3-Clause
// Relaxed commits: they wait for nothing, and what a power cut leaves is what was committed up to
// some moment.
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/domain/sync.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::Image;
using testing::kSanitized;
using testing::TempDir;

constexpr Geometry kTinyLogs = {std::uint64_t{1} << 20, std::uint64_t{128} << 10, 2 * kPageBytes, 8,
                                4};

/// A disk behind a cache: what is written may be on the platter, in parts, what is synced is.
struct Disk {
  explicit Disk(const Image& image) : platter(image) {}
  std::mutex mutex;
  Image platter;
  std::vector<std::pair<Offset, std::vector<std::byte>>> cache;
  unsigned syncs = 0;
  bool fails = false;
  /// Called when a sync has begun, and when it is done.
  std::function<void()> watch = [] {};

  void arrive(std::size_t index) {
    const auto& [offset, bytes] = cache[index];
    std::memcpy(platter.base() + offset, bytes.data(), bytes.size());
  }
};

struct DiskDevice {
  Disk* disk;
  bool write(Offset offset, const void* data, std::size_t bytes) {
    const std::lock_guard lock(disk->mutex);
    const auto* from = static_cast<const std::byte*>(data);
    for (std::size_t at = 0; at < bytes; at += kSectorBytes)
      disk->cache.push_back({offset + at, {from + at, from + at + kSectorBytes}});
    return true;
  }
  bool write_durable(Offset offset, const void* data, std::size_t bytes) {
    return write(offset, data, bytes) && sync();
  }
  bool sync() {
    const std::lock_guard lock(disk->mutex);
    if (disk->fails) return false;
    disk->watch();
    for (std::size_t i = 0; i < disk->cache.size(); ++i) disk->arrive(i);
    disk->cache.clear();
    ++disk->syncs;
    disk->watch();
    return true;
  }
};

/// A pool whose memory is the private mapping of a file on `disk`.
class PoolOnDisk {
 public:
  explicit PoolOnDisk(Disk& disk, std::chrono::nanoseconds relaxed_delay = {})
      : memory_(disk.platter), group_(DiskDevice{&disk}, memory_.base()) {
    pool_.emplace(adopt_region(memory_.region(DomainKind::kSync).value(), {[&](EngineParts parts) {
                                 parts.tuning.relaxed_delay = relaxed_delay;
                                 return std::make_unique<Redo<Sync<DiskDevice>>>(
                                     parts, Sync<DiskDevice>(group_));
                               }},
                               10)
                      .value());
  }
  Pool& operator*() { return *pool_; }
  Pool* operator->() { return &*pool_; }
  Offset offset_of(const void* object) {
    return static_cast<Offset>(static_cast<const std::byte*>(object) - memory_.base());
  }

 private:
  Image memory_;
  SyncGroup<DiskDevice> group_;
  std::optional<Pool> pool_;
};

/// A number, and the last ones that it was, over two pages.
struct History {
  std::uint64_t last;
  std::array<std::uint64_t, 800> past;
};

std::uint64_t advance(Pool& pool, Durability durability) {
  auto* history = pool.root<History>("history");
  return pool.atomically(durability, [&](Tx& tx) {
    const std::uint64_t next = tx.load(history->last) + 1;
    tx.store(history->last, next);
    tx.store(history->past[next % history->past.size()], next);
    return next;
  });
}

/// What a power cut would leave now.
std::uint64_t surviving(const Image& platter) {
  Image copy = platter;
  Pool pool = copy.pool().value();
  const auto* history = pool.find_root<History>("history");
  if (history == nullptr) return 0;
  for (std::uint64_t i = 0; i < history->past.size() && i < history->last; ++i) {
    const std::uint64_t number = history->last - i;
    EXPECT_EQ(history->past[number % history->past.size()], number) << "of " << history->last;
  }
  return history->last;
}

TEST(Durability, RelaxedCommitsWaitForNothingUntilSomebodyAsks) {
  Disk disk(Image::formatted(kTinyLogs));
  PoolOnDisk pool(disk);
  EXPECT_EQ(advance(*pool, Durability::kStrict), 1u);
  const unsigned before = disk.syncs;
  EXPECT_EQ(advance(*pool, Durability::kRelaxed), 2u);
  EXPECT_EQ(advance(*pool, Durability::kRelaxed), 3u);
  EXPECT_EQ(disk.syncs, before);
  EXPECT_EQ(surviving(disk.platter), 1u);
  pool->sync();
  EXPECT_EQ(disk.syncs, before + 1);
  EXPECT_EQ(surviving(disk.platter), 3u);
  pool->sync();
  EXPECT_EQ(disk.syncs, before + 1) << "there was nothing to wait for";

  advance(*pool, Durability::kRelaxed);
  advance(*pool, Durability::kStrict);
  EXPECT_EQ(disk.syncs, before + 2) << "both in one write";
  EXPECT_EQ(surviving(disk.platter), 5u);
}

TEST(Durability, AStrictCommitOfAnotherThreadMakesThemDurableToo) {
  Disk disk(Image::formatted(kTinyLogs));
  PoolOnDisk pool(disk);
  for (int i = 0; i < 300; ++i) advance(*pool, Durability::kRelaxed);
  std::thread([&] { advance(*pool, Durability::kStrict); }).join();
  EXPECT_EQ(surviving(disk.platter), 301u);
}

TEST(Durability, TheyBecomeDurableByThemselvesInTime) {
  Disk disk(Image::formatted(kTinyLogs));
  PoolOnDisk pool(disk, std::chrono::milliseconds(1));
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const std::uint64_t last = advance(*pool, Durability::kRelaxed);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::uint64_t found = 0;
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(disk.mutex);
      found = surviving(disk.platter);
    } while (found < last && std::chrono::steady_clock::now() < deadline);
    ASSERT_EQ(found, last);
  }
}

TEST(Durability, ClosingMakesThemDurable) {
  Disk disk(Image::formatted(kTinyLogs));
  {
    PoolOnDisk pool(disk);
    for (int i = 0; i < 5; ++i) advance(*pool, Durability::kRelaxed);
  }
  EXPECT_EQ(surviving(disk.platter), 5u);
}

TEST(Durability, TheOutermostTransactionDecides) {
  Disk disk(Image::formatted(kTinyLogs));
  PoolOnDisk pool(disk);
  advance(*pool, Durability::kStrict);
  const unsigned before = disk.syncs;
  pool->atomically(Durability::kRelaxed, [&](Tx&) { advance(*pool, Durability::kStrict); });
  EXPECT_EQ(disk.syncs, before);
  pool->atomically([&](Tx&) { advance(*pool, Durability::kRelaxed); });
  EXPECT_EQ(disk.syncs, before + 1);
}

TEST(Durability, AFailedSyncIsToldAndNothingMoreIsAccepted) {
  Disk disk(Image::formatted(kTinyLogs));
  PoolOnDisk pool(disk);
  advance(*pool, Durability::kStrict);
  advance(*pool, Durability::kRelaxed);
  disk.fails = true;
  EXPECT_EQ(code_thrown_by([&] { pool->sync(); }), "poisoned");
  disk.fails = false;
  EXPECT_EQ(code_thrown_by([&] { advance(*pool, Durability::kRelaxed); }), "poisoned");
  EXPECT_EQ(code_thrown_by([&] { pool->sync(); }), "poisoned");
  EXPECT_EQ(surviving(disk.platter), 1u);
}

TEST(Durability, AFailedSyncInTheBackgroundPoisonsToo) {
  Disk disk(Image::formatted(kTinyLogs));
  PoolOnDisk pool(disk, std::chrono::milliseconds(1));
  advance(*pool, Durability::kStrict);
  {
    const std::lock_guard lock(disk.mutex);
    disk.fails = true;
  }
  std::string code = "nothing";
  for (int i = 0; i < 10'000 && code == "nothing"; ++i) {
    code = code_thrown_by([&] { advance(*pool, Durability::kRelaxed); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(code, "poisoned");
}

/// Threads that build on one another's commits, most of which wait for nothing, over logs that are
/// emptied all the time; the power may fail whenever something reaches the disk, with any part of
/// what was under way.
TEST(Durability, WhateverTheThreadsDoACrashLeavesTheFirstSoMany) {
  for (const Truncation truncation : {Truncation::kWhenFull, Truncation::kBackground,
                                      Truncation::kNextCommit, Truncation::kEachCommit}) {
    Disk disk(Image::formatted(kTinyLogs));
    std::atomic<std::uint64_t> promised{0};
    std::mt19937_64 random(7);
    struct CrashPoint {
      Image platter;
      std::uint64_t promised;
    };
    std::vector<CrashPoint> crash_points;
    PoolOnDisk pool(disk);
    pool->set_truncation(truncation);
    const auto take_image = [&] {
      if (crash_points.size() == (kSanitized ? 30 : 100) || random() % (kSanitized ? 2 : 8) != 0)
        return;
      const std::uint64_t before = promised.load();
      Image image = disk.platter;
      for (const auto& [offset, bytes] : disk.cache) {
        if (random() % 2 == 0) std::memcpy(image.base() + offset, bytes.data(), bytes.size());
      }
      crash_points.push_back({image, before});
    };
    const auto watch = [&](std::function<void()> act) {
      const std::lock_guard lock(disk.mutex);
      disk.watch = std::move(act);
    };
    watch(take_image);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (unsigned i = 0; i < (kSanitized ? 300u : 2000u); ++i) {
          const bool strict = (i + t) % 9 == 0;
          const std::uint64_t number =
              advance(*pool, strict ? Durability::kStrict : Durability::kRelaxed);
          if (!strict) continue;
          std::uint64_t known = promised.load();
          while (known < number && !promised.compare_exchange_weak(known, number)) {
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    watch([] {});
    EXPECT_FALSE(crash_points.empty());
    for (const CrashPoint& one : crash_points) ASSERT_GE(surviving(one.platter), one.promised);
  }
}

/// Home words that are posted reach the disk in one batch with records, and before some of them.
TEST(Durability, NoHomeWordsArePostedWhenTheModeHasChanged) {
  Disk disk(Image::formatted(kTinyLogs));
  PoolOnDisk pool(disk);
  const Offset last = pool.offset_of(&pool->root<History>("history")->last);
  const auto on_platter = [&] {
    return *reinterpret_cast<const std::uint64_t*>(disk.platter.base() + last);
  };
  pool->set_truncation(Truncation::kNextCommit);
  advance(*pool, Durability::kStrict);  // leaves home words to the next commit
  pool->set_truncation(Truncation::kWhenFull);
  EXPECT_EQ(on_platter(), 1u);
  for (int i = 0; i < 3; ++i) advance(*pool, Durability::kRelaxed);
  pool->sync();
  EXPECT_EQ(on_platter(), 1u);
  EXPECT_EQ(surviving(disk.platter), 4u);
}

TEST(Durability, OnMemoryEveryCommitIsStrict) {
  const TempDir directory;
  papers::LabOptions options;
  options.domain = DomainKind::kAdr;
  options.count = true;
  papers::LabPool pool = papers::create(directory / "memory.pool", options).value();
  advance(pool, Durability::kStrict);
  const std::uint64_t before = pool.counts().fences;
  advance(pool, Durability::kRelaxed);
  EXPECT_EQ(pool.counts().fences, before + 1);
  pool.sync();
}

TEST(Durability, OnAFileOneWriteMakesAHundredCommitsDurable) {
  const TempDir directory;
  papers::LabOptions options;
  options.domain = DomainKind::kSync;
  options.count = true;
  options.relaxed_delay = std::chrono::milliseconds(0);
  const std::string path = directory / "file.pool";
  {
    papers::LabPool pool = papers::create(path, options).value();
    advance(pool, Durability::kStrict);
    const std::uint64_t before = pool.counts().fences;
    for (int i = 0; i < 100; ++i) advance(pool, Durability::kRelaxed);
    EXPECT_EQ(pool.counts().fences, before);
    std::filesystem::copy_file(path, path + ".before");
    pool.sync();
    EXPECT_EQ(pool.counts().fences, before + 1);
    std::filesystem::copy_file(path, path + ".after");
  }
  const auto last = [](const std::string& of) {
    Pool pool = Pool::inspect(of).value();
    return pool.find_root<History>("history")->last;
  };
  EXPECT_EQ(last(path + ".before"), 1u);
  EXPECT_EQ(last(path + ".after"), 101u);
}

}  // namespace
}  // namespace perdure
