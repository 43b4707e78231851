// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/raise_limits.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/container/hash_map.h"
#include "perdure/pool.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using Map = hash_map<std::uint64_t, std::uint64_t>;

class RaiseLimits : public ::testing::TestWithParam<DomainKind> {
 protected:
  ExpertOptions options(std::uint64_t capacity, std::uint32_t slots, std::uint32_t roots) const {
    ExpertOptions options;
    options.domain = GetParam();
    options.capacity_bytes = capacity;
    options.segment_bytes = kMinSegmentBytes;
    options.ring_bytes = 16 << 10;
    options.log_slots = slots;
    options.root_entries = roots;
    return options;
  }
  ExpertOptions raised(std::uint64_t capacity, std::uint32_t slots, std::uint32_t roots) const {
    ExpertOptions raised = options(capacity, slots, roots);
    raised.raise_limits = true;
    return raised;
  }
  static void fill(Pool& pool, std::uint64_t from, std::uint64_t to) {
    Map* map = pool.root<Map>("map");
    for (std::uint64_t i = from; i < to; ++i)
      pool.atomically(Durability::kRelaxed, [&](Tx& tx) { map->put(tx, i, 3 * i); });
    pool.sync();
  }
  static std::uint64_t correct(Pool& pool, std::uint64_t count) {
    const Map* map = pool.root<Map>("map");
    return pool.read_only([&](Tx& tx) {
      std::uint64_t correct = 0;
      for (std::uint64_t i = 0; i < count; ++i) correct += map->get(tx, i) == 3 * i ? 1 : 0;
      return correct;
    });
  }

  testing::TempDir directory;
  const std::string path = directory / "a.pool";
};

TEST_P(RaiseLimits, AFullPoolTakesMore) {
  std::uint64_t entries = 0;
  {
    Pool pool = Pool::create(path, options(2 << 20, 4, 4)).value();
    try {
      for (;; entries += 100) fill(pool, entries, entries + 100);
    } catch (const Exception& full) {
      EXPECT_EQ(full.code(), Code::kNoSpace);
      EXPECT_NE(std::string(full.what()).find("perdure grow"), std::string::npos) << full.what();
    }
  }
  Pool pool = Pool::open(path, raised(200 << 20, 4, 4)).value();
  EXPECT_EQ(correct(pool, entries), entries);
  const std::uint64_t more = (testing::kSanitized ? 2 : 10) * entries;
  fill(pool, entries, more);
  EXPECT_EQ(correct(pool, more), more);
  EXPECT_EQ(pool.usage().capacity_bytes, std::uint64_t{200} << 20);
}

TEST_P(RaiseLimits, MoreRootsAndMoreThreads) {
  std::uint64_t* first = nullptr;
  Offset at = 0;
  {
    Pool pool = Pool::create(path, options(16 << 20, 2, 3)).value();
    first = pool.root<std::uint64_t>("first");
    at = static_cast<Offset>(reinterpret_cast<std::byte*>(first) - core_of(pool).region().base());
    pool.atomically([&](Tx& tx) { tx.store(*first, 7); });
    pool.root<std::uint64_t>("second");
    pool.root<std::uint64_t>("third");
    EXPECT_EQ(testing::code_thrown_by([&] { pool.root<std::uint64_t>("fourth"); }), "no-space");
  }
  for (int time = 0; time < 2; ++time) {  // the second time there is nothing to raise
    Pool pool = Pool::open(path, raised(16 << 20, 100, 300)).value();
    EXPECT_EQ(core_of(pool).logs().slot_count(), 100u);
    first = pool.find_root<std::uint64_t>("first");
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(*first, 7u);
    EXPECT_EQ(
        static_cast<Offset>(reinterpret_cast<std::byte*>(first) - core_of(pool).region().base()),
        at)
        << "objects stay where they are";
    for (int i = 0; i < 297; ++i) pool.root<std::uint64_t>("root " + std::to_string(i));
    std::vector<std::thread> threads;
    for (int t = 0; t < 40; ++t) {
      threads.emplace_back([&, t] {
        auto* mine = pool.find_root<std::uint64_t>("root " + std::to_string(t));
        for (int i = 0; i < 20; ++i)
          pool.atomically([&](Tx& tx) { tx.store(*mine, tx.load(*mine) + 1); });
      });
    }
    for (auto& thread : threads) thread.join();
    for (int t = 0; t < 40; ++t)
      EXPECT_EQ(*pool.find_root<std::uint64_t>("root " + std::to_string(t)), 20u * (time + 1));
  }
}

TEST_P(RaiseLimits, AgainAndAgain) {
  Pool::create(path, options(4 << 20, 2, 4)).value();
  for (std::uint32_t times = 1; times <= 5; ++times) {
    Pool pool =
        Pool::open(path, raised(std::uint64_t{times * 100} << 20, 64 * times, 64 * times + 4))
            .value();
    EXPECT_EQ(core_of(pool).region().superblock().generation, times);
    fill(pool, 1000 * (times - 1), 1000 * times);
    EXPECT_EQ(correct(pool, 1000 * times), 1000 * times);
  }
  Pool plain = Pool::open(path).value();
  EXPECT_EQ(correct(plain, 5000), 5000u) << "and without asking for anything";
}

TEST_P(RaiseLimits, WhatAKilledProcessLeftInTheLogsIsThere) {
  Pool::create(path, options(8 << 20, 4, 4)).value();
  ASSERT_EQ(testing::in_child([&] {
              ExpertOptions with = options(8 << 20, 4, 4);
              with.truncation = Truncation::kWhenFull;
              Pool pool = Pool::open(path, with).value();
              fill(pool, 0, 50);
              ::_exit(3);
              return 0;
            }),
            3);
  Pool pool = Pool::open(path, raised(8 << 20, 200, 4)).value();
  EXPECT_EQ(correct(pool, 50), 50u);
}

TEST_P(RaiseLimits, LowerLimitsChangeNothing) {
  Pool::create(path, options(8 << 20, 4, 16)).value();
  const std::string before = testing::contents_of(path);
  {
    Pool pool = Pool::open(path, raised(4 << 20, 2, 8)).value();
  }
  if (GetParam() == DomainKind::kSync) {
    EXPECT_EQ(testing::contents_of(path), before);
  }
}

TEST_P(RaiseLimits, TablesThatDoNotFitIntoTheCapacityAreRefused) {
  Pool::create(path, options(2 << 20, 4, 4)).value();
  const std::string before = testing::contents_of(path);
  auto refused = Pool::open(path, raised(2 << 20, 1000, 4));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("capacity"), std::string::npos) << refused.error().message;
  auto too_large = Pool::open(path, raised(std::uint64_t{1} << 50, 4, 4));
  ASSERT_FALSE(too_large.ok());
  EXPECT_EQ(too_large.error().code, Code::kInvalid);
  EXPECT_EQ(testing::contents_of(path), before);
  EXPECT_TRUE(Pool::open(path).ok());
}

TEST_P(RaiseLimits, AFullDiskLeavesThePoolAsItWas) {
  {
    Pool pool = Pool::create(path, options(8 << 20, 4, 4)).value();
    fill(pool, 0, 50);
  }
  EXPECT_EQ(testing::in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const auto bytes = static_cast<rlim_t>(std::filesystem::file_size(path));
              const struct rlimit tight{bytes, bytes};
              ::setrlimit(RLIMIT_FSIZE, &tight);
              auto refused = Pool::open(path, raised(32 << 20, 200, 4));
              return refused.ok() ? 1 : refused.error().code == Code::kNoSpace ? 0 : 2;
            }),
            0);
  {
    Pool pool = Pool::open(path).value();
    EXPECT_EQ(core_of(pool).logs().slot_count(), 4u);
    EXPECT_EQ(correct(pool, 50), 50u);
  }
  Pool pool = Pool::open(path, raised(32 << 20, 200, 4)).value();
  EXPECT_EQ(core_of(pool).logs().slot_count(), 200u) << "and may try again";
  EXPECT_EQ(correct(pool, 50), 50u);
}

TEST_P(RaiseLimits, AFailedSyncIsToldWhicheverItIsAndLosesNothing) {
  struct Broken : Dram {
    explicit Broken(int after) : left(after) {}
    bool fence(Site) { return left-- != 0; }
    int left;
  };
  {
    Pool pool = Pool::create(path, options(8 << 20, 4, 4)).value();
    fill(pool, 0, 50);
  }
  int failed = 0;
  for (bool done = false; !done; ++failed) {
    Region::OpenOptions how;
    how.room_bytes = 32 << 20;
    auto region =
        Region::open_file(path, DomainKind::kDram, Region::Access::kReadWrite, how).value();
    Broken domain(failed);
    PrimitivesOf primitives(domain);
    auto raised = raise_limits(*region, primitives, {32 << 20, 200, 4});
    region.reset();
    Pool pool = Pool::open(path).value();
    EXPECT_EQ(correct(pool, 50), 50u) << "fence " << failed;
    done = core_of(pool).logs().slot_count() == 200;
    EXPECT_TRUE(raised.ok() || raised.error().message.find("reopen") != std::string::npos);
  }
  EXPECT_GE(failed, 3) << "the tables' fence, and one of a superblock";
}

TEST_P(RaiseLimits, APoolThatIsOpenIsBusy) {
  Pool pool = Pool::create(path, options(8 << 20, 4, 4)).value();
  EXPECT_EQ(Pool::open(path, raised(8 << 20, 40, 4)).error().code, Code::kBusy);
}

TEST_P(RaiseLimits, ADamagedCopyOfTheSuperblockIsToldAndReplaced) {
  Pool::create(path, options(8 << 20, 4, 4)).value();
  {
    Pool::open(path, raised(16 << 20, 70, 4)).value();
  }
  for (const Offset copy : {Offset{0}, kSecondSuperblockOffset}) {
    const int fd = ::open(path.c_str(), O_RDWR);
    const std::array<char, kSectorBytes> zeros{};
    ASSERT_EQ(::pwrite(fd, zeros.data(), zeros.size(), static_cast<off_t>(copy)), 512);
    ::close(fd);
    {
      Pool pool = Pool::open(path).value();
      EXPECT_TRUE(pool.recovery().superblock_damaged);
      EXPECT_EQ(core_of(pool).logs().slot_count(), 70u);
    }
    Pool pool = Pool::open(path).value();
    EXPECT_FALSE(pool.recovery().superblock_damaged);
  }
}

INSTANTIATE_TEST_SUITE_P(Domains, RaiseLimits,
                         ::testing::Values(DomainKind::kSync, DomainKind::kAdr, DomainKind::kDram),
                         [](const auto& of) { return std::string(domain_name(of.param)); });

TEST(RaiseLimitsOfPrivatePages, RingsInSegmentsAreNotPrivate) {
  testing::TempDir directory;
  const std::string path = directory / "a.pool";
  ExpertOptions options;
  options.domain = DomainKind::kAdr;
  options.placement = Placement::kPrivatePages;
  options.capacity_bytes = 16 << 20;
  options.segment_bytes = kMinSegmentBytes;
  options.ring_bytes = 16 << 10;
  options.log_slots = 2;
  Pool::create(path, options).value();
  options.log_slots = 70;
  options.raise_limits = true;
  ASSERT_EQ(testing::in_child([&] {
              Pool pool = Pool::open(path, options).value();
              auto* count = pool.root<std::uint64_t>("count");
              for (int i = 0; i < 1000; ++i)
                pool.atomically([&](Tx& tx) { tx.store(*count, tx.load(*count) + 1); });
              ::_exit(4);
              return 0;
            }),
            4);
  Pool pool = Pool::open(path, options).value();
  EXPECT_EQ(*pool.find_root<std::uint64_t>("count"), 1000u);
}

}  // namespace
}  // namespace perdure
