// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/wraps.h"

#include <array>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "tests/image.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::Image;
using testing::kSanitized;

using Words = std::array<std::uint64_t, 512>;

constexpr WrapSettings kTiny = {{64, 16, 64}, 8, std::chrono::milliseconds(2)};

/// On every engine that is durable.
struct WrapsOn : ::testing::TestWithParam<EngineKind> {
  WrapsOn() {
    Geometry geometry = testing::kSmallGeometry;
    geometry.log_slots = 8;
    image_.emplace(Image::formatted(geometry));
  }
  void reopen(const WrapSettings& settings = kTiny) {
    wraps_.reset();
    pool_.reset();
    pool_.emplace(image_->pool(GetParam()).value());
    // An image is copied while the pool is open: not while another thread writes it.
    if (is_softwrap(GetParam())) pool_->set_truncation(Truncation::kWhenFull);
    words_ = pool_->root<Words>("words");
    wraps_.emplace(*pool_, settings);
  }
  void SetUp() override { reopen(); }
  std::uint64_t committed(std::size_t i) {
    return pool_->read_only([&](Tx& tx) { return tx.load((*words_)[i]); });
  }
  /// What a kill now would leave behind.
  std::vector<std::uint64_t> after_a_kill(std::size_t count) {
    Image killed = *image_;
    Pool pool = killed.pool(GetParam()).value();
    auto* words = pool.find_root<Words>("words");
    return pool.read_only([&](Tx& tx) {
      std::vector<std::uint64_t> found;
      for (std::size_t i = 0; i < count; ++i) found.push_back(tx.load((*words)[i]));
      return found;
    });
  }

  std::optional<Image> image_;
  std::optional<Pool> pool_;
  std::optional<Wraps> wraps_;
  Words* words_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(, WrapsOn,
                         ::testing::Values(EngineKind::kMnemosyne, EngineKind::kBlurred,
                                           EngineKind::kSoftwrap, EngineKind::kSoftwrapTables,
                                           EngineKind::kUndo),
                         [](const auto& engine) { return testing::name_of(engine.param); });

TEST_P(WrapsOn, WhatItStoresIsSeenAtOnceAndDurableWhenItCloses) {
  wraps_->open();
  wraps_->store((*words_)[0], 7);
  wraps_->store((*words_)[1], 8);
  EXPECT_EQ(wraps_->load((*words_)[0]), 7u);
  if (GetParam() == EngineKind::kSoftwrap) {
    EXPECT_EQ((*words_)[0], 7u) << "a private page shows it";
  } else {
    EXPECT_EQ((*words_)[0], 0u) << "nothing of an open wrap is at home";
    EXPECT_EQ(committed(0), 0u) << "a transaction sees what is committed";
  }
  EXPECT_EQ(after_a_kill(2), (std::vector<std::uint64_t>{0, 0}));
  std::thread([&] { EXPECT_EQ(wraps_->load((*words_)[1]), 8u) << "a dirty read"; }).join();
  wraps_->close();
  EXPECT_EQ(wraps_->load((*words_)[0]), 7u);
  EXPECT_EQ(committed(1), 8u);
  EXPECT_EQ(after_a_kill(2), (std::vector<std::uint64_t>{7, 8}));
}

TEST_P(WrapsOn, ALocalOneShowsNothingBeforeItCloses) {
  wraps_->open({.local = true});
  wraps_->store((*words_)[0], 7);
  EXPECT_EQ(wraps_->load((*words_)[0]), 7u);
  std::thread([&] { EXPECT_EQ(wraps_->load((*words_)[0]), 0u); }).join();
  wraps_->close();
  std::thread([&] { EXPECT_EQ(wraps_->load((*words_)[0]), 7u); }).join();
}

TEST_P(WrapsOn, LevelsArePartOfTheOutermost) {
  wraps_->open();
  wraps_->store((*words_)[0], 1);
  wraps_->open();
  wraps_->store((*words_)[1], 2);
  EXPECT_EQ(wraps_->depth(), 2u);
  wraps_->close();
  EXPECT_EQ(after_a_kill(2), (std::vector<std::uint64_t>{0, 0}));
  wraps_->close();
  EXPECT_EQ(after_a_kill(2), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(wraps_->depth(), 0u);
}

TEST_P(WrapsOn, AnAbortTakesAllLevelsBack) {
  const std::uint64_t before = core_of(*pool_).heap().usage().objects;
  wraps_->run([&] { wraps_->store((*words_)[0], 1); });
  wraps_->open();
  wraps_->store((*words_)[0], 2);
  wraps_->open();
  (void)wraps_->allocate(100);
  wraps_->abort();
  EXPECT_TRUE(wraps_->aborted());
  EXPECT_EQ(wraps_->load((*words_)[0]), 1u);
  EXPECT_EQ(code_thrown_by([&] { wraps_->store((*words_)[0], 3); }), "misuse");
  wraps_->close();
  EXPECT_EQ(code_thrown_by([&] { wraps_->close(); }), "aborted");
  EXPECT_EQ(wraps_->depth(), 0u);
  EXPECT_EQ(committed(0), 1u);
  EXPECT_EQ(core_of(*pool_).heap().usage().objects, before);
  wraps_->run([&] { wraps_->store((*words_)[0], 4); });
  EXPECT_EQ(committed(0), 4u);
}

TEST_P(WrapsOn, WhatABodyThrowsAbortsIt) {
  struct Mine {};
  EXPECT_THROW(wraps_->run([&] {
    wraps_->store((*words_)[0], 1);
    wraps_->run([&] {
      wraps_->store((*words_)[1], 1);
      wraps_->open();  // closed by what the exception ends
      throw Mine{};
    });
  }),
               Mine);
  EXPECT_EQ(wraps_->depth(), 0u);
  EXPECT_EQ(wraps_->load((*words_)[0]), 0u);
  EXPECT_EQ(wraps_->run([&] { return 5; }), 5);
}

TEST_P(WrapsOn, ObjectsComeAndGoWithIt) {
  reopen({{256, 16, 64}, 8, std::chrono::milliseconds(2)});
  auto& address = reinterpret_cast<std::uint64_t&>((*words_)[0]);
  const std::uint64_t before = core_of(*pool_).heap().usage().objects;
  std::uint64_t* object = nullptr;
  wraps_->run([&] {
    object = static_cast<std::uint64_t*>(wraps_->allocate(800));
    for (int i = 0; i < 100; ++i) wraps_->store(object[i], i);
    wraps_->store(address, reinterpret_cast<std::uint64_t>(object));
  });
  EXPECT_EQ(core_of(*pool_).heap().usage().objects, before + 1);
  Image killed = *image_;
  {
    Pool after = killed.pool(GetParam()).value();
    EXPECT_EQ(core_of(after).heap().usage().objects, before + 1);
  }
  EXPECT_EQ(wraps_->load(object[99]), 99u);
  wraps_->open();
  wraps_->store(object[3], 33);
  wraps_->free(object);
  EXPECT_EQ(code_thrown_by([&] { wraps_->free(object); }), "misuse") << "aborts it";
  EXPECT_EQ(code_thrown_by([&] { wraps_->close(); }), "misuse");
  EXPECT_EQ(core_of(*pool_).heap().usage().objects, before + 1);
  EXPECT_EQ(wraps_->load(object[3]), 3u);
  wraps_->run([&] {
    wraps_->store(object[3], 33);
    wraps_->store(address, 0);
    wraps_->free(object);
    wraps_->free(wraps_->allocate(64));
    wraps_->free(nullptr);
  });
  EXPECT_EQ(core_of(*pool_).heap().usage().objects, before);
  wraps_->run([&] {  // in the same space, of which the open table knows nothing any more
    auto* again = static_cast<std::uint64_t*>(wraps_->allocate(800));
    wraps_->store(again[0], 5);
    EXPECT_EQ(wraps_->load(again[0]), 5u);
    wraps_->free(again);
  });
}

TEST_P(WrapsOn, ExtentsAndWordsAreOneMemory) {
  reopen({{1024, 64, 64}, 8, std::chrono::milliseconds(2)});
  std::mt19937 random(3);
  std::string expected(sizeof(Words), '\0');
  auto* bytes = reinterpret_cast<char*>(words_);
  const auto matches = [&] {
    std::string found(sizeof(Words), '?');
    wraps_->read(found.data(), bytes, found.size());
    return found == expected;
  };
  for (int round = 0; round < 60; ++round) {
    std::string before = expected;
    wraps_->open({.local = round % 5 == 4});
    for (int i = 0; i < 12; ++i) {
      const std::size_t size = i % 3 == 0 ? 1 + random() % 700 : 1 + random() % 8;
      const std::size_t at = random() % (expected.size() - size);
      const std::string text(size, static_cast<char>('a' + random() % 26));
      wraps_->write(bytes + at, text.data(), size);
      expected.replace(at, size, text);
    }
    ASSERT_TRUE(matches()) << round;
    if (round % 4 == 3) {
      wraps_->abort();
      expected = before;
      EXPECT_THROW(wraps_->close(), Exception);
    } else {
      wraps_->close();
    }
    ASSERT_TRUE(matches()) << round;
  }
  Image killed = *image_;
  Pool pool = killed.pool(GetParam()).value();
  std::string found(sizeof(Words), '?');
  const auto* root = pool.find_root<Words>("words");
  pool.read_only([&](Tx& tx) { tx.read(found.data(), root, found.size()); });
  EXPECT_EQ(found, expected);
}

TEST_P(WrapsOn, ThreadsWithLocksOfTheirOwnLoseNothing) {
  constexpr int kThreads = 4;
  const int rounds = kSanitized ? 100 : 1000;
  std::array<std::mutex, 4> locks;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < rounds; ++i) {
        const std::size_t mine = random() % locks.size();
        const std::lock_guard lock(locks[mine]);
        wraps_->open({.local = i % 7 == 0});
        // Neighbours in one word and one line, under different locks.
        auto* halves = reinterpret_cast<std::uint16_t*>(&(*words_)[mine / 4]);
        wraps_->store(halves[mine % 4],
                      static_cast<std::uint16_t>(wraps_->load(halves[mine % 4]) + 1));
        wraps_->store((*words_)[64 + mine], wraps_->load((*words_)[64 + mine]) + 1);
        if (i % 10 == 9) {
          wraps_->abort();
          EXPECT_THROW(wraps_->close(), Exception);
        } else {
          wraps_->close();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::uint64_t sum = 0;
  std::uint64_t halves = 0;
  for (std::size_t i = 0; i < locks.size(); ++i) {
    sum += committed(64 + i);
    halves += wraps_->load(reinterpret_cast<std::uint16_t*>(words_)[i]);
  }
  EXPECT_EQ(sum, static_cast<std::uint64_t>(kThreads * rounds * 9 / 10));
  EXPECT_EQ(halves, sum);
}

/// On engines where what an open wrap stores stands in tables, which have an end.
struct WrapsInTables : WrapsOn {};
INSTANTIATE_TEST_SUITE_P(, WrapsInTables,
                         ::testing::Values(EngineKind::kMnemosyne, EngineKind::kSoftwrapTables),
                         [](const auto& engine) { return testing::name_of(engine.param); });

TEST_P(WrapsInTables, OneWithoutRoomIsAbortedAndTheOthersGoOn) {
  wraps_->open();
  std::string why;
  std::thread([&] {  // what the main thread has open keeps the second table from being used again
    for (int i = 0; i < 40; ++i) wraps_->run([&] { wraps_->store((*words_)[100 + i], 1); });
    wraps_->open();
    try {
      for (int i = 0; i < 400; ++i) wraps_->store((*words_)[i], 1);
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), Code::kNoSpace);
      why = error.what();
    }
    EXPECT_EQ(code_thrown_by([&] { wraps_->close(); }), "no-space");
  })
      .join();
  EXPECT_NE(why.find("WrapSettings::open"), std::string::npos) << why;
  EXPECT_EQ(committed(0), 0u);
  EXPECT_EQ(committed(100), 1u);
  wraps_->store((*words_)[1], 1);
  wraps_->close();
  EXPECT_EQ(committed(1), 1u);
  wraps_->run([&] {  // and there is room again
    for (int i = 0; i < 40; ++i) wraps_->store((*words_)[i], 2);
  });
  EXPECT_EQ(committed(39), 2u);
}

TEST_P(WrapsInTables, AnExtentLargerThanTheTablesIsRefused) {
  EXPECT_EQ(code_thrown_by([&] {
              wraps_->run([&] {
                const Words zeros{};
                wraps_->write(words_, &zeros, sizeof(zeros));
              });
            }),
            "no-space");
  wraps_->run([&] { wraps_->write(words_, words_, sizeof(Words)); }, {.local = true});
}

TEST_P(WrapsOn, AThreadThatEndsWithItOpenHasAbortedIt) {
  for (int i = 0; i < 70; ++i) {
    std::thread([&] {
      wraps_->open();
      wraps_->store((*words_)[0], 5);
      (void)wraps_->allocate(64);
    }).join();
    ASSERT_EQ(wraps_->load((*words_)[0]), 0u);
  }
}

TEST_P(WrapsOn, MisuseIsSaidAndBreaksNothing) {
  std::uint64_t outside = 3;
  EXPECT_EQ(code_thrown_by([&] { wraps_->store((*words_)[0], 1); }), "misuse");
  EXPECT_EQ(code_thrown_by([&] { (void)wraps_->allocate(8); }), "misuse");
  EXPECT_EQ(code_thrown_by([&] { wraps_->free(words_); }), "misuse");
  EXPECT_EQ(code_thrown_by([&] { wraps_->close(); }), "misuse");
  wraps_->abort();
  EXPECT_EQ(wraps_->load(outside), 3u);
  wraps_->open();
  EXPECT_EQ(code_thrown_by([&] { wraps_->store(outside, 4); }), "misuse");
  EXPECT_EQ(outside, 3u);
  EXPECT_EQ(code_thrown_by([&] { wraps_->close(); }), "misuse");
  pool_->atomically([&](Tx&) { EXPECT_EQ(code_thrown_by([&] { wraps_->open(); }), "misuse"); });
  wraps_->open();
  pool_->atomically([&](Tx& tx) {
    EXPECT_EQ(code_thrown_by([&] { wraps_->close(); }), "misuse");
    tx.store((*words_)[1], 6);  // beside the wrap, and not part of it
  });
  wraps_->store((*words_)[0], 1);
  wraps_->close();
  EXPECT_EQ(committed(0), 1u);
  EXPECT_EQ(committed(1), 6u);
  EXPECT_EQ(code_thrown_by([&] { Wraps(*pool_, {{100, 16, 64}, 8}); }), "invalid");
}

TEST_P(WrapsOn, AChildOfForkIsRefused) {
  wraps_->open();
  wraps_->store((*words_)[0], 1);
  EXPECT_EQ(testing::in_child([&] {
              wraps_->abort();
              const auto refused = [](auto body) { return code_thrown_by(body) == "misuse"; };
              return refused([&] { (void)wraps_->load((*words_)[0]); }) &&
                             refused([&] { wraps_->store((*words_)[0], 2); }) &&
                             refused([&] { wraps_->close(); }) && refused([&] { wraps_->open(); })
                         ? 0
                         : 1;
            }),
            0);
  wraps_->close();
  EXPECT_EQ(committed(0), 1u);
}

TEST(WrapsCost, AWrapWaitsOnceAndOneThatStoresNothingNever) {
  DomainCounters counters;
  Image image = Image::formatted();
  Pool pool =
      adopt_region(image.region().value(), papers::on_dram(EngineKind::kSoftwrapTables, &counters))
          .value();
  auto* words = pool.root<Words>("words");
  Wraps wraps(pool, kTiny);
  wraps.run([&] { wraps.store((*words)[0], 1); });
  const DomainCounts before = counters.total();
  wraps.run([&] {
    for (std::size_t i = 0; i < 5; ++i) wraps.store((*words)[i * 16], 1);
  });
  EXPECT_EQ((counters.total() - before).fences, 1u);
  const DomainCounts after = counters.total();
  wraps.run([&] { (void)wraps.load((*words)[0]); });
  EXPECT_EQ((counters.total() - after).fences, 0u);
}

}  // namespace
}  // namespace perdure
