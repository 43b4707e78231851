// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/transaction.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <stdexcept>
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
using testing::kWide;
using testing::TransactionTest;

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

/// What is long is kept apart from what is short; each overwrites the other.
TEST_P(TransactionTest, LongAndShortWritesOfTheSameBytesMatchMemcpy) {
  struct Large {
    std::array<std::uint8_t, 160000> byte;
  };
  constexpr std::size_t kSize = sizeof(Large);
  auto* large = pool.root<Large>("large");
  std::mt19937_64 random(23);
  std::vector<std::uint8_t> model(kSize);
  for (int round = 0; round < 40; ++round) {
    const bool keep = random() % 4 != 0;
    // Some records fit into the log and others do not.
    const std::size_t longest = round % 3 == 0 ? kSize : 20000;
    std::vector<std::uint8_t> now = model;
    try {
      pool.atomically([&](Tx& tx) {
        for (int i = 0; i < 8; ++i) {
          const std::size_t at = random() % kSize;
          const std::size_t most = random() % 2 == 0 ? longest : 24;
          std::vector<std::uint8_t> data(std::min<std::size_t>(random() % most, kSize - at));
          for (auto& byte : data) byte = static_cast<std::uint8_t>(random());
          tx.write(large->byte.data() + at, data.data(), data.size());
          std::copy(data.begin(), data.end(), now.begin() + static_cast<std::ptrdiff_t>(at));
          const std::size_t one = random() % kSize;
          ASSERT_EQ(tx.load(large->byte[one]), now[one]);
          tx.store(large->byte[one], static_cast<std::uint8_t>(round));
          now[one] = static_cast<std::uint8_t>(round);
          const std::size_t from = random() % kSize;
          std::vector<std::uint8_t> got(random() % (kSize - from));
          tx.read(got.data(), large->byte.data() + from, got.size());
          ASSERT_TRUE(
              std::equal(got.begin(), got.end(), now.begin() + static_cast<std::ptrdiff_t>(from)));
        }
        void* const object = tx.allocate(20000);
        tx.write(object, now.data(), 20000);
        if (round % 2 == 0) tx.free(object);
        if (!keep) throw std::runtime_error("no");
      });
      model = now;
    } catch (const std::runtime_error&) {
    }
    if (round % 4 != 0) continue;
    Pool recovered = after_kill();
    const auto* found = recovered.find_root<Large>("large");
    ASSERT_TRUE(std::equal(model.begin(), model.end(), found->byte.begin())) << round;
    ASSERT_EQ(core_of(recovered).heap().usage().objects, core_of(pool).heap().usage().objects);
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

}  // namespace
}  // namespace perdure
