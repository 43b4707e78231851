// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/transaction.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::Image;

constexpr Geometry kWide = {std::uint64_t{16} << 20, std::uint64_t{128} << 10, 64 << 10, 20, 16};
constexpr int kRounds = testing::kSanitized ? 2000 : 20000;

struct Accounts {
  std::array<std::uint64_t, 64> balance;
};
struct Bytes {
  std::array<std::uint8_t, 64> byte;
};
struct Node {
  std::uint64_t value;
  perdure::pptr<Node> next;
};

/// A pool in memory that can be restarted as if the process had been killed.
struct TransactionTest : ::testing::TestWithParam<EngineKind> {
  explicit TransactionTest(const Geometry& geometry = kWide) : image(Image::formatted(geometry)) {}
  /// The state that a kill at this moment would leave.
  Pool after_kill() {
    // Nobody writes while the memory is copied.
    if (is_softwrap(GetParam())) pool.set_truncation(Truncation::kWhenFull);
    killed = std::make_unique<Image>(image);
    return killed->pool(GetParam()).value();
  }
  /// The field as it was committed last; not every engine has it home yet.
  template <class T>
  T committed(const T& field) {
    return pool.read_only([&](Tx& tx) { return tx.load(field); });
  }
  Image image;
  std::unique_ptr<Image> killed;
  Pool pool = image.pool(GetParam(), 12).value();
};

INSTANTIATE_TEST_SUITE_P(Engines, TransactionTest,
                         ::testing::Values(EngineKind::kMnemosyne, EngineKind::kBlurred,
                                           EngineKind::kAdaptive, EngineKind::kSoftwrap,
                                           EngineKind::kSoftwrapTables, EngineKind::kBase,
                                           EngineKind::kUndo, EngineKind::kUndoObjects),
                         [](const auto& of) { return testing::name_of(of.param); });

/// Two threads that take turns.
class Turns {
 public:
  void wait_for(int turn) {
    while (turn_.load() < turn) std::this_thread::yield();
  }
  void next() { ++turn_; }

 private:
  std::atomic<int> turn_{0};
};

// ---- one transaction ----------------------------------------------------------------------------

TEST_P(TransactionTest, CommittedIsThereAfterAKillAndUncommittedIsNot) {
  auto* words = pool.root<Accounts>("accounts");
  pool.atomically([&](Tx& tx) { tx.store(words->balance[1], 11); });
  pool.atomically([&](Tx& tx) {
    tx.store(words->balance[2], 22);
    Pool recovered = after_kill();
    const auto* found = recovered.find_root<Accounts>("accounts");
    EXPECT_EQ(found->balance[1], 11u);
    EXPECT_EQ(found->balance[2], 0u);
  });
  Pool recovered = after_kill();
  EXPECT_EQ(recovered.find_root<Accounts>("accounts")->balance[2], 22u);
}

TEST_P(TransactionTest, ReadsItsOwnWritesOfEverySize) {
  auto* bytes = pool.root<Bytes>("bytes");
  pool.atomically([&](Tx& tx) {
    tx.store(*reinterpret_cast<std::uint64_t*>(bytes->byte.data()), 0x1122334455667788u);
    EXPECT_EQ(tx.load(bytes->byte[0]), 0x88);
    EXPECT_EQ(tx.load(*reinterpret_cast<std::uint16_t*>(bytes->byte.data() + 2)), 0x5566);
    tx.store(*reinterpret_cast<std::uint32_t*>(bytes->byte.data() + 4), 0xaabbccddu);
    tx.store(bytes->byte[5], 0xee);
    EXPECT_EQ(tx.load(*reinterpret_cast<std::uint64_t*>(bytes->byte.data())), 0xaabbeedd55667788u);
  });
  pool.checkpoint();  // not every engine has it home yet
  EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(bytes->byte.data()), 0xaabbeedd55667788u);
}

TEST_P(TransactionTest, UnalignedReadsAndWritesOfAnyLengthMatchMemcpy) {
  struct Area {
    std::array<std::uint8_t, 512> byte;
  };
  auto* area = pool.root<Area>("area");
  std::vector<std::uint8_t> model(512);
  std::mt19937_64 random(21);
  for (int round = 0; round < 3000; ++round) {
    const bool keep = random() % 4 != 0;
    std::vector<std::uint8_t> now = model;
    try {
      pool.atomically([&](Tx& tx) {
        for (int i = 0; i < 4; ++i) {
          const std::size_t at = random() % 512;
          const std::size_t length = random() % (513 - at);
          std::vector<std::uint8_t> data(length);
          for (auto& byte : data) byte = static_cast<std::uint8_t>(random());
          tx.write(area->byte.data() + at, data.data(), length);
          std::copy(data.begin(), data.end(), now.begin() + static_cast<std::ptrdiff_t>(at));
          const std::size_t from = random() % 512;
          std::vector<std::uint8_t> got(random() % (513 - from));
          tx.read(got.data(), area->byte.data() + from, got.size());
          ASSERT_TRUE(
              std::equal(got.begin(), got.end(), now.begin() + static_cast<std::ptrdiff_t>(from)));
        }
        if (!keep) throw std::runtime_error("no");
      });
      model = now;
    } catch (const std::runtime_error&) {
    }
    pool.checkpoint();
    ASSERT_TRUE(std::equal(model.begin(), model.end(), area->byte.begin()));
  }
  Pool recovered = after_kill();
  EXPECT_TRUE(
      std::equal(model.begin(), model.end(), recovered.find_root<Area>("area")->byte.begin()));
}

TEST_P(TransactionTest, AUserExceptionRollsBackAndIsRethrown) {
  auto* words = pool.root<Accounts>("accounts");
  EXPECT_THROW(pool.atomically([&](Tx& tx) {
    tx.store(words->balance[0], 1);
    tx.free(tx.allocate(100));
    tx.allocate(100);
    throw std::runtime_error("user");
  }),
               std::runtime_error);
  EXPECT_EQ(words->balance[0], 0u);
  pool.atomically(
      [&](Tx& tx) { EXPECT_EQ(tx.load(words->balance[0]), 0u); });  // no lock is left behind
}

TEST_P(TransactionTest, ReturnsWhatTheBodyReturns) {
  auto* words = pool.root<Accounts>("accounts");
  EXPECT_EQ(pool.atomically([&](Tx& tx) {
    tx.store(words->balance[0], 7);
    return std::string("seven");
  }),
            "seven");
  EXPECT_EQ(pool.read_only([&](Tx& tx) { return tx.load(words->balance[0]); }), 7u);
}

TEST_P(TransactionTest, NestingIsFlat) {
  auto* words = pool.root<Accounts>("accounts");
  EXPECT_THROW(pool.atomically([&](Tx& tx) {
    pool.atomically([&](Tx& inner) {
      EXPECT_EQ(&inner, &tx);
      inner.store(words->balance[0], 1);
    });
    EXPECT_EQ(tx.load(words->balance[0]), 1u);
    throw std::runtime_error("outer");
  }),
               std::runtime_error);
  EXPECT_EQ(words->balance[0], 0u) << "the inner call is part of the outer transaction";
}

TEST_P(TransactionTest, AReadOnlyTransactionRefusesStoresAllocationsAndFrees) {
  auto* words = pool.root<Accounts>("accounts");
  void* object = pool.atomically([](Tx& tx) { return tx.allocate(10); });
  const auto refused = [&](auto body) { return code_thrown_by([&] { pool.read_only(body); }); };
  EXPECT_EQ(refused([&](Tx& tx) { tx.store(words->balance[0], 1); }), "misuse");
  EXPECT_EQ(refused([&](Tx& tx) { tx.write(words, "x", 1); }), "misuse");
  EXPECT_EQ(refused([&](Tx& tx) { tx.allocate(10); }), "misuse");
  EXPECT_EQ(refused([&](Tx& tx) { tx.free(object); }), "misuse");
  EXPECT_EQ(refused([&](Tx&) { pool.atomically([&](Tx& tx) { tx.store(words->balance[0], 1); }); }),
            "misuse");
  EXPECT_EQ(words->balance[0], 0u);
}

TEST_P(TransactionTest, AStoreOutsideThePoolIsRefused) {
  std::uint64_t on_the_stack = 5;
  EXPECT_EQ(code_thrown_by([&] { pool.atomically([&](Tx& tx) { tx.store(on_the_stack, 6); }); }),
            "misuse");
  EXPECT_EQ(on_the_stack, 5u);
  EXPECT_EQ(code_thrown_by([&] { (void)after_kill(); }), "nothing") << "the pool stays readable";
}

TEST_P(TransactionTest, AReadOnlyTransactionCostsNothing) {
  Image other = Image::formatted(kWide);
  DomainCounters counters;
  Pool counted =
      adopt_region(other.region().value(), papers::on_dram(GetParam(), &counters)).value();
  auto* words = counted.root<Accounts>("accounts");
  const DomainCounts before = counters.total();
  counted.read_only([&](Tx& tx) { return tx.load(words->balance[3]); });
  counted.atomically([&](Tx& tx) { return tx.load(words->balance[3]); });
  const DomainCounts reads = counters.total() - before;
  EXPECT_EQ(reads.fences + reads.flushes + reads.stores + reads.written_words, 0u);
  counted.atomically([&](Tx& tx) { tx.store(words->balance[3], 1); });
  const std::uint64_t fences = GetParam() == EngineKind::kBase ? 4 : is_undo(GetParam()) ? 3 : 1;
  EXPECT_EQ((counters.total() - before).fences, fences)
      << "one fence makes an update durable; what papers improve on takes four, or one more for "
         "each word";
}

// ---- memory -------------------------------------------------------------------------------------

TEST_P(TransactionTest, WhatAnAbortedTransactionAllocatedIsNotLeaked) {
  auto* words = pool.root<Accounts>("accounts");
  const Heap::Usage before = core_of(pool).heap().usage();
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(pool.atomically([&](Tx& tx) {
      for (const std::size_t bytes : {10u, 5000u, 20000u, 200000u}) tx.allocate(bytes);
      tx.store(words->balance[0], 1);
      throw std::runtime_error("user");
    }),
                 std::runtime_error);
  }
  EXPECT_EQ(core_of(pool).heap().usage().objects, before.objects);
  EXPECT_EQ(core_of(pool).heap().usage().object_bytes, before.object_bytes);
  Pool recovered = after_kill();
  EXPECT_EQ(core_of(recovered).heap().usage().objects, before.objects);
}

TEST_P(TransactionTest, FreeTakesEffectWithTheCommitOnly) {
  void* object = pool.atomically([](Tx& tx) { return tx.allocate(100); });
  const std::uint64_t objects = core_of(pool).heap().usage().objects;
  EXPECT_THROW(pool.atomically([&](Tx& tx) {
    tx.free(object);
    throw std::runtime_error("user");
  }),
               std::runtime_error);
  EXPECT_EQ(core_of(pool).heap().usage().objects, objects);
  pool.atomically([&](Tx& tx) {
    tx.free(object);
    EXPECT_NE(tx.allocate(100), object) << "its space is not reused before the commit";
  });
  EXPECT_EQ(code_thrown_by([&] { pool.atomically([&](Tx& tx) { tx.free(object); }); }), "misuse");
}

TEST_P(TransactionTest, DoubleAndForeignFreesAreRefusedAndRolledBack) {
  auto* words = pool.root<Accounts>("accounts");
  void* object = pool.atomically([](Tx& tx) { return tx.allocate(100); });
  std::uint64_t on_the_stack = 0;
  const auto refused = [&](auto body) {
    return code_thrown_by([&] {
      pool.atomically([&](Tx& tx) {
        tx.store(words->balance[0], 1);
        body(tx);
      });
    });
  };
  EXPECT_EQ(refused([&](Tx& tx) {
              tx.free(object);
              tx.free(object);
            }),
            "misuse");
  EXPECT_EQ(refused([&](Tx& tx) {
              void* fresh = tx.allocate(10);
              tx.free(fresh);
              tx.free(fresh);
            }),
            "misuse");
  EXPECT_EQ(refused([&](Tx& tx) { tx.free(static_cast<char*>(object) + 16); }), "misuse");
  EXPECT_EQ(refused([&](Tx& tx) { tx.free(&on_the_stack); }), "misuse");
  EXPECT_EQ(words->balance[0], 0u);
  EXPECT_EQ(refused([&](Tx& tx) { tx.free(nullptr); }), "nothing");
  EXPECT_EQ(refused([&](Tx& tx) { tx.free(object); }), "nothing");
}

TEST_P(TransactionTest, AFullPoolRollsBackAndGoesOn) {
  Image small = Image::formatted();
  Pool full = small.pool().value();
  auto* words = full.root<Accounts>("accounts");
  const std::uint64_t objects = core_of(full).heap().usage().objects;
  EXPECT_EQ(code_thrown_by([&] {
              full.atomically([&](Tx& tx) {
                tx.store(words->balance[0], 1);
                for (;;) tx.allocate(3000);
              });
            }),
            "no-space");
  EXPECT_EQ(words->balance[0], 0u);
  EXPECT_EQ(core_of(full).heap().usage().objects, objects);
  full.atomically([&](Tx& tx) {
    tx.allocate(3000);
    tx.store(words->balance[0], 2);
  });
}

TEST_P(TransactionTest, ManyAllocationsAndFreesInOneTransactionTakeLinearTime) {
  // Of this thread: beside other work the longer one would wait more often.
  const auto cpu_seconds = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const auto seconds = [&](std::size_t count) {
    std::vector<void*> objects(count);
    const double start = cpu_seconds();
    pool.atomically([&](Tx& tx) {
      for (void*& object : objects) object = tx.allocate(32);
    });
    pool.atomically([&](Tx& tx) {
      for (void* object : objects) tx.free(object);
    });
    return cpu_seconds() - start;
  };
  seconds(1000);
  const double few = seconds(5000);
  const double many = seconds(40000);
  EXPECT_LT(many, 8 * few * 6) << "eight times the objects";
}

// ---- large --------------------------------------------------------------------------------------

TEST_P(TransactionTest, TransactionsLargerThanTheLogCommitAndSurviveAKill) {
  struct Large {
    std::array<std::uint64_t, 40000> word;
  };
  auto* large = pool.root<Large>("large");
  for (const std::uint64_t words : {std::uint64_t{2000}, std::uint64_t{4000}, std::uint64_t{4100},
                                    std::uint64_t{8200}, std::uint64_t{40000}}) {
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < words; ++i) tx.store(large->word[i], words * 1000 + i);
    });
    pool.atomically([&](Tx& tx) { tx.store(large->word[0], words); });
    Pool recovered = after_kill();
    const auto* found = recovered.find_root<Large>("large");
    EXPECT_EQ(found->word[0], words);
    for (std::uint64_t i = 1; i < words; ++i) ASSERT_EQ(found->word[i], words * 1000 + i);
    EXPECT_EQ(core_of(recovered).heap().usage().objects, core_of(pool).heap().usage().objects);
  }
}

TEST_P(TransactionTest, ScatteredLargeTransactionsSurviveAKill) {
  struct Large {
    std::array<std::uint64_t, 40000> word;
  };
  auto* large = pool.root<Large>("large");
  std::mt19937_64 random(22);
  std::vector<std::uint64_t> model(40000);
  for (int round = 0; round < 20; ++round) {
    pool.atomically([&](Tx& tx) {
      for (int i = 0; i < 3000; ++i) {
        const std::size_t at = random() % model.size();
        model[at] = random();
        tx.store(large->word[at], model[at]);
      }
      tx.allocate(100);
    });
    Pool recovered = after_kill();
    const auto* found = recovered.find_root<Large>("large");
    ASSERT_TRUE(std::equal(model.begin(), model.end(), found->word.begin()));
    ASSERT_EQ(core_of(recovered).heap().usage().objects, static_cast<std::uint64_t>(round) + 2);
  }
}

TEST_P(TransactionTest, ThousandsOfCommitsWrapTheLogManyTimes) {
  Image small = Image::formatted();
  Pool pool_of_small = small.pool().value();
  auto* words = pool_of_small.root<Accounts>("accounts");
  std::mt19937_64 random(23);
  std::vector<std::uint64_t> model(64);
  for (int i = 0; i < 5000; ++i) {
    pool_of_small.atomically([&](Tx& tx) {
      for (std::uint64_t writes = 1 + random() % 20; writes > 0; --writes) {
        const std::size_t at = random() % 64;
        tx.store(words->balance[at], model[at] = random());
      }
    });
    if (i % 50 != 0) continue;
    Image copy = small;
    Pool recovered = copy.pool().value();
    ASSERT_TRUE(std::equal(model.begin(), model.end(),
                           recovered.find_root<Accounts>("accounts")->balance.begin()))
        << i;
  }
}

// A segment of 4 MiB has 512 class words: formatting it is a record larger than the smallest ring.
TEST_P(TransactionTest, AnyAllowedGeometryCanGrow) {
  for (const std::uint64_t segment_bytes :
       {kMinSegmentBytes, std::uint64_t{4} << 20, kMaxSegmentBytes}) {
    SCOPED_TRACE(segment_bytes);
    Image geometry = Image::formatted({4 * segment_bytes, segment_bytes, kPageBytes, 2, 4});
    Pool grown = geometry.pool().value();
    auto* words = grown.root<Accounts>("accounts");
    for (std::uint64_t i = 0; i < 2000; ++i) {
      grown.atomically([&](Tx& tx) { tx.store(words->balance[i % 64], i); });
    }
    Image copy = geometry;
    auto recovered = copy.pool();
    ASSERT_TRUE(recovered.ok()) << recovered.error().message;
    const auto* found = recovered->find_root<Accounts>("accounts");
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->balance[1999 % 64], 1999u);
  }
}

// ---- isolation ----------------------------------------------------------------------------------

TEST_P(TransactionTest, NoReaderEverSeesABrokenTotalNotEvenInsideAnAttemptThatFails) {
  auto* accounts = pool.root<Accounts>("accounts");
  constexpr std::uint64_t kEach = 1000;
  pool.atomically([&](Tx& tx) {
    for (auto& balance : accounts->balance) tx.store(balance, kEach);
  });
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> broken{0};
  const auto sum = [&](Tx& tx) {
    std::uint64_t total = 0;
    for (const auto& balance : accounts->balance) total += tx.load(balance);
    if (total != 64 * kEach) ++broken;  // before the commit: a doomed attempt counts as well
    return total;
  };
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      while (!stop) {
        pool.atomically([&](Tx& tx) {
          auto& from = accounts->balance[random() % 64];
          auto& to = accounts->balance[random() % 64];
          const std::uint64_t amount = random() % 10;
          if (tx.load(from) < amount) return;
          tx.store(from, tx.load(from) - amount);
          tx.store(to, tx.load(to) + amount);
        });
      }
    });
  }
  std::thread reader([&] {
    for (int i = 0; i < kRounds / 10; ++i) pool.read_only(sum);
  });
  for (int i = 0; i < kRounds / 10; ++i) pool.atomically(sum);
  reader.join();
  stop = true;
  for (std::thread& thread : writers) thread.join();
  EXPECT_EQ(broken, 0u);
  Pool recovered = after_kill();
  const auto* found = recovered.find_root<Accounts>("accounts");
  EXPECT_EQ(std::accumulate(found->balance.begin(), found->balance.end(), std::uint64_t{0}),
            64 * kEach);
}

TEST_P(TransactionTest, NoUpdateIsLostUnderOversubscription) {
  auto* accounts = pool.root<Accounts>("accounts");
  constexpr int kThreads = 16;
  const int rounds = kRounds / 10;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        pool.atomically(
            [&](Tx& tx) { tx.store(accounts->balance[0], tx.load(accounts->balance[0]) + 1); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(committed(accounts->balance[0]),
            static_cast<std::uint64_t>(kThreads) * static_cast<std::uint64_t>(rounds));
  Pool recovered = after_kill();
  EXPECT_EQ(recovered.find_root<Accounts>("accounts")->balance[0], committed(accounts->balance[0]));
}

TEST_P(TransactionTest, WriteSkewIsPrevented) {
  auto* accounts = pool.root<Accounts>("accounts");
  auto& a = accounts->balance[0];
  auto& b = accounts->balance[32];  // another line
  for (int round = 0; round < 200; ++round) {
    pool.atomically([&](Tx& tx) {
      tx.store(a, 1);
      tx.store(b, 1);
    });
    Turns turns;
    const auto withdraw = [&](std::uint64_t& mine) {
      int attempt = 0;
      pool.atomically([&](Tx& tx) {
        const std::uint64_t sum = tx.load(a) + tx.load(b);
        if (attempt++ == 0) {  // both have read before either writes
          turns.next();
          turns.wait_for(2);
        }
        if (sum == 2) tx.store(mine, 0);
      });
    };
    std::thread other([&] { withdraw(b); });
    withdraw(a);
    other.join();
    ASSERT_EQ(committed(a) + committed(b), 1u) << "both saw the other's money";
  }
}

TEST_P(TransactionTest, NeighbouringBytesOfOneWordDoNotOverwriteEachOther) {
  auto* bytes = pool.root<Bytes>("bytes");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds / 10; ++i) {
        pool.atomically([&](Tx& tx) {
          tx.store(
              bytes->byte[static_cast<std::size_t>(t)],
              static_cast<std::uint8_t>(tx.load(bytes->byte[static_cast<std::size_t>(t)]) + 1));
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 8; ++t)
    EXPECT_EQ(committed(bytes->byte[static_cast<std::size_t>(t)]),
              static_cast<std::uint8_t>(kRounds / 10))
        << t;
}

TEST_P(TransactionTest, SwallowingAConflictDoesNotCommit) {
  auto* accounts = pool.root<Accounts>("accounts");
  for (const bool rethrow_as_other : {false, true}) {
    Turns turns;
    int attempts = 0;
    std::thread other([&] {
      turns.wait_for(1);
      pool.atomically(
          [&](Tx& tx) { tx.store(accounts->balance[0], tx.load(accounts->balance[0]) + 100); });
      turns.next();
    });
    pool.atomically([&](Tx& tx) {
      const std::uint64_t seen = tx.load(accounts->balance[0]);
      if (++attempts == 1) {
        turns.next();
        turns.wait_for(2);
      }
      try {
        tx.store(accounts->balance[0], seen + 1);  // conflicts in the first attempt
      } catch (...) {                              // as careless user code does
        if (rethrow_as_other) throw std::runtime_error("turned into something else");
      }
      tx.store(accounts->balance[32], tx.load(accounts->balance[32]) + 1);
    });
    other.join();
    EXPECT_EQ(attempts, 2);
  }
  EXPECT_EQ(committed(accounts->balance[0]), 202u);
  EXPECT_EQ(committed(accounts->balance[32]), 2u) << "the failed attempts left nothing";
}

// A conflict must never surface as the error that a stale view of the heap suggests.
TEST_P(TransactionTest, FreeingWhatAnotherTransactionJustFreedIsAConflictNotADoubleFree) {
  auto* head = pool.root<perdure::pptr<Node>>("head");
  for (const std::size_t bytes : {sizeof(Node), std::size_t{20000}, std::size_t{200000}}) {
    pool.atomically([&](Tx& tx) {
      auto* node = static_cast<Node*>(tx.allocate(bytes));
      tx.store(head->offset, tx.link_to(node).offset);
    });
    Turns turns;
    std::thread other([&] {
      turns.wait_for(1);
      pool.atomically([&](Tx& tx) {
        tx.free(tx.at(perdure::pptr<Node>{tx.load(head->offset)}));
        tx.store(head->offset, 0);
      });
      turns.next();
    });
    int attempts = 0;
    const std::string thrown = code_thrown_by([&] {
      pool.atomically([&](Tx& tx) {
        const perdure::pptr<Node> node{tx.load(head->offset)};
        if (++attempts == 1) {
          turns.next();
          turns.wait_for(2);
        }
        if (!node) return;
        (void)tx.usable_bytes(tx.at(node));
        tx.free(tx.at(node));
        tx.store(head->offset, 0);
      });
    });
    other.join();
    EXPECT_EQ(thrown, "nothing") << bytes;
  }
}

// Words that nobody owns until the commit, words that are owned at once because only a part of them
// is stored, and ranges over both.
TEST_P(TransactionTest, AmongOthersATransactionSeesWhatItHasWritten) {
  struct Area {
    std::array<std::uint64_t, 40> word;
  };
  auto* area = pool.root<Area>("area");
  auto* const bytes = reinterpret_cast<std::byte*>(area);
  std::array<std::byte, sizeof(Area)> model{};
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    std::thread([&] { pool.read_only([](Tx&) {}); }).join();  // nobody has the pool to itself
    const auto before = model;
    const bool gives_up = round % 5 == 0;
    struct GivesUp {};
    try {
      pool.atomically([&](Tx& tx) {
        for (int step = 0; step < 40; ++step) {
          const std::size_t word = random() % area->word.size();
          const std::uint64_t value = random();
          const std::size_t from = random() % model.size();
          const std::size_t count = random() % (model.size() - from) + 1;
          switch (random() % 6) {
            case 0:
              tx.store(area->word[word], value);
              std::memcpy(&model[word * 8], &value, 8);
              break;
            case 1: {
              auto* part = reinterpret_cast<std::uint16_t*>(bytes + word * 8 + value % 4 * 2);
              tx.store(*part, static_cast<std::uint16_t>(value));
              std::memcpy(&model[word * 8 + value % 4 * 2], &value, 2);
              break;
            }
            case 2: {
              std::vector<std::byte> fresh(count);
              for (std::byte& byte : fresh) byte = static_cast<std::byte>(random());
              tx.write(bytes + from, fresh.data(), count);
              std::copy(fresh.begin(), fresh.end(), model.begin() + static_cast<long>(from));
              break;
            }
            case 3: {
              std::uint64_t wanted = 0;
              std::memcpy(&wanted, &model[word * 8], 8);
              ASSERT_EQ(tx.load(area->word[word]), wanted);
              break;
            }
            case 4:
              ASSERT_EQ(tx.load(*reinterpret_cast<std::uint8_t*>(bytes + from)),
                        static_cast<std::uint8_t>(model[from]));
              break;
            default: {
              std::vector<std::byte> seen(count);
              tx.read(seen.data(), bytes + from, count);
              ASSERT_TRUE(
                  std::equal(seen.begin(), seen.end(), model.begin() + static_cast<long>(from)));
            }
          }
        }
        if (gives_up) throw GivesUp{};
      });
    } catch (const GivesUp&) {
      model = before;
    }
    if (HasFatalFailure()) return;
    pool.read_only([&](Tx& tx) {
      std::array<std::byte, sizeof(Area)> now{};
      tx.read(now.data(), bytes, now.size());
      EXPECT_EQ(now, model) << round;
    });
  }
}

// A word that is stored without having been read, and that another transaction changes before the
// commit.
TEST_P(TransactionTest, WhatIsStoredBlindlyIsNeverHalfOfTwoTransactions) {
  auto* accounts = pool.root<Accounts>("accounts");
  std::atomic<bool> torn{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(kRounds); ++i) {
        pool.atomically([&](Tx& tx) {
          for (const std::size_t at : {0, 16, 32, 48}) tx.store(accounts->balance[at], t << 32 | i);
        });
        pool.read_only([&](Tx& tx) {
          const auto first = tx.load(accounts->balance[0]);
          for (const std::size_t at : {16, 32, 48}) {
            if (tx.load(accounts->balance[at]) != first) torn = true;
          }
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(torn);
  Pool recovered = after_kill();
  auto* there = recovered.find_root<Accounts>("accounts");
  for (const std::size_t at : {16, 32, 48}) EXPECT_EQ(there->balance[at], there->balance[0]);
}

// Whatever else they read and wrote: here, nothing.
TEST_P(TransactionTest, TwoTransactionsThatFreeTheSameObjectMeet) {
  Node* const node =
      pool.atomically([](Tx& tx) { return static_cast<Node*>(tx.allocate(sizeof(Node))); });
  std::thread([&] { pool.read_only([](Tx&) {}); }).join();  // nobody has the pool to itself
  Turns turns;
  std::thread other([&] {
    turns.wait_for(1);
    EXPECT_EQ(code_thrown_by([&] {
                bool first = true;
                pool.atomically([&](Tx& tx) {
                  if (std::exchange(first, false)) {
                    // It ends in a Conflict, because the other one has not committed.
                    try {
                      tx.free(node);
                    } catch (const perdure::Conflict&) {
                      turns.next();
                      throw;
                    }
                    ADD_FAILURE() << "both have freed it";
                    turns.next();
                  }
                  tx.free(node);
                });
              }),
              "misuse");
  });
  pool.atomically([&](Tx& tx) {
    tx.free(node);
    turns.next();
    turns.wait_for(2);
  });
  other.join();
  Node* const again =
      pool.atomically([](Tx& tx) { return static_cast<Node*>(tx.allocate(sizeof(Node))); });
  EXPECT_EQ(again, node) << "once";
  EXPECT_NE(pool.atomically([](Tx& tx) { return tx.allocate(sizeof(Node)); }),
            static_cast<void*>(node));
}

TEST_P(TransactionTest, WhatAThreadFreedIsThereForOthersWhenItEnds) {
  void* object = nullptr;
  std::thread([&] {
    object = pool.atomically([](Tx& tx) { return tx.allocate(3000); });
    void* const other = pool.atomically([](Tx& tx) { return tx.allocate(3000); });
    pool.atomically([&](Tx& tx) { tx.free(object); });
    EXPECT_EQ(pool.atomically([](Tx& tx) { return tx.allocate(3000); }), object) << "its own first";
    pool.atomically([&](Tx& tx) { tx.free(object); });
    pool.atomically([&](Tx& tx) { tx.free(other); });
  }).join();
  // The pool's first superblock of this class belongs to the context that the thread had.
  std::set<void*> found;
  for (int i = 0; i < 4; ++i)
    found.insert(pool.atomically([](Tx& tx) { return tx.allocate(3000); }));
  EXPECT_TRUE(found.contains(object));
}

// A reader that still holds a pointer to what was freed must not see what the engine itself puts
// there.
TEST_P(TransactionTest, AStalePointerNeverShowsTheEnginesOwnWrites) {
  struct Large {
    std::array<std::uint64_t, 4000> word;
  };
  Image small =
      Image::formatted({std::uint64_t{8} << 20, std::uint64_t{128} << 10, kPageBytes, 3, 8});
  Pool on_small = small.pool(GetParam(), 16).value();
  auto* head = on_small.root<perdure::pptr<Node>>("head");
  auto* large = on_small.root<Large>("large");
  int seen = 0;
  for (std::size_t bytes = 2000; bytes <= 70000; bytes += 500) {
    on_small.atomically([&](Tx& tx) {
      auto* node = static_cast<std::uint64_t*>(tx.allocate(bytes));
      for (std::size_t i = 0; i < bytes / 8; ++i) tx.store(node[i], 77);
      tx.store(head->offset, tx.link_to(node).offset);
    });
    Turns turns;
    std::thread other([&] {
      turns.wait_for(1);
      on_small.atomically([&](Tx& tx) {
        tx.free(tx.at(*head));
        tx.store(head->offset, 0);
      });
      on_small.atomically([&](Tx& tx) {  // spills about as much as was freed
        for (std::size_t i = 0; i < std::min<std::size_t>(bytes / 8 - 2, 4000); ++i)
          tx.store(large->word[i], i);
      });
      turns.next();
    });
    int attempts = 0;
    on_small.atomically([&](Tx& tx) {
      const perdure::pptr<std::uint64_t> node{tx.load(head->offset)};
      if (++attempts == 1) {
        turns.next();
        turns.wait_for(2);
      }
      if (!node) return;
      for (std::size_t i = 0; i < bytes / 8; ++i) seen += tx.load(tx.at(node)[i]) == 77 ? 0 : 1;
    });
    other.join();
  }
  EXPECT_EQ(seen, 0);
}

TEST_P(TransactionTest, AListIsPushedAndPoppedByManyThreadsWithoutLossOrLeak) {
  auto* head = pool.root<perdure::pptr<Node>>("head");
  const std::uint64_t objects = core_of(pool).heap().usage().objects;
  std::atomic<std::uint64_t> pushed{0};
  std::atomic<std::uint64_t> popped{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < kRounds / 4; ++i) {
        try {
          if (random() % 2 == 0) {
            const std::uint64_t value = random() % 1000;
            pool.atomically([&](Tx& tx) {
              auto* node = static_cast<Node*>(tx.allocate(sizeof(Node)));
              tx.store(node->value, value);
              tx.store(node->next.offset, tx.load(head->offset));
              tx.store(head->offset, tx.link_to(node).offset);
            });
            pushed += value;
          } else {
            popped += pool.atomically([&](Tx& tx) -> std::uint64_t {
              const perdure::pptr<Node> first{tx.load(head->offset)};
              if (!first) return 0;
              Node* node = tx.at(first);
              const std::uint64_t value = tx.load(node->value);
              const std::uint64_t next = tx.load(node->next.offset);
              tx.free(node);
              tx.store(head->offset, next);
              return value;
            });
          }
        } catch (const Exception&) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  Pool recovered = after_kill();
  for (Pool* of : {&pool, &recovered}) {
    std::uint64_t left = 0;
    std::uint64_t nodes = 0;
    of->read_only([&](Tx& tx) {
      left = nodes = 0;
      const auto* root = of->find_root<perdure::pptr<Node>>("head");
      for (perdure::pptr<Node> at{tx.load(root->offset)}; at;
           at.offset = tx.load(tx.at(at)->next.offset)) {
        left += tx.load(tx.at(at)->value);
        ++nodes;
      }
    });
    EXPECT_EQ(popped + left, pushed.load());
    EXPECT_EQ(core_of(*of).heap().usage().objects, objects + nodes)
        << "nothing leaked, nothing lost";
  }
}

}  // namespace
}  // namespace perdure
