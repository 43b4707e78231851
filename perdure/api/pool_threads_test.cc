// What happens between threads, and between a process and its forked child: where a wait, a stale
// answer or a lock kept too long would show.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "perdure/append_log.h"
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
  EXPECT_EQ(pool.core().heap().usage().objects, 0u);
}

struct Node {
  link<std::array<std::uint64_t, 1024>> large;
};
struct List {
  link<Node> first;
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
  Pool pool = image.pool(EngineKind::kMnemosyne, 2).value();
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

#if !defined(__SANITIZE_THREAD__)  // which does not follow into a child that makes threads or maps
TEST(PoolThreads, AChildMayReplaceTheInheritedPoolByItsOwn) {
  TempDir dir;
  PoolOptions options;
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
