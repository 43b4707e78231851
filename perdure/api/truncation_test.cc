// SPDX-License-Identifier: BSD-3-Clause
// When home words become durable and logs are emptied is a choice of speed: whatever is chosen, and
// whenever it changes, results and what survives are the same.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "tests/small_space.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::in_child;
using testing::kSanitized;
using testing::TempDir;

constexpr std::array kAll = {Truncation::kAuto, Truncation::kEachCommit, Truncation::kNextCommit,
                             Truncation::kWhenFull, Truncation::kBackground};

constexpr std::array kOfTables = {Truncation::kAuto, Truncation::kWhenFull,
                                  Truncation::kBackground};  // of the softwrap engine

struct Table {
  std::array<std::uint64_t, 600> word;
};

/// A pool with logs so small that they fill all the time.
papers::LabOptions tiny_logs(DomainKind domain, Truncation truncation,
                             EngineKind engine = EngineKind::kMnemosyne) {
  papers::LabOptions options;
  options.engine = engine;
  options.domain = domain;
  options.truncation = truncation;
  options.capacity_bytes = std::uint64_t{16} << 20;
  options.segment_bytes = std::uint64_t{128} << 10;
  options.ring_bytes = 4096;
  options.log_slots = 8;
  options.root_entries = 4;
  options.lock_bits = 10;
  options.private_bytes = 64 << 10;  // pages come and go
  return options;
}

class TruncationTest
    : public ::testing::TestWithParam<std::tuple<Truncation, DomainKind, EngineKind>> {
 protected:
  Truncation mode() const { return std::get<0>(GetParam()); }
  DomainKind domain() const { return std::get<1>(GetParam()); }
  EngineKind engine() const { return std::get<2>(GetParam()); }
  bool on_memory() const { return domain() != DomainKind::kSync; }
  /// Committed words go home apart from the commits: from a table, or from private pages over
  /// memory.
  bool retires() const {
    return engine() == EngineKind::kSoftwrapTables ||
           (engine() == EngineKind::kSoftwrap && on_memory());
  }
  papers::LabOptions options() const { return tiny_logs(domain(), mode(), engine()); }
  Pool open() const { return papers::open_or_create(path_, options()).value(); }
  /// Fewer where each one waits for a device.
  int times(int on_memory_times) const {
    return std::max(1, on_memory_times / (on_memory() ? 1 : 20) / (kSanitized ? 10 : 1));
  }
  /// Records that a start right now would replay: those of a copy of the file as it is.
  std::uint64_t records_in_logs() const {
    std::filesystem::copy_file(path_, path_ + ".copy",
                               std::filesystem::copy_options::overwrite_existing);
    return papers::inspect(path_ + ".copy").value().recovery().records_replayed;
  }

  TempDir dir_;
  std::string path_ = dir_ / "pool";
};
const auto name_of = [](const auto& of) {
  std::string name(engine_name(std::get<2>(of.param)));
  name += "_" + std::string(truncation_name(std::get<0>(of.param)));
  std::erase(name, '-');
  return name + "_" + std::string(domain_name(std::get<1>(of.param)));
};
INSTANTIATE_TEST_SUITE_P(
    Modes, TruncationTest,
    ::testing::Combine(::testing::ValuesIn(kAll),
                       ::testing::Values(DomainKind::kDram, DomainKind::kAdr, DomainKind::kSync),
                       ::testing::Values(EngineKind::kMnemosyne, EngineKind::kBlurred,
                                         EngineKind::kAdaptive)),
    name_of);
INSTANTIATE_TEST_SUITE_P(
    Tables, TruncationTest,
    ::testing::Combine(::testing::ValuesIn(kOfTables),
                       ::testing::Values(DomainKind::kDram, DomainKind::kAdr, DomainKind::kSync),
                       ::testing::Values(EngineKind::kSoftwrap, EngineKind::kSoftwrapTables)),
    name_of);

// ---- results ------------------------------------------------------------------------------------

/// Small, large and spilled transactions, allocation and free, failures: a sum over all that is
/// there afterwards.
std::uint64_t work(Pool& pool, int rounds) {
  auto* table = pool.root<Table>("table");
  auto* list = pool.root<std::uint64_t>("list");
  for (int i = 0; i < rounds; ++i) {
    const std::size_t count = i % 50 == 49 ? 600 : 1 + static_cast<std::size_t>(i * 7 % 40);
    pool.atomically([&](Tx& tx) {
      for (std::size_t k = 0; k < count; ++k) {
        std::uint64_t& word = table->word[(static_cast<std::size_t>(i) * 31 + k) % 600];
        tx.store(word, tx.load(word) * 3 + k + 1);
      }
      auto* node = static_cast<std::uint64_t*>(tx.allocate(16u << (i % 8)));
      tx.store(*node, tx.load(*list));
      tx.store(*list, tx.link_to(node).offset);
    });
    if (i % 3 == 0) {
      pool.atomically([&](Tx& tx) {
        auto* node = tx.at(pptr<std::uint64_t>{tx.load(*list)});
        tx.store(*list, tx.load(*node));
        tx.free(node);
      });
    }
    if (i % 11 == 0) {
      EXPECT_EQ(code_thrown_by([&] {
                  pool.atomically([&](Tx& tx) {
                    tx.store(table->word[0], 0);
                    throw Exception(Code::kInvalid, "the user's");
                  });
                }),
                "invalid");
    }
  }
  pool.checkpoint();  // not every engine has it home yet
  std::uint64_t sum = core_of(pool).heap().usage().objects;
  for (const std::uint64_t word : table->word) sum = sum * 31 + word;
  return sum;
}

TEST_P(TruncationTest, ResultsAreThoseOfEveryOtherChoice) {
  const int rounds = times(1000);
  std::uint64_t expected = 0;
  {
    papers::LabPool pool =
        papers::create(dir_ / "plain", tiny_logs(DomainKind::kDram, Truncation::kAuto)).value();
    expected = work(pool, rounds);
  }
  {
    Pool pool = open();
    const Truncation of_auto =
        retires() || !on_memory() ? Truncation::kBackground : Truncation::kNextCommit;
    EXPECT_EQ(core_of(pool).engine().truncation(), mode() != Truncation::kAuto ? mode() : of_auto);
    EXPECT_EQ(work(pool, rounds), expected);
  }
  Pool pool = open();
  EXPECT_EQ(pool.recovery().records_replayed, 0u) << "a closed pool has nothing to replay";
  EXPECT_EQ(work(pool, 0), expected);
}

TEST_P(TruncationTest, ALongTransactionIsInNobodysWay) {
  const int rounds = times(400);
  {
    Pool pool = open();
    auto* table = pool.root<Table>("table");
    int attempts = 0;
    pool.atomically([&](Tx& tx) {
      ++attempts;
      tx.store(table->word[599], 1);
      for (std::size_t k = 0; k < 300; ++k) tx.store(table->word[k], k);
      std::thread([&] {  // fills its log many times meanwhile
        for (int i = 0; i < rounds; ++i)
          pool.atomically([&](Tx& other) {
            for (std::size_t k = 400; k < 440; ++k)
              other.store(table->word[k], other.load(table->word[k]) + 1);
          });
        pool.checkpoint();
        pool.set_truncation(mode());
      })
          .join();
    });
    EXPECT_LE(attempts, 2) << "at most one ownership record is shared by chance";
  }
  Pool pool = open();
  const auto* table = pool.find_root<Table>("table");
  EXPECT_EQ(table->word[599], 1u);
  for (std::size_t k = 0; k < 300; ++k) EXPECT_EQ(table->word[k], k);
  EXPECT_EQ(table->word[439] % static_cast<std::uint64_t>(rounds), 0u);
}

TEST_P(TruncationTest, OfWhatIsAcknowledgedTheLogsHoldWhatTheModeSays) {
  Pool pool = open();
  auto* table = pool.root<Table>("table");
  const bool retires_tables =
      engine() == EngineKind::kSoftwrapTables;  // and those are far from full
  // Where threads share one log, its background waits until it is half full.
  const bool in_time =
      mode() == Truncation::kBackground && !retires_tables &&
      (on_memory() || engine() == EngineKind::kAdaptive || engine() == EngineKind::kBlurred);
  pool.checkpoint();
  EXPECT_EQ(records_in_logs(), 0u);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    pool.atomically([&](Tx& tx) { tx.store(table->word[i], i); });
    if (mode() == Truncation::kEachCommit && engine() == EngineKind::kMnemosyne) {
      EXPECT_EQ(records_in_logs(), 0u) << "dropped by the commit itself";
    } else if (!in_time) {
      EXPECT_EQ(records_in_logs(), i) << "kept until the log is full";
    }
  }
  if (in_time) {
    // Nobody commits any more, and the logs empty all the same.
    std::uint64_t left = records_in_logs();
    for (int waits = 0; left > 0 && waits < 500; ++waits) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      left = records_in_logs();
    }
    EXPECT_EQ(left, 0u);
  }
  if (retires_tables) return;
  const Truncation other = retires() ? Truncation::kBackground : Truncation::kNextCommit;
  pool.set_truncation(mode() == Truncation::kWhenFull ? other : Truncation::kWhenFull);
  EXPECT_EQ(records_in_logs(), 0u) << "a change empties the logs first";
}

TEST_P(TruncationTest, ALimitBoundsWhatRecoveryReplays) {
  // What a crash at any of some moments leaves to replay, at most, and what was committed in all.
  const auto most_records = [&](std::uint64_t limit) {
    papers::LabOptions options = this->options();
    options.ring_bytes = std::uint64_t{128} << 10;
    options.log_limit_bytes = limit;
    path_ = dir_ / ("pool" + std::to_string(limit));
    papers::LabPool pool = papers::create(path_, options).value();
    auto* table = pool.root<Table>("table");
    std::uint64_t most = 0;
    for (std::uint64_t i = 1; i <= 1000; ++i) {
      pool.atomically(Durability::kRelaxed, [&](Tx& tx) {
        for (std::size_t k = 0; k < 4; ++k) tx.store(table->word[(i + k * 100) % 600], i);
      });
      if (i % 50 == 0) most = std::max(most, records_in_logs());
    }
    // Larger than the limit: it must work all the same, and go at once.
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t k = 0; k < 600; ++k) tx.store(table->word[k], k + 1);
    });
    std::filesystem::copy_file(path_, path_ + ".copy",
                               std::filesystem::copy_options::overwrite_existing);
    Pool copy = papers::inspect(path_ + ".copy").value();
    EXPECT_EQ(copy.find_root<Table>("table")->word[599], 600u);
    return most;
  };
  // Four words are a record of 10 words, or 5 of 16 bytes in three quarters of the ring.
  EXPECT_LE(most_records(std::uint64_t{16} << 10), 210u);
  const bool keeps = mode() == Truncation::kWhenFull || mode() == Truncation::kNextCommit;
  if (keeps && engine() != EngineKind::kAdaptive) {  // which empties them while it tries modes
    // (Of a file's the last relaxed ones are under way to it.)
    EXPECT_GE(most_records(0), 500u) << "without a limit the ring has room for all";
  }
  papers::LabOptions too_low = options();
  too_low.log_limit_bytes = 4096;
  EXPECT_EQ(papers::open(path_, too_low).error().code, Code::kInvalid);
  too_low = options();
  too_low.recovery_target = Milliseconds(0);
  EXPECT_EQ(papers::open(path_, too_low).error().code, Code::kInvalid);
}

// ---- threads ------------------------------------------------------------------------------------

TEST_P(TruncationTest, ClosingWhileTheLogsAreFullOfFreshCommitsLosesNone) {
  std::uint64_t expected = 0;
  for (int opening = 0; opening < 6; ++opening) {
    Pool pool = open();
    auto* table = pool.root<Table>("table");
    EXPECT_EQ(pool.recovery().records_replayed, 0u);
    EXPECT_EQ(table->word[0], expected);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < times(200); ++i)
          pool.atomically([&](Tx& tx) { tx.store(table->word[0], tx.load(table->word[0]) + 1); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    expected += 3 * static_cast<std::uint64_t>(times(200));
  }
}

class SwitchingTest : public ::testing::TestWithParam<std::tuple<DomainKind, EngineKind>> {};
INSTANTIATE_TEST_SUITE_P(
    Domains, SwitchingTest,
    ::testing::Combine(::testing::Values(DomainKind::kDram, DomainKind::kAdr, DomainKind::kSync),
                       ::testing::Values(EngineKind::kMnemosyne, EngineKind::kBlurred,
                                         EngineKind::kAdaptive, EngineKind::kSoftwrap,
                                         EngineKind::kSoftwrapTables)),
    [](const auto& of) {
      return testing::name_of(std::get<1>(of.param)) + "_" +
             std::string(domain_name(std::get<0>(of.param)));
    });

TEST_P(SwitchingTest, TheChoiceMayChangeWhileFourThreadsCommit) {
  TempDir dir;
  const auto [domain, engine] = GetParam();
  const papers::LabOptions options = tiny_logs(domain, Truncation::kAuto, engine);
  std::array<std::uint64_t, 4> done{};
  std::uint64_t objects = 0;
  {
    papers::LabPool pool = papers::create(dir / "pool", options).value();
    auto* table = pool.root<Table>("table");
    objects = core_of(pool).heap().usage().objects;
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        while (!stop) {
          pool.atomically([&](Tx& tx) {
            tx.store(table->word[t], tx.load(table->word[t]) + 1);
            tx.store(table->word[100], tx.load(table->word[100]) + 1);
            if (done[t] % 16 == 0) {  // spilled
              for (std::size_t k = 200; k < 600; ++k) tx.store(table->word[k], done[t]);
            }
            tx.free(tx.allocate(16u << (done[t] % 10)));
          });
          ++done[t];
        }
      });
    }
    const int switches = domain == DomainKind::kSync ? 25 : kSanitized ? 100 : 400;
    for (int i = 0; i < switches; ++i) {
      const auto turn = static_cast<std::size_t>(i * 3);
      pool.set_truncation(is_softwrap(engine) ? kOfTables[turn % 4 % 3] : kAll[turn % kAll.size()]);
      if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
  papers::LabPool pool = papers::open(dir / "pool", options).value();
  const auto* table = pool.find_root<Table>("table");
  std::uint64_t sum = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(table->word[t], done[t]);
    EXPECT_GT(done[t], 0u);
    sum += done[t];
  }
  EXPECT_EQ(table->word[100], sum);
  for (std::size_t k = 201; k < 600; ++k) EXPECT_EQ(table->word[k], table->word[200]);
  EXPECT_EQ(core_of(pool).heap().usage().objects, objects);
}

TEST(Truncation, TwoThreadsMayChooseAtTheSameTime) {
  TempDir dir;
  papers::LabPool pool =
      papers::create(dir / "pool", tiny_logs(DomainKind::kDram, Truncation::kBackground)).value();
  auto* table = pool.root<Table>("table");
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 100; ++i) {
        pool.set_truncation(kAll[(i + t) % kAll.size()]);
        pool.atomically([&](Tx& tx) { tx.store(table->word[t], i); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table->word[0] + table->word[1], 198u);
}

TEST(Truncation, IsRefusedWhereThereAreNoLogs) {
  TempDir dir;
  papers::LabOptions options = tiny_logs(DomainKind::kDram, Truncation::kBackground);
  options.engine = EngineKind::kNonatomic;
  EXPECT_EQ(papers::create(dir / "pool", options).error().code, Code::kInvalid);
  options.truncation = Truncation::kAuto;
  papers::LabPool pool = papers::open_or_create(dir / "pool", options).value();
  EXPECT_EQ(code_thrown_by([&] { pool.set_truncation(Truncation::kWhenFull); }), "misuse");
}

// ---- death and fork -----------------------------------------------------------------------------

#if !defined(__SANITIZE_THREAD__)  // which does not follow into a child that makes threads or maps

TEST_P(TruncationTest, WhatWasAcknowledgedBeforeAKillIsThere) {
  std::array<std::uint64_t, 3> acknowledged{};
  for (int round = 0; round < 4; ++round) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Pool pool = open();
      auto* table = pool.root<Table>("table");
      std::vector<std::thread> threads;
      for (std::uint64_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          for (;;) {
            const std::uint64_t value = pool.atomically([&](Tx& tx) {
              const std::uint64_t next = tx.load(table->word[t]) + 1;
              tx.store(table->word[t], next);
              for (std::size_t k = 0; k < next % 50; ++k)
                tx.store(table->word[100 + 100 * t + k], next);
              tx.store(table->word[99], tx.load(table->word[99]) + 1);
              return next;
            });
            const std::array<std::uint64_t, 2> word = {t, value};
            (void)!::write(pipe[1], word.data(), sizeof(word));
          }
        });
      }
      threads[0].join();
    }
    ::close(pipe[1]);
    std::array<std::uint64_t, 2> word{};
    for (int i = 0; i < times(2000 + 500 * round); ++i) {
      ASSERT_EQ(::read(pipe[0], word.data(), sizeof(word)), ssize_t{sizeof(word)});
      acknowledged[word[0]] = word[1];
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(pipe[0], word.data(), sizeof(word)) == ssize_t{sizeof(word)})
      acknowledged[word[0]] = word[1];
    ::close(pipe[0]);
    Pool pool = open();
    const auto* table = pool.find_root<Table>("table");
    ASSERT_NE(table, nullptr);
    std::uint64_t sum = 0;
    for (std::uint64_t t = 0; t < 3; ++t) {
      EXPECT_GE(table->word[t], acknowledged[t]);
      EXPECT_LE(table->word[t], acknowledged[t] + 1) << "one may be under way";
      acknowledged[t] = table->word[t];
      sum += table->word[t];
      for (std::size_t k = 0; k < table->word[t] % 50; ++k)
        EXPECT_EQ(table->word[100 + 100 * t + k], table->word[t]);
    }
    EXPECT_EQ(table->word[99], sum) << "all or nothing";
  }
}

// Another thread may hold the heap of AddressSanitizer, which gcc 12's does not let go of in a
// child.
#if !defined(__SANITIZE_ADDRESS__)
TEST_P(TruncationTest, AForkedChildNeitherHangsNorHarms) {
  Pool pool = open();
  auto* table = pool.root<Table>("table");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::array<std::uint64_t, 3> done{};
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        // Far apart, so that they do not conflict, and wait for the device together.
        std::uint64_t& word = table->word[100 * t];
        pool.atomically([&](Tx& tx) { tx.store(word, tx.load(word) + 1); });
        ++done[t];
      }
    });
  }
  for (int i = 1; i < 6; ++i) {
    ::usleep(static_cast<unsigned>(500 * i));
    EXPECT_EQ(in_child([&] {
                ::alarm(20);
                const auto refused = [&](auto use) { return code_thrown_by(use) == "misuse"; };
                if (!refused([&] { pool.atomically([](Tx& tx) { tx.allocate(16); }); })) return 1;
                if (!refused([&] { pool.checkpoint(); })) return 2;
                if (!refused([&] { pool.set_truncation(Truncation::kBackground); })) return 3;
                // Closes what was inherited, with all that other threads may have held at the fork.
                pool = papers::create(dir_ / ("child" + std::to_string(i)), options()).value();
                auto* mine = pool.root<Table>("table");
                pool.atomically([&](Tx& tx) { tx.store(mine->word[0], 7); });
                pool.checkpoint();
                return mine->word[0] == 7 ? 0 : 4;
              }),
              0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  pool = papers::create(dir_ / "elsewhere", options()).value();
  Pool again = open();
  EXPECT_EQ(again.recovery().records_replayed, 0u);
  for (std::size_t t = 0; t < 3; ++t)
    EXPECT_EQ(again.find_root<Table>("table")->word[100 * t], done[t]);
}
#endif  // AddressSanitizer

#endif  // ThreadSanitizer

}  // namespace
}  // namespace perdure
