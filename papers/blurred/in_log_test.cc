// SPDX-License-Identifier: BSD-3-Clause
// Execution in log, as an engine does it: what is asked of it beyond what transaction_test.cc asks of every engine.
#include <array>
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "papers/blurred/in_log_tx.h"
#include "papers/blurred/xil_side_log.h"
#include "perdure/api/pool_core.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::Image;

constexpr std::array kModes = {Truncation::kEachCommit, Truncation::kNextCommit,
                               Truncation::kWhenFull, Truncation::kBackground};
/// Rings of 4 KiB: 128 records of execution in log beside 256 words.
constexpr Geometry kTiny = {std::uint64_t{8} << 20, std::uint64_t{128} << 10, kPageBytes, 6, 8};

struct Table {
  std::array<std::uint64_t, 512> word;
};

/// Whether the running transaction's values are in its log.
bool in_log(Tx& tx) { return dynamic_cast<blurred::InLogTx&>(tx).in_log(); }

struct InLogTest : ::testing::TestWithParam<Truncation> {
  InLogTest() { pool.set_truncation(GetParam()); }
  /// What a kill at this moment leaves, opened by `engine`.
  Pool after_kill(EngineKind engine = EngineKind::kBlurred) {
    // No consumer while the image is copied: it would be of two moments.
    if (GetParam() == Truncation::kBackground) pool.set_truncation(Truncation::kWhenFull);
    killed.push_back(std::make_unique<Image>(image));
    if (GetParam() == Truncation::kBackground) pool.set_truncation(Truncation::kBackground);
    return killed.back()->pool(engine).value();
  }
  LogSlot& slot() { return core_of(pool).logs().slot(core_of(pool).context().tx.slot()); }
  XilLog& log() { return *blurred::XilSideLog::of(slot()).log(); }
  Image image = Image::formatted(kTiny);
  std::vector<std::unique_ptr<Image>> killed;
  Pool pool = image.pool(EngineKind::kBlurred, 12).value();
  Table* table = pool.root<Table>("table");
};
INSTANTIATE_TEST_SUITE_P(Modes, InLogTest, ::testing::ValuesIn(kModes), [](const auto& of) {
  std::string name(truncation_name(of.param));
  std::erase(name, '-');
  return name;
});

TEST_P(InLogTest, AStoreIsInTheLogAtOnceAndCountsWithItsCommitOnly) {
  pool.atomically([&](Tx& tx) {
    EXPECT_TRUE(in_log(tx));
    tx.store(table->word[3], 33);
    EXPECT_EQ(log().open_records(), 1u);
    tx.store(table->word[3], 44);
    EXPECT_EQ(log().open_records(), 1u) << "rewritten in place";
    EXPECT_EQ(tx.load(table->word[3]), 44u);
    EXPECT_EQ(table->word[3], 0u);
    EXPECT_EQ(after_kill().find_root<Table>("table")->word[3], 0u);
  });
  EXPECT_EQ(log().open_records(), 0u);
  EXPECT_EQ(table->word[3], 44u);
  EXPECT_EQ(after_kill().find_root<Table>("table")->word[3], 44u);
}

TEST_P(InLogTest, AWordRewrittenMoreOftenThanARecordCountsKeepsItsLastValue) {
  pool.atomically([&](Tx& tx) {
    for (std::uint64_t i = 1; i <= 500; ++i) tx.store(table->word[7], i);
    EXPECT_EQ(tx.load(table->word[7]), 500u);
    EXPECT_TRUE(in_log(tx));
  });
  EXPECT_EQ(after_kill().find_root<Table>("table")->word[7], 500u);
}

TEST_P(InLogTest, WhatIsGivenUpLeavesTheLogAndNothingElse) {
  struct GiveUp {};
  for (std::uint64_t i = 1; i <= 200; ++i) {
    EXPECT_THROW(pool.atomically([&](Tx& tx) {
      for (std::uint64_t k = 0; k < i % 60; ++k) tx.store(table->word[k], 999999);
      tx.allocate(100);
      throw GiveUp{};
    }),
                 GiveUp);
    EXPECT_EQ(log().open_records(), 0u);
    if (i % 3 == 0) pool.atomically([&](Tx& tx) { tx.store(table->word[i % 512], i); });
    if (i % 20 != 0) continue;
    Pool recovered = after_kill();
    const auto* found = recovered.find_root<Table>("table");
    for (std::uint64_t k = 0; k < 512; ++k)
      ASSERT_EQ(found->word[k], k % 3 == 0 && k <= i ? k : 0) << i << " " << k;
  }
}

TEST_P(InLogTest, ALogThatFillsIsEmptiedWhileTheTransactionGoesOn) {
  for (std::uint64_t round = 1; round <= 50; ++round) {
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t k = 0; k < 50; ++k) tx.store(table->word[k], round * 100 + k);
      EXPECT_TRUE(in_log(tx));
      for (std::uint64_t k = 0; k < 50; ++k) EXPECT_EQ(tx.load(table->word[k]), round * 100 + k);
    });
    Pool recovered = after_kill();
    const auto* found = recovered.find_root<Table>("table");
    for (std::uint64_t k = 0; k < 50; ++k) ASSERT_EQ(found->word[k], round * 100 + k);
  }
}

TEST_P(InLogTest, ATransactionTooLargeForTheLogGoesOnWithoutIt) {
  for (std::uint64_t round = 1; round <= 20; ++round) {
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t k = 0; k < 512; ++k) tx.store(table->word[k], round * 1000 + k);
      EXPECT_FALSE(in_log(tx));
      tx.store(table->word[5], round);
      EXPECT_EQ(tx.load(table->word[6]), round * 1000 + 6);
    });
    pool.atomically([&](Tx& tx) {
      EXPECT_TRUE(in_log(tx));
      tx.store(table->word[7], round);
    });
    Pool recovered = after_kill();
    const auto* found = recovered.find_root<Table>("table");
    EXPECT_EQ(found->word[5], round);
    EXPECT_EQ(found->word[7], round);
    EXPECT_EQ(found->word[511], round * 1000 + 511);
  }
}

TEST_P(InLogTest, AnOlderValueInTheLogIsNotReplayedOverOneThatWentAroundIt) {
  pool.atomically([&](Tx& tx) { tx.store(table->word[0], 1); });
  pool.atomically([&](Tx& tx) {
    static_cast<blurred::InLogTx&>(tx).go_buffered();
    tx.store(table->word[0], 2);
  });
  EXPECT_EQ(after_kill().find_root<Table>("table")->word[0], 2u);
  pool.atomically([&](Tx& tx) { tx.store(table->word[0], 3); });
  EXPECT_EQ(after_kill().find_root<Table>("table")->word[0], 3u);
}

TEST_P(InLogTest, ComingBackToASavepointGivesOldValuesAndMasksBack) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(&table->word[9]);
  pool.atomically([&](Tx& tx) {
    const std::array<std::uint8_t, 3> first{1, 2, 3};
    tx.write_exact(bytes, first.data(), 3);
    tx.store(table->word[1], 10);
    const Tx::Savepoint savepoint = tx.save();
    const std::array<std::uint8_t, 5> second{9, 9, 9, 9, 9};
    tx.write_exact(bytes + 2, second.data(), 5);
    tx.store(table->word[1], 11);
    tx.store(table->word[2], 12);
    tx.roll_back_to(savepoint);
    EXPECT_EQ(tx.load(table->word[1]), 10u);
    EXPECT_EQ(tx.load(table->word[2]), 0u);
    tx.store(table->word[3], 13);
  });
  Pool recovered = after_kill();
  for (const Table* found : {table, recovered.find_root<Table>("table")}) {
    EXPECT_EQ(found->word[9], 0x030201u);
    EXPECT_EQ(found->word[1], 10u);
    EXPECT_EQ(found->word[2], 0u);
    EXPECT_EQ(found->word[3], 13u);
  }
}

TEST_P(InLogTest, TheHeapCommitsWhatItNeedsInTheMiddleOfATransaction) {
  std::vector<std::uint64_t*> objects;
  pool.atomically([&](Tx& tx) {
    tx.store(table->word[0], 1);
    for (std::size_t bytes = 16; bytes <= 100000; bytes *= 2) {
      objects.push_back(static_cast<std::uint64_t*>(tx.allocate(bytes)));
      tx.store(*objects.back(), bytes);
    }
    EXPECT_TRUE(in_log(tx));
  });
  const std::uint64_t live = core_of(pool).heap().usage().objects;
  EXPECT_EQ(core_of(after_kill()).heap().usage().objects, live);
  pool.atomically([&](Tx& tx) {
    for (std::uint64_t* object : objects) tx.free(object);
    EXPECT_TRUE(in_log(tx));
  });
  EXPECT_EQ(core_of(after_kill()).heap().usage().objects, live - objects.size());
}

TEST_P(InLogTest, EachEngineRecoversWhatTheOtherLeftAndMakesTheRingsItsOwn) {
  const auto value = [](std::uint64_t life, std::uint64_t k) { return life * 1000 + k; };
  std::vector<std::unique_ptr<Image>> lives;
  auto now = std::make_unique<Image>(Image::formatted(kTiny));
  for (std::uint64_t life = 1; life <= 12; ++life) {
    Pool opened =
        now->pool(life % 3 == 0 ? EngineKind::kMnemosyne : EngineKind::kBlurred, 12).value();
    auto* mine = opened.root<Table>("table");
    for (std::uint64_t k = 0; life > 1 && k < 512; ++k)
      ASSERT_EQ(mine->word[k], value(life - 1, k)) << life;
    if (GetParam() != Truncation::kBackground) opened.set_truncation(GetParam());
    for (std::uint64_t k = 0; k < 512; k += 8) {
      opened.atomically([&](Tx& tx) {
        for (std::uint64_t i = k; i < k + 8; ++i) tx.store(mine->word[i], value(life, i));
      });
    }
    auto left = std::make_unique<Image>(*now);  // the process is killed here
    lives.push_back(std::move(now));            // outlives its pool
    now = std::move(left);
  }
}

TEST_P(InLogTest, ThreadsThatConflictAndGiveUpLoseNothing) {
  std::array<std::uint64_t, 4> done{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < (testing::kSanitized ? 300 : 3000); ++i) {
        const std::uint64_t length = random() % 20;
        const bool gives_up = random() % 4 == 0;
        try {
          pool.atomically([&](Tx& tx) {
            tx.store(table->word[t], tx.load(table->word[t]) + 1);
            for (std::uint64_t k = 0; k < length; ++k) {
              std::uint64_t& word = table->word[100 + (random() % 8) * 16];
              tx.store(word, tx.load(word) + 1);
            }
            tx.store(table->word[64], tx.load(table->word[64]) + 1 + length);
            if (gives_up) throw std::runtime_error("user");
          });
          ++done[t];
        } catch (const std::runtime_error&) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto sound = [&](const Table& found) {
    std::uint64_t sum = 0;
    for (std::size_t t = 0; t < 4; ++t) {
      EXPECT_EQ(found.word[t], done[t]);
      sum += done[t];
    }
    for (std::size_t k = 0; k < 8; ++k) sum += found.word[100 + k * 16];
    EXPECT_EQ(found.word[64], sum);
  };
  sound(*table);
  sound(*after_kill().find_root<Table>("table"));
  sound(*after_kill(EngineKind::kMnemosyne).find_root<Table>("table"));
}

TEST(InLog, TheHeadSaysWhichEngineARingIsOf) {
  Image image = Image::formatted(kTiny);
  const Offset head = image.super().head_offset;
  EXPECT_EQ(image.word(head), seal(0, kSaltHead));
  for (int i = 0; i < 3; ++i) {
    {
      Pool pool = image.pool(EngineKind::kBlurred).value();
      pool.root<std::uint64_t>("one" + std::to_string(i));
      EXPECT_TRUE(unseal(image.word(head), kSaltInLogHead));
    }
    EXPECT_EQ(image.word(head), seal(0, kSaltHead)) << "closed, it is as any unused one";
    {
      Pool pool = image.pool(EngineKind::kMnemosyne).value();
      EXPECT_EQ(image.word(head), seal(0, kSaltHead)) << "never used, until a thread needs it";
      pool.root<std::uint64_t>("another" + std::to_string(i));
      EXPECT_GT(unseal(image.word(head), kSaltLineHead).value_or(0), 0u);
    }
  }
}

TEST(InLog, TheLibraryAloneRefusesWhatAKillLeftAndSaysWhatToDo) {
  Image image = Image::formatted(kTiny);
  Pool pool = image.pool(EngineKind::kBlurred).value();
  pool.root<std::uint64_t>("one");
  Image killed = image;
  const Image before = killed;
  const Result<Pool> refused = killed.pool();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kVersion);
  EXPECT_NE(refused.error().message.find("perdure-lab recover"), std::string::npos);
  EXPECT_TRUE(killed == before) << "nothing is written";
  {
    Pool recovered = killed.pool(EngineKind::kMnemosyne).value();
  }  // the laboratory's
  EXPECT_TRUE(killed.pool().ok());
}

// ---- the adaptive engine ------------------------------------------------------------------------

TEST(AdaptiveTest, ItRunsInEitherModeAndAKillLosesNothing) {
  Image image = Image::formatted(kTiny);
  Pool pool = image.pool(EngineKind::kAdaptive, 12).value();
  auto* table = pool.root<Table>("table");
  std::array<std::uint64_t, 2> ran{};  // buffered, in the log
  std::uint64_t plain = 0;             // as quick as those of a thread alone are
  Table expected{};
  for (std::uint64_t i = 1; i <= 12'000; ++i) {
    pool.atomically([&](Tx& tx) {
      ++ran[in_log(tx)];
      plain += tx.plain() ? 1 : 0;
      for (std::uint64_t word = 0; word < 3; ++word)
        tx.store(table->word[(i * 7 + word * 31) % 512], i);
    });
    for (std::uint64_t word = 0; word < 3; ++word) expected.word[(i * 7 + word * 31) % 512] = i;
    if (i % 500 > 2) continue;  // around the change from one mode to the other
    Image killed = image;
    Pool after = killed.pool(EngineKind::kAdaptive, 12).value();
    ASSERT_EQ(after.find_root<Table>("table")->word, expected.word) << "after " << i;
  }
  EXPECT_GT(ran[0], 4000u);
  EXPECT_GT(ran[1], 4000u);
  EXPECT_GT(plain, 3000u);
  EXPECT_LE(plain, ran[0]);
}

}  // namespace
}  // namespace perdure
