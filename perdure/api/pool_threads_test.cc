// SPDX-License-Identifier: BSD-3-Clause
// What happens between threads, and between a process and its forked child: where a wait, a stale
// answer or a lock kept too long would show.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"
#include "perdure/expert.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;
using testing::kSanitized;
using testing::TempDir;

/// Large objects, small ones, and a log that is full all the time.
constexpr Geometry kBusy = {std::uint64_t{64} << 20, std::uint64_t{128} << 10, kPageBytes, 4, 4};

TEST(PoolThreads, CommitsHeapAndTruncationNeverWaitForEachOtherInACircle) {
  Image image = Image::formatted(kBusy);
  Pool pool = image.pool().value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::vector<void*> small;
      for (int i = 0; i < (kSanitized ? 300 : 3000); ++i) {
        // Freed extents go back under the heap's lock; new superblocks are published under it.
        void* large = pool.atomically([](Tx& tx) { return tx.allocate(20'000); });
        small.push_back(pool.atomically([&](Tx& tx) { return tx.allocate(16u << ((i + t) % 8)); }));
        pool.atomically([&](Tx& tx) { tx.free(large); });
        if (small.size() > 50) {
          pool.atomically([&](Tx& tx) {
            for (void* object : small) tx.free(object);
          });
          small.clear();
        }
      }
      pool.atomically([&](Tx& tx) {
        for (void* object : small) tx.free(object);
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(core_of(pool).heap().usage().objects, 0u);
}

struct Node {
  pptr<std::array<std::uint64_t, 1024>> large;
};
struct List {
  pptr<Node> first;
};

/// A pool with a node that owns an object above the size classes.
struct Owner {
  Owner() {
    pool.atomically([&](Tx& tx) {
      auto* node = static_cast<Node*>(tx.allocate(sizeof(Node)));
      auto* large = static_cast<std::array<std::uint64_t, 1024>*>(tx.allocate(8192));
      tx.store(node->large, tx.link_to(large));
      tx.store(list->first, tx.link_to(node));
    });
  }
  /// By another thread, in a transaction of its own.
  void free_all() {
    std::thread([&] {
      pool.atomically([&](Tx& tx) {
        Node* node = tx.at(tx.load(list->first));
        tx.free(tx.at(tx.load(node->large)));
        tx.free(node);
        tx.store(list->first, {});
      });
    }).join();
  }
  Image image = Image::formatted();
  Pool pool = image.pool().value();
  List* list = pool.root<List>("list");
};

/// Accounts that a thread moves money between all the time, so that no sum of all of them is ever
/// undisturbed.
class Busy : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kAccounts = 4096;
  using Accounts = std::array<std::uint64_t, kAccounts>;

  Busy() : mover_([this] { move_until_stopped(); }) {
    while (moves_.load() == 0) std::this_thread::yield();
  }
  ~Busy() override {
    stop_ = true;
    mover_.join();
  }
  /// Looks at all accounts twice. The first kPatience attempts see a move between, which ends them;
  /// during the others the mover makes way.
  std::uint64_t slow_sum(Tx& tx, unsigned attempt) {
    const std::uint64_t first = sum(tx);
    const std::uint64_t before =
        moves_;  // the last of them may be yet to come: it was before the first look
    if (attempt <= PoolCore::kPatience) {
      while (moves_ < before + 2) std::this_thread::sleep_for(std::chrono::microseconds(10));
    } else {
      // It ends the move it is in, and one more for each second that this thread gets no time.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_LE(moves_, before + 5);
    }
    const std::uint64_t second = sum(tx);
    EXPECT_EQ(first, second);
    return second;
  }
  std::uint64_t sum(Tx& tx) {
    std::uint64_t sum = 0;
    for (const std::uint64_t& account : *accounts_) sum += tx.load(account);
    return sum;
  }
  void move_until_stopped() {
    for (std::uint64_t i = 0; !stop_; ++i) {
      pool_.atomically([&](Tx& tx) {
        std::uint64_t& from = (*accounts_)[i * 7919 % kAccounts];
        std::uint64_t& to = (*accounts_)[i * 104'729 % kAccounts];
        tx.store(from, tx.load(from) - 1);
        tx.store(to, tx.load(to) + 1);
      });
      ++moves_;
    }
  }

  Image image_ = Image::formatted();
  Pool pool_ = image_.pool().value();
  Accounts* accounts_ = pool_.root<Accounts>("accounts");
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> moves_{0};
  std::thread mover_;
};

TEST_F(Busy, ALongReaderIsNotStarved) {
  unsigned attempts = 0;
  const std::uint64_t sum = pool_.read_only([&](Tx& tx) { return slow_sum(tx, ++attempts); });
  EXPECT_EQ(sum, 0u);
  EXPECT_GT(attempts, PoolCore::kPatience) << "nobody was in the way: this test tests nothing";
  const std::uint64_t moved = moves_;
  while (moves_ < moved + 10) std::this_thread::yield();  // the others go on
}

TEST_F(Busy, ALongUpdateIsNotStarved) {
  unsigned attempts = 0;
  pool_.atomically([&](Tx& tx) {
    const std::uint64_t sum = slow_sum(tx, ++attempts);
    EXPECT_EQ(sum, 0u);
    tx.store((*accounts_)[0], tx.load((*accounts_)[0]) + 1);
  });
  EXPECT_GT(attempts, PoolCore::kPatience) << "nobody was in the way: this test tests nothing";
  EXPECT_EQ(pool_.read_only([&](Tx& tx) { return sum(tx); }), 1u);
}

TEST_F(Busy, WhoGivesUpStandsInNobodysWay) {
  struct Enough {};
  unsigned attempts = 0;
  try {
    pool_.read_only([&](Tx& tx) {
      if (++attempts > PoolCore::kPatience) throw Enough{};
      return slow_sum(tx, attempts);
    });
  } catch (const Enough&) {
  }
  EXPECT_GT(attempts, PoolCore::kPatience) << "nobody was in the way: this test tests nothing";
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t moved = moves_;
  while (moves_ < moved + 10) std::this_thread::yield();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8))
      << "each move waits for one who is gone";
}

TEST_F(Busy, WhatAStarvingBodyWaitsForComesAllTheSame) {
  unsigned attempts = 0;
  const bool moved = pool_.read_only([&](Tx& tx) {
    if (++attempts <= PoolCore::kPatience) return slow_sum(tx, attempts) != 0;
    // The mover lets this one through first; after a second it goes on.
    const std::uint64_t before = moves_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (moves_ < before + 2 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return moves_ >= before + 2;
  });
  EXPECT_GT(attempts, PoolCore::kPatience) << "nobody was in the way: this test tests nothing";
  EXPECT_TRUE(moved);
}

TEST(PoolThreads, AFreeThatAnotherCommitHasOvertakenIsAConflict) {
  Owner owner;
  int attempts = 0;
  owner.pool.atomically([&](Tx& tx) {
    const auto first = tx.load(owner.list->first);
    if (++attempts > 1) {
      EXPECT_FALSE(first) << "the second attempt sees what the other thread did";
      return;
    }
    Node* node = tx.at(first);
    tx.free(tx.at(tx.load(node->large)));
    owner.free_all();
    tx.store(node->large, {});
  });
  EXPECT_EQ(attempts, 2);
}

TEST(PoolThreads, ASizeIsThatOfTheSnapshotOrAConflict) {
  Owner owner;
  int attempts = 0;
  owner.pool.read_only([&](Tx& tx) {
    const auto first = tx.load(owner.list->first);
    if (++attempts > 1) return;
    auto* large = tx.at(tx.load(tx.at(first)->large));
    owner.free_all();
    std::thread([&] {
      owner.pool.atomically([](Tx& other) { return other.allocate(50'000); });
    }).join();
    EXPECT_EQ(tx.usable_bytes(large), 8192u);
  });
  EXPECT_EQ(attempts, 2);
}

// One ownership record for everything: space that is written past the transactions always shares
// one with what the transaction itself has read.
TEST(PoolThreads, SpaceWrittenPastATransactionIsNoConflictWithItself) {
  Image image = Image::formatted();
  Pool pool = image.pool(2).value();
  auto* words = pool.root<std::array<std::uint64_t, 2000>>("words");
  int attempts = 0;
  pool.atomically([&](Tx& tx) {
    ++attempts;
    std::uint64_t sum = 0;
    for (const std::uint64_t& word : *words) sum += tx.load(word);
    for (std::uint64_t& word : *words) tx.store(word, sum + 1);  // more than half a ring: spilled
  });
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ((*words)[1999], 1u);
  EXPECT_TRUE(Log::open_or_create(pool, "log", 8192).ok());
}

// It has memory of the pool to give back, and the pool is gone.
TEST(PoolThreads, AThreadMayEndAfterItsPool) {
  Image image = Image::formatted(kBusy);
  std::optional<Pool> pool = image.pool().value();
  std::atomic<bool> used{false};
  std::atomic<bool> closed{false};
  std::thread other([&] {
    void* object = pool->atomically([](Tx& tx) { return tx.allocate(64); });
    pool->atomically([&](Tx& tx) { tx.free(object); });
    used = true;
    while (!closed) std::this_thread::yield();
  });
  while (!used) std::this_thread::yield();
  pool.reset();
  closed = true;
  other.join();
}

TEST(PoolThreads, EachGoesFromPoolToPool) {
  TempDir dir;
  ExpertOptions options;
  options.capacity_bytes = std::uint64_t{16} << 20;
  options.log_slots = 2;
  options.domain = DomainKind::kDram;
  const auto add = [](Pool& pool) {
    auto* count = pool.root<std::uint64_t>("count");
    pool.atomically([&](Tx& tx) { tx.store(*count, tx.load(*count) + 1); });
    return *count;
  };
  Pool first = Pool::create(dir / "first", options).value();
  {
    Pool second = Pool::create(dir / "second", options).value();
    EXPECT_EQ(add(first), 1u);
    EXPECT_EQ(add(second), 1u);
    EXPECT_EQ(add(first), 2u);
    std::thread([&] {
      EXPECT_EQ(add(second), 2u);
      EXPECT_EQ(add(first), 3u);
    }).join();
    EXPECT_EQ(add(second), 3u);
  }
  // Perhaps where the second one was: another pool all the same.
  Pool third = Pool::create(dir / "third", options).value();
  EXPECT_EQ(add(third), 1u);
  Pool moved = std::move(third);
  EXPECT_EQ(add(moved), 2u);
  EXPECT_EQ(add(first), 4u);
  first = Pool::open(dir / "second", options).value();
  EXPECT_EQ(add(first), 4u);
  EXPECT_EQ(add(moved), 3u);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow into a child that makes threads or maps
TEST(PoolThreads, AChildMayReplaceTheInheritedPoolByItsOwn) {
  TempDir dir;
  ExpertOptions options;
  options.capacity_bytes = std::uint64_t{16} << 20;
  options.log_slots = 2;
  options.domain = DomainKind::kDram;
  Pool pool = Pool::create(dir / "parent", options).value();
  const pid_t child = ::fork();
  if (child == 0) {
    pool = Pool::create(dir / "child", options).value();
    auto* count = pool.root<std::uint64_t>("count");
    pool.atomically([&](Tx& tx) { tx.store(*count, 7); });
    ::_exit(*count == 7 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(pool.root<std::uint64_t>("still here"), nullptr);
}
#endif

}  // namespace
}  // namespace perdure
