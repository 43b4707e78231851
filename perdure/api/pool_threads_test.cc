// SPDX-License-Identifier: BSD-3-Clause
// What happens between threads, and between a process and its forked child: where a wait, a stale
// answer or a lock kept too long would show.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <utility>

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

// ---- logs are for running updates ---------------------------------------------------------------

constexpr Geometry kTwoLogs = {std::uint64_t{16} << 20, std::uint64_t{128} << 10, 64 << 10, 2, 4};

TEST(PoolThreads, ThreadsThatAreInNoUpdateHoldNoLog) {
  Image image = Image::formatted(kTwoLogs);
  Pool pool = image.pool().value();
  auto* counters = pool.root<std::array<std::uint64_t, 100>>("counters");
  std::atomic<int> arrived{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < counters->size(); ++t) {
    threads.emplace_back([&, t] {
      const auto count = [&] {
        pool.atomically([&](Tx& tx) { tx.store((*counters)[t], tx.load((*counters)[t]) + 1); });
      };
      count();
      ++arrived;
      while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      count();
    });
  }
  while (arrived < 100) std::this_thread::yield();
  EXPECT_EQ(core_of(pool).logs().slot_count(), 2u);
  leave = true;
  for (std::thread& thread : threads) thread.join();
  Image killed = image;
  Pool after = killed.pool().value();
  for (const std::uint64_t count : *after.find_root<std::array<std::uint64_t, 100>>("counters"))
    EXPECT_EQ(count, 2u);
}

TEST(PoolThreads, MoreUpdatesThanLogsTakeTurns) {
  Image image = Image::formatted(kTwoLogs);
  Pool pool = image.pool().value();
  constexpr int kThreads = 12, kEach = kSanitized ? 300 : 3000;
  auto* sum = pool.root<std::uint64_t>("sum");
  auto* own = pool.root<std::array<std::array<std::uint64_t, 8>, kThreads>>("own");
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        pool.atomically([&](Tx& tx) {
          tx.store((*own)[t][0], tx.load((*own)[t][0]) + 1);
          if (i % 16 == 0) std::this_thread::yield();
          tx.free(tx.allocate(48));
          tx.store(*sum, tx.load(*sum) + 1);
        });
        if (i % 64 != 0) continue;
        const auto [mine, all] =
            pool.read_only([&](Tx& tx) { return std::pair(tx.load((*own)[t][0]), tx.load(*sum)); });
        EXPECT_EQ(mine, i + 1u);
        EXPECT_LE(mine, all);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Image killed = image;
  Pool after = killed.pool().value();
  EXPECT_EQ(*after.find_root<std::uint64_t>("sum"), std::uint64_t{kThreads} * kEach);
  EXPECT_EQ(core_of(after).heap().usage().objects, 2u);
}

TEST(PoolThreads, AnUpdateWaitsForALogAndReadersNeedNone) {
  Image image = Image::formatted(kTwoLogs);
  Pool pool = image.pool().value();
  auto* counters = pool.root<std::array<std::array<std::uint64_t, 8>, 3>>("counters");
  std::atomic<int> inside{0};
  std::atomic<bool> leave{false};
  std::atomic<bool> third_is_done{false};
  const auto add = [&](std::size_t which, auto meanwhile) {
    pool.atomically([&](Tx& tx) {
      tx.store((*counters)[which][0], tx.load((*counters)[which][0]) + 1);
      meanwhile();
    });
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      add(t, [&] {
        ++inside;
        while (!leave) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
    });
  }
  while (inside < 2) std::this_thread::yield();
  threads.emplace_back([&] {
    add(2, [] {});
    third_is_done = true;
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(pool.read_only([&](Tx& tx) { return tx.load((*counters)[2][0]); }), 0u);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(third_is_done);
  leave = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(third_is_done);
  for (const auto& counter : *counters) EXPECT_EQ(counter[0], 1u);
}

// ---- a transaction belongs to its thread, until its end -----------------------------------------

template <class Use>
void expect_refused(Use use, const char* what) {
  try {
    use();
    ADD_FAILURE() << what << " was not refused";
  } catch (const Exception& refused) {
    EXPECT_EQ(refused.code(), Code::kMisuse) << what << ": " << refused.what();
    EXPECT_NE(std::string(refused.what()).find("atomically()"), std::string::npos)
        << what << ": " << refused.what();
  }
}

TEST(PoolThreads, ATransactionIsNotUsedAfterItsEnd) {
  for (const bool others : {false, true}) {
    Image image = Image::formatted(kTwoLogs);
    Pool pool = image.pool().value();
    auto* value = pool.root<std::array<std::uint64_t, 8>>("value");
    void* object = pool.atomically([&](Tx& tx) { return tx.allocate(64); });
    if (others)
      std::thread([&] { pool.atomically([&](Tx& tx) { tx.store((*value)[7], 1); }); }).join();
    Tx* kept = nullptr;
    pool.atomically([&](Tx& tx) {
      tx.store((*value)[0], 1);
      kept = &tx;
    });
    char bytes[64] = {};
    expect_refused([&] { kept->store((*value)[0], 2); }, "store");
    expect_refused([&] { kept->load((*value)[0]); }, "load");
    expect_refused([&] { kept->write(value, bytes, 64); }, "write");
    expect_refused([&] { kept->write(value, bytes, 3); }, "write of a part");
    expect_refused([&] { kept->read(bytes, value, 64); }, "read");
    expect_refused([&] { kept->allocate(64); }, "allocate");
    expect_refused([&] { kept->free(object); }, "free");
    EXPECT_EQ((*value)[0], 1u);
    pool.atomically([&](Tx& tx) { tx.store((*value)[0], 3); });
    EXPECT_EQ((*value)[0], 3u);
  }
}

TEST(PoolThreads, ATransactionIsNotUsedByAnotherThread) {
  Image image = Image::formatted(kTwoLogs);
  Pool pool = image.pool().value();
  auto* value = pool.root<std::uint64_t>("value");
  pool.atomically([&](Tx& tx) {
    std::thread([&] {
      char bytes[8] = {};
      expect_refused([&] { tx.allocate(64); }, "allocate");
      expect_refused([&] { tx.free(value); }, "free");
      expect_refused([&] { tx.write(value, bytes, 3); }, "write of a part");
#if PERDURE_LOOKS_AT_EACH_USE
      expect_refused([&] { tx.store(*value, 2); }, "store");
      expect_refused([&] { tx.load(*value); }, "load");
#endif
    }).join();
    tx.store(*value, 1);
  });
  EXPECT_EQ(*value, 1u);
}

// ---- waits, stale answers, locks ----------------------------------------------------------------

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
