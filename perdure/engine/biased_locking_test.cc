// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/biased_locking.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/small_pool.h"

namespace perdure {
namespace {

/// More begins than a place ever waits before it looks around.
constexpr int kLong = 1 << 17;

class BiasedLockingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
      GTEST_SKIP() << "no membarrier here: nobody is ever alone";
    biased_locking.add(first);
    biased_locking.add(second);
  }
  bool begins_alone(BiasedLocking::Place& place) {
    const bool alone = place.begin(biased_locking);
    place.end();
    return alone;
  }
  bool becomes_alone(BiasedLocking::Place& place) {
    for (int i = 0; i < kLong; ++i) {
      if (begins_alone(place)) return true;
    }
    return false;
  }
  CommitClock clock;
  BiasedLocking biased_locking{clock};
  BiasedLocking::Place first;
  BiasedLocking::Place second;
};

TEST_F(BiasedLockingTest, TheFirstIsAloneUntilAnotherBegins) {
  EXPECT_TRUE(begins_alone(first));
  EXPECT_TRUE(begins_alone(first));
  EXPECT_FALSE(begins_alone(second));
  EXPECT_FALSE(begins_alone(first));
}

TEST_F(BiasedLockingTest, WhoRunsAloneNoticesAnotherAndMayNotCommit) {
  ASSERT_TRUE(first.begin(biased_locking));
  EXPECT_TRUE(first.still_biased(biased_locking));
  EXPECT_FALSE(second.begin(biased_locking));
  EXPECT_FALSE(first.still_biased(biased_locking));
  EXPECT_FALSE(first.claim(biased_locking));
}

TEST_F(BiasedLockingTest, WhoBeginsWaitsForACommitUnderWay) {
  ASSERT_TRUE(first.begin(biased_locking));
  ASSERT_TRUE(first.claim(biased_locking));
  std::atomic<bool> began{false};
  std::thread other([&] {
    EXPECT_FALSE(second.begin(biased_locking));
    began = true;
  });
  while (first.still_biased(biased_locking)) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(began);
  first.end();
  other.join();
  EXPECT_TRUE(began);
}

TEST_F(BiasedLockingTest, SoDoesWhoBeginsWhileAnotherWaitsForIt) {
  BiasedLocking::Place third;
  biased_locking.add(third);
  ASSERT_TRUE(first.begin(biased_locking));
  ASSERT_TRUE(first.claim(biased_locking));
  std::atomic<int> began{0};
  const auto begin = [&](BiasedLocking::Place& place) {
    EXPECT_FALSE(place.begin(biased_locking));
    ++began;
  };
  std::thread one([&] { begin(second); });
  while (first.still_biased(biased_locking)) std::this_thread::yield();
  std::thread other([&] { begin(third); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(began, 0);
  first.end();
  one.join();
  other.join();
  EXPECT_EQ(began, 2);
}

TEST_F(BiasedLockingTest, WhoIsLeftBecomesAlone) {
  EXPECT_FALSE(begins_alone(second));
  EXPECT_TRUE(becomes_alone(second));
  EXPECT_TRUE(becomes_alone(first));
  EXPECT_FALSE(begins_alone(second));
}

TEST_F(BiasedLockingTest, NobodyBecomesAloneWhileAnotherRuns) {
  EXPECT_FALSE(begins_alone(second));
  EXPECT_FALSE(first.begin(biased_locking));
  EXPECT_FALSE(becomes_alone(second));
  first.end();
  EXPECT_TRUE(becomes_alone(second));
}

TEST_F(BiasedLockingTest, NobodyBecomesAloneWhoseNeighbourKeepsBeginning) {
  EXPECT_FALSE(begins_alone(second));
  for (int i = 0; i < kLong; ++i) {
    ASSERT_FALSE(begins_alone(first));
    ASSERT_FALSE(begins_alone(second));
  }
}

TEST_F(BiasedLockingTest, AChangePastTheTransactionsEndsItForOthersOnly) {
  biased_locking.end_unless(first);
  EXPECT_TRUE(begins_alone(first));
  biased_locking.end_unless(second);
  EXPECT_FALSE(begins_alone(first));
}

class FavouredReadersTest : public BiasedLockingTest {
 protected:
  void SetUp() override {
    BiasedLockingTest::SetUp();
    if (IsSkipped()) return;
    EXPECT_FALSE(begins_alone(second));  // so nobody is the owner
    ASSERT_TRUE(both_become_readers());
  }
  bool reads_alone(BiasedLocking::Place& place) {
    const bool alone = place.begin(biased_locking, true);
    place.end();
    return alone;
  }
  bool both_become_readers() {
    for (int i = 0; i < kLong; ++i) {
      if (reads_alone(first) && reads_alone(second)) return true;
    }
    return false;
  }
};

TEST_F(FavouredReadersTest, WhoReadsIsOneOfThemUntilAnUpdateBegins) {
  BiasedLocking::Place third;
  biased_locking.add(third);
  EXPECT_TRUE(reads_alone(third));
  ASSERT_TRUE(first.begin(biased_locking, true));
  ASSERT_TRUE(second.begin(biased_locking, true));
  EXPECT_FALSE(begins_alone(third));
  EXPECT_FALSE(first.still_biased(biased_locking));
  EXPECT_FALSE(second.still_biased(biased_locking));
  first.end();
  second.end();
  EXPECT_FALSE(reads_alone(first));
  EXPECT_TRUE(both_become_readers());
}

TEST_F(FavouredReadersTest, TheyAreNotWhileAnUpdateRuns) {
  EXPECT_FALSE(second.begin(biased_locking));
  for (int i = 0; i < kLong; ++i) ASSERT_FALSE(reads_alone(first));
  second.end();
  EXPECT_TRUE(both_become_readers());
}

TEST_F(FavouredReadersTest, NorWhileOthersCommit) {
  EXPECT_FALSE(begins_alone(second));
  for (int i = 0; i < kLong; ++i) {
    static_cast<void>(clock.draw());
    ASSERT_FALSE(reads_alone(first));
    ASSERT_FALSE(reads_alone(second));
  }
}

TEST_F(FavouredReadersTest, NorWhileOneOfAnEarlierTimeIsReadingStill) {
  ASSERT_TRUE(first.begin(biased_locking, true));
  EXPECT_FALSE(begins_alone(second));
  for (int i = 0; i < kLong; ++i) ASSERT_FALSE(reads_alone(second));
  EXPECT_FALSE(first.still_biased(biased_locking));
  first.end();
  EXPECT_TRUE(both_become_readers());
}

TEST_F(FavouredReadersTest, AnUpdateWaitsForWhoeverLooksAtBytes) {
  ASSERT_TRUE(first.begin(biased_locking, true));
  ASSERT_TRUE(second.begin(biased_locking, true));
  BiasedLocking::Place third;
  biased_locking.add(third);
  std::atomic<bool> began{false};
  std::thread other;
  {
    const BiasedLocking::Claim one(first, biased_locking);
    ASSERT_TRUE(one);
    {
      const BiasedLocking::Claim two(second, biased_locking);
      const BiasedLocking::Claim nested(first, biased_locking);
      ASSERT_TRUE(two);
      ASSERT_TRUE(nested);
    }
    other = std::thread([&] {
      EXPECT_FALSE(third.begin(biased_locking));
      began = true;
    });
    while (first.still_biased(biased_locking)) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(began);
    const BiasedLocking::Claim late(second, biased_locking);
    EXPECT_FALSE(late);
  }
  other.join();
  EXPECT_TRUE(began);
}

TEST_F(BiasedLockingTest, AViewIsNoCopyWhileNobodyElseUpdates) {
  testing::Image image = testing::Image::formatted();
  Pool pool = image.pool().value();
  auto* words = pool.root<std::array<std::uint64_t, 4>>("words");
  const auto looks_in_place = [&](Tx& tx) {
    return tx.view(words, sizeof(*words), [&](std::string_view seen) {
      // A view in a view ends nothing.
      tx.view(words, 8, [](std::string_view head) { EXPECT_EQ(head.size(), 8u); });
      std::array<std::uint64_t, 4> copy{};
      EXPECT_EQ(seen.size(), sizeof(copy));
      std::memcpy(&copy, seen.data(), sizeof(copy));
      EXPECT_EQ(copy[0], tx.load((*words)[0]));
      return static_cast<const void*>(seen.data()) == words;
    });
  };
  EXPECT_TRUE(pool.read_only(looks_in_place));
  EXPECT_TRUE(pool.atomically(looks_in_place));
  pool.atomically([&](Tx& tx) {
    tx.store((*words)[0], 7);
    EXPECT_FALSE(looks_in_place(tx));  // it sees its own store
  });
  std::thread([&] { EXPECT_FALSE(pool.read_only(looks_in_place)); }).join();
  EXPECT_THROW(pool.read_only([&](Tx& tx) {
    tx.view(words, 8, [](std::string_view) { throw std::runtime_error("mine"); });
  }),
               std::runtime_error);
  EXPECT_EQ(pool.read_only([&](Tx& tx) { return tx.load((*words)[0]); }), 7u);
}

/// Four threads, now all, now one until it is alone (the others come back while it still is), now all
/// of them only reading, move money between accounts; each sees the same sum in every attempt, alone or not.
TEST_F(BiasedLockingTest, TransactionsStayIsolatedWhileItComesAndGoes) {
  struct Accounts {
    std::array<std::uint64_t, 8> balance;
  };
  static constexpr int kRounds = testing::kSanitized ? 12 : 60;
  static constexpr int kBurst = 3000;
  static constexpr int kMostBurst = 300'000;  // to become alone takes longer each time
  // A log each, and one for the thread that sets up.
  constexpr Geometry kFiveLogs = {std::uint64_t{64} << 20, std::uint64_t{128} << 10,
                                  std::uint64_t{64} << 10, 5, 4};
  testing::Image image = testing::Image::formatted(kFiveLogs);
  Pool pool = image.pool().value();
  auto* accounts = pool.root<Accounts>("accounts");
  pool.atomically([&](Tx& tx) { tx.store(accounts->balance[0], 1'000'000); });
  std::atomic<std::uint64_t> alone{0};
  std::atomic<std::uint64_t> favoured{0};
  std::atomic<std::uint64_t> among_others{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<int> settled{0};  // the last round for one thread in which it was alone, or gave up
  const auto settle = [&](int round) {
    int last = settled;
    while (last < round && !settled.compare_exchange_weak(last, round)) {
    }
  };
  const auto work = [&](unsigned thread) {
    std::uint64_t random = thread + 1;
    for (int round = 0; round < kRounds; ++round) {
      const bool for_one = round % 3 == 1;
      const bool for_readers = round % 3 == 2;
      if (for_one && static_cast<int>(thread) != round / 3 % 4) {
        while (settled < round) std::this_thread::yield();
        continue;
      }
      for (int i = 0; i < kBurst || (for_one && settled < round && i < kMostBurst); ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        auto& from = accounts->balance[random >> 61];
        auto& to = accounts->balance[random >> 58 & 7];
        const bool only_looks = (random >> 50 & 3) == 0 || for_readers;
        const auto body = [&](Tx& tx) {
          ++(tx.alone() ? for_readers ? favoured : alone : among_others);
          if (for_one && tx.alone()) settle(round);
          std::uint64_t sum = 0;
          if (only_looks && i % 2 == 0) {
            tx.view(accounts, sizeof(*accounts), [&](std::string_view bytes) {
              Accounts seen;
              std::memcpy(&seen, bytes.data(), sizeof(seen));
              for (const std::uint64_t balance : seen.balance) sum += balance;
            });
          } else {
            for (const std::uint64_t& balance : accounts->balance) sum += tx.load(balance);
          }
          if (sum != 1'000'000) ++wrong;
          if (only_looks) return;
          const std::uint64_t amount = tx.load(from) / 2;
          tx.store(from, tx.load(from) - amount);
          tx.store(to, tx.load(to) + amount);
        };
        if (only_looks) {
          pool.read_only(body);
        } else {
          pool.atomically(body);
        }
      }
      if (for_one) settle(round);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(alone, 0u);
  EXPECT_GT(favoured, 0u);
  EXPECT_GT(among_others, 0u);
  std::uint64_t sum = 0;
  pool.read_only([&](Tx& tx) {
    sum = 0;
    for (const std::uint64_t& balance : accounts->balance) sum += tx.load(balance);
  });
  EXPECT_EQ(sum, 1'000'000u);
}

}  // namespace
}  // namespace perdure
