// SPDX-License-Identifier: BSD-3-Clause
// Transactions of several threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/engine/transaction_test_pool.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Accounts;
using testing::Bytes;
using testing::code_thrown_by;
using testing::Image;
using testing::kRounds;
using testing::Node;
using testing::TransactionTest;
using testing::Turns;

// Here, because ThreadSanitizer's build leaves transaction_test.cc out.
INSTANTIATE_TEST_SUITE_P(Engines, TransactionTest,
                         ::testing::Values(EngineKind::kMnemosyne, EngineKind::kBlurred,
                                           EngineKind::kAdaptive, EngineKind::kSoftwrap,
                                           EngineKind::kSoftwrapTables, EngineKind::kBase,
                                           EngineKind::kUndo, EngineKind::kUndoObjects),
                         [](const auto& of) { return testing::name_of(of.param); });

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
