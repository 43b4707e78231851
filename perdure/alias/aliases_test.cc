// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/alias/aliases.h"

#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "sim/interleave/interleaver.h"

namespace perdure::alias {
namespace {

using interleave::Body;

constexpr AliasLimits kTiny = {8, 2, 64};
constexpr Offset kFirst = 4096;

// ---- one thread ---------------------------------------------------------------------------------

/// Bytes in memory beside bytes behind aliases.
struct Mirror {
  explicit Mirror(const AliasLimits& limits) : aliases(limits, 1) { aliases.states().add(wrap); }

  Word home_word(Offset at) const {
    Word word = 0;
    std::memcpy(&word, home.data() + at - kFirst, sizeof(word));
    return word;
  }
  void store(Offset at, Word value, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes;) {
      const Offset word = round_down(at + done, kWordBytes);
      const std::size_t skip = at + done - word;
      const std::size_t here = std::min(bytes - done, kWordBytes - skip);
      ASSERT_TRUE(aliases.store(word, value >> (8 * done) << (8 * skip), byte_mask(skip, here)));
      done += here;
    }
    std::memcpy(expected.data() + at - kFirst, &value, bytes);
  }
  void write(Offset at, const std::string& bytes) {
    ASSERT_TRUE(aliases.write(at, bytes.data(), bytes.size()));
    std::memcpy(expected.data() + at - kFirst, bytes.data(), bytes.size());
  }
  bool take_home(const AliasTable<>& table) {
    table.for_each([&](const MaskedWrite& write) {
      const Word word = (home_word(write.offset) & ~write.mask) | (write.value & write.mask);
      std::memcpy(home.data() + write.offset - kFirst, &word, sizeof(word));
    });
    return true;
  }
  void expect_equal() {
    for (std::size_t i = 0; i < expected.size(); i += kWordBytes) {
      Word word = 0;
      std::memcpy(&word, expected.data() + i, sizeof(word));
      ASSERT_EQ(aliases.load(kFirst + i, [&](Offset at) { return home_word(at); }), word) << i;
    }
  }

  Aliases<> aliases;
  Aliases<>::Wrap wrap;
  std::array<char, 1024> home{};
  std::array<char, 1024> expected{};
};

TEST(Aliases, WordsAndExtentsAreSeenAsInMemoryThroughEveryState) {
  for (const std::uint64_t page_bytes : {64u, 128u, 1024u}) {
    Mirror mirror({512, 64, page_bytes});
    std::mt19937_64 random(page_bytes);
    for (int wrap = 0; wrap < 300; ++wrap) {
      mirror.aliases.states().open(mirror.wrap);
      for (int i = 0; i < 10; ++i) {
        const std::size_t bytes = 1 + random() % (random() % 2 == 0 ? 8 : 200);
        const Offset at = kFirst + random() % (mirror.home.size() - bytes);
        if (bytes <= 8) {
          mirror.store(at, random(), bytes);
        } else {
          mirror.write(at, std::string(bytes, static_cast<char>(random())));
        }
      }
      mirror.expect_equal();
      mirror.aliases.states().close(mirror.wrap);
      switch (random() % 3) {
        case 0: mirror.aliases.states().fill(); break;
        case 1: mirror.aliases.advance([&](const auto& table) { return mirror.take_home(table); });
      }
      mirror.expect_equal();
    }
  }
}

TEST(Aliases, WhatHasNoRoomIsRefused) {
  Aliases<> aliases(kTiny, 1);
  for (Offset i = 0; i < kTiny.words; ++i)
    EXPECT_TRUE(aliases.store(kFirst + 8 * i, i, kWholeWord));
  EXPECT_TRUE(aliases.is_full());
  EXPECT_FALSE(aliases.store(kFirst + 8 * kTiny.words, 1, kWholeWord));
  EXPECT_TRUE(aliases.store(kFirst, 7, kWholeWord)) << "what is there may change";
  const std::string bytes(3 * 64, 'x');
  EXPECT_FALSE(aliases.write(kFirst, bytes.data(), bytes.size()));
  EXPECT_TRUE(aliases.write(kFirst, bytes.data(), 128));
  EXPECT_TRUE(aliases.states().fill());
  EXPECT_FALSE(aliases.is_full());
  EXPECT_FALSE(aliases.states().fill()) << "the other one is not empty yet";
}

TEST(Aliases, ATableIsUsedAgainWhenNobodyLooksThereAnyMore) {
  Aliases<> aliases(kTiny, 1);
  Aliases<>::Wrap early;
  Aliases<>::Wrap late;
  auto& states = aliases.states();
  states.add(early);
  states.add(late);
  const auto advance = [&] { return aliases.advance([](const auto&) { return true; }); };
  EXPECT_FALSE(advance());
  states.open(early);
  ASSERT_TRUE(states.fill());
  EXPECT_FALSE(advance()) << "a wrap of its time is open";
  states.open(late);
  states.close(early);
  EXPECT_TRUE(advance());
  EXPECT_EQ(states.state(0), TableState::kClosed);
  EXPECT_FALSE(aliases.advance([](const auto&) { return false; })) << "it could not go home";
  EXPECT_TRUE(advance());
  EXPECT_EQ(states.state(0), TableState::kRetired);
  EXPECT_FALSE(advance()) << "a wrap that may look there is open";
  EXPECT_FALSE(states.view().second);
  states.open(early);  // looks there no more
  states.close(late);
  EXPECT_TRUE(advance());
  EXPECT_EQ(states.state(0), TableState::kEmpty);
  EXPECT_TRUE(states.fill());
  EXPECT_EQ(states.view().active, 0u);
}

TEST(Aliases, NewWrapsWaitWhileTheyAreHeldBack) {
  Aliases<> aliases(kTiny, 1);
  Aliases<>::Wrap open;
  Aliases<>::Wrap next;
  auto& states = aliases.states();
  states.add(open);
  states.add(next);
  states.open(open);
  EXPECT_FALSE(states.hold());
  std::atomic<bool> opened{false};
  std::thread thread([&] {
    states.open(next);
    opened = true;
    states.close(next);
  });
  states.close(open);
  while (!states.hold()) std::this_thread::yield();
  EXPECT_FALSE(opened);
  states.release();
  thread.join();
}

// ---- threads as they come -----------------------------------------------------------------------

TEST(Aliases, ThreadsAndAManagerLoseNothing) {
  constexpr unsigned kThreads = 3;
  constexpr Word kWraps = 3000;
  Aliases<> aliases({64, 8, 64}, 4);
  std::array<Aliases<>::Wrap, kThreads> wraps;
  for (auto& wrap : wraps) aliases.states().add(wrap);
  std::array<Word, 512> home{};
  const auto load = [&](Offset at) {
    return aliases.load(at, [&](Offset from) { return load_word(&home[(from - kFirst) / 8]); });
  };
  std::mutex mutex;
  std::atomic<bool> stop{false};
  std::atomic<unsigned> changes{0};
  std::thread manager([&] {
    const auto retire = [&](const AliasTable<>& table) {
      table.for_each([&](const MaskedWrite& write) {
        Word* const word = &home[(write.offset - kFirst) / 8];
        store_word(word, (load_word(word) & ~write.mask) | (write.value & write.mask));
      });
      return true;
    };
    while (!stop) {
      if (aliases.is_full() && aliases.states().fill()) ++changes;
      if (!aliases.advance(retire)) std::this_thread::yield();
    }
    while (aliases.advance(retire)) {
    }
  });
  std::vector<std::thread> threads;
  for (unsigned me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      for (Word i = 1; i <= kWraps; ++i) {
        while (aliases.is_full()) std::this_thread::yield();
        const std::lock_guard lock(mutex);
        aliases.states().open(wraps[me]);
        EXPECT_TRUE(aliases.store(kFirst, load(kFirst) + 1, kWholeWord));
        const Offset own = kFirst + 64 * (1 + me * 20 + i % 20);
        EXPECT_TRUE(i % 2 == 0 ? aliases.store(own, i, kWholeWord) : aliases.write(own, &i, 8));
        EXPECT_EQ(load(own), i);
        aliases.states().close(wraps[me]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  manager.join();
  EXPECT_EQ(load(kFirst), kThreads * kWraps);
  EXPECT_GT(changes, 10u);
}

// ---- every order of a few threads ---------------------------------------------------------------

/// A machine whose accesses to memory take place in any order of the threads.
struct Interleaved {
  template <class T>
  using Atomic = interleave::Atomic<T>;
  static void fence(Rule rule) {
    if (keeps(rule)) interleave::fence();
  }
  static void pause() { interleave::wait(); }
  static bool keeps(Rule rule) { return rule != left_out; }
  inline static std::optional<Rule> left_out;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

/// Two words of home, two threads that wrap, a manager.
struct World {
  World() {
    for (auto& wrap : wraps) aliases.states().add(wrap);
    for (std::size_t i = 0; i < home.size(); ++i) {
      committed[i] = 100 * i;  // so that no place is taken for another
      home[i].store(committed[i]);
    }
  }
  Word load(Offset at) {
    return aliases.load(at, [&](Offset from) {
      return home[(from - kFirst) / kWordBytes].load(std::memory_order_relaxed);
    });
  }
  void begin() {
    aliases.states().open(wraps[0]);
    require(aliases.store(kFirst, ++committed[0], kWholeWord), "no entry");
    aliases.states().close(wraps[0]);
    require(aliases.states().fill() && aliases.states().close(0), "no change");
  }
  /// Everything home and again, so often that each table is used twice.
  void manage(int changes, const std::function<void(const MaskedWrite&)>& check) {
    for (; changes > 0; --changes) {
      while (!aliases.states().fill()) {
        while (!advance(check)) Interleaved::pause();
      }
    }
    while (aliases.states().state(1 - aliases.states().view().active) != TableState::kEmpty) {
      while (!advance(check)) Interleaved::pause();
    }
  }
  bool advance(const std::function<void(const MaskedWrite&)>& check) {
    return aliases.advance([&](const auto& table) {
      table.for_each([&](const MaskedWrite& write) {
        check(write);
        auto& word = home[(write.offset - kFirst) / kWordBytes];
        word.store((word.load() & ~write.mask) | (write.value & write.mask));
      });
      return true;
    });
  }

  Aliases<Interleaved> aliases{{2, 1, 64}, 1};
  std::array<Aliases<Interleaved>::Wrap, 2> wraps;
  std::array<interleave::Atomic<Word>, 8> home;
  interleave::Atomic<std::uint64_t> lock;
  std::array<Word, 8> committed{};
};

/// One whose word begins its search where that of the first one does.
std::size_t second_place() {
  const auto start = [](std::size_t place) {
    return OffsetIndex::hash((kFirst + place * kWordBytes) * kWordBytes) & 1;
  };
  std::size_t place = 1;
  while (start(place) != start(0)) ++place;
  return place;
}

struct Setting {
  unsigned threads = 2;
  int wraps = 2;         // of each
  bool shared = true;    // they count in one place, under a lock of theirs; else each in its own
  bool extents = false;  // some stores are extents
  bool begun = false;    // the first place has been written, and the table that has it is closed
  int changes = 1;       // of tables
  unsigned preemptions = 2;
  bool store_buffers = false;
};

/// Wraps that each add one to a counter, while tables change.
interleave::Report count(const Setting& setting) {
  return interleave::explore(
      [&] {
        auto world = std::make_shared<World>();
        if (setting.begun) world->begin();
        std::vector<Body> bodies;
        for (unsigned thread = 0; thread < setting.threads; ++thread) {
          bodies.emplace_back([world, thread, setting] {
            auto& states = world->aliases.states();
            auto& wrap = world->wraps[thread];
            const std::size_t place = setting.shared || thread == 0 ? 0 : second_place();
            const Offset at = kFirst + place * kWordBytes;
            for (int i = 0; i < setting.wraps; ++i) {
              std::uint64_t free = 0;
              while (setting.shared && !world->lock.compare_exchange_strong(free, 1)) {
                free = 0;
                Interleaved::pause();
              }
              states.open(wrap);
              const Word value = world->load(at) + 1;
              require(value == world->committed[place] + 1,
                      "a load saw what was not the last store");
              if (setting.extents && (i == 0) == (thread == 0)) {
                require(world->aliases.write(at, &value, sizeof(value)), "no page");
              } else {
                require(world->aliases.store(at, value, kWholeWord), "no entry");
              }
              require(world->load(at) == value, "a wrap does not see its own store");
              world->committed[place] = value;
              states.close(wrap);
              if (setting.shared) world->lock.store(0);
            }
          });
        }
        bodies.emplace_back([world, setting] {
          world->manage(setting.changes, [&](const MaskedWrite& write) {
            require(write.value <= world->committed[(write.offset - kFirst) / kWordBytes],
                    "what is not committed went home");
          });
        });
        return bodies;
      },
      {.preemptions = setting.preemptions,
       .schedules = 5'000'000,
       .store_buffers = setting.store_buffers});
}

class AliasesInterleaved : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!interleave::kPossible) GTEST_SKIP() << "sanitizers do not follow fibers";
  }
};

void expect_sound(const interleave::Report& report) {
  EXPECT_EQ(report.violation, "") << "in schedule " << report.schedules;
  EXPECT_TRUE(report.complete) << report.schedules;
}

TEST_F(AliasesInterleaved, UnderACallersLockEveryLoadSeesTheLastStore) {
  expect_sound(count({.changes = 2}));
  expect_sound(count({.changes = 2, .store_buffers = true}));
}

TEST_F(AliasesInterleaved, ThatHoldsForWordsAndExtentsOfTheSamePlace) {
  expect_sound(count({.extents = true}));
}

TEST_F(AliasesInterleaved, ThreadsWithPlacesOfTheirOwnMeetInTheTablesOnly) {
  expect_sound(count({.shared = false, .changes = 2}));
  expect_sound(count({.shared = false, .changes = 2, .store_buffers = true}));
}

TEST_F(AliasesInterleaved, AWrapMayLastThroughAllChanges) {
  expect_sound(count({.threads = 1, .wraps = 1, .changes = 3, .preemptions = 3}));
}

TEST_F(AliasesInterleaved, EachRuleOfTheStatesIsNeeded) {
  const auto noticed = [](Rule rule, const Setting& setting) {
    Interleaved::left_out = rule;
    EXPECT_NE(count(setting).violation, "") << "rule " << static_cast<int>(rule);
    Interleaved::left_out.reset();
  };
  noticed(Rule::kLookAgain, {.threads = 1, .wraps = 1, .changes = 2, .preemptions = 3});
  noticed(Rule::kFillWhenEmpty, {.changes = 2});
  noticed(Rule::kCloseWhenLeft, {});
  noticed(Rule::kRecycleWhenLeft, {.wraps = 1, .shared = false, .begun = true, .changes = 1});
  noticed(Rule::kLookSecond, {});
  noticed(Rule::kSayFence, {.shared = false, .store_buffers = true});
  noticed(Rule::kChangeFence, {.shared = false, .store_buffers = true});
}

TEST_F(AliasesInterleaved, ThreadsThatWriteNeighbouringBytesDoNotDisturbEachOther) {
  for (const unsigned extents :
       {0, 1, 2}) {  // so many of the threads write extents, the others words
    std::shared_ptr<World> world;
    const auto report = interleave::explore(
        [&] {
          world = std::make_shared<World>();
          std::vector<Body> bodies;
          for (unsigned thread = 0; thread < 2; ++thread) {
            bodies.emplace_back([world, thread, extents] {
              for (Word i = 1; i <= 2; ++i) {
                world->aliases.states().open(world->wraps[thread]);
                if (thread < extents) {
                  require(world->aliases.write(kFirst + thread, &i, 1), "no page");
                } else {
                  require(world->aliases.store(kFirst, i << (8 * thread), byte_mask(thread, 1)),
                          "no entry");
                }
                require((world->load(kFirst) >> (8 * thread) & 0xff) == i,
                        "a wrap does not see its own byte");
                world->aliases.states().close(world->wraps[thread]);
              }
            });
          }
          bodies.emplace_back([world] { world->manage(1, [](const MaskedWrite&) {}); });
          return bodies;
        },
        {.schedules = 5'000'000});
    expect_sound(report);
  }
}

/// As open wraps do: a word is stored in a table, then comes home in another way, and is forgotten.
interleave::Report forget(bool too_early, unsigned preemptions) {
  return interleave::explore(
      [too_early] {
        auto world = std::make_shared<World>();
        std::vector<Body> bodies;
        bodies.emplace_back([world, too_early] {
          for (Word i = 1; i <= 2; ++i) {
            world->aliases.states().open(world->wraps[0]);
            require(world->aliases.store(kFirst, i, byte_mask(0, 1)), "no entry");
            if (too_early) world->aliases.forget(kFirst, byte_mask(0, 1));
            world->home[0].store(i);
            world->aliases.forget(kFirst, byte_mask(0, 1));
            world->aliases.states().close(world->wraps[0]);
          }
        });
        bodies.emplace_back([world] {
          Word last = 0;
          for (int i = 0; i < 3; ++i) {
            world->aliases.states().open(world->wraps[1]);
            const Word value = world->load(kFirst);
            require(value >= last, "what was seen is old again");
            last = value;
            world->aliases.states().close(world->wraps[1]);
          }
        });
        bodies.emplace_back([world] {
          const auto advance = [&] {
            return world->aliases.advance([&](const auto& table) {
              table.for_each(
                  [](const MaskedWrite&) { require(false, "a word was not forgotten"); });
              return true;
            });
          };
          require(world->aliases.states().fill(), "no change");
          while (world->aliases.states().state(0) != TableState::kEmpty) {
            while (!advance()) Interleaved::pause();
          }
        });
        return bodies;
      },
      {.preemptions = preemptions, .schedules = 5'000'000});
}

TEST_F(AliasesInterleaved, WhatIsForgottenOnceItIsHomeIsNeverOldAgain) {
  expect_sound(forget(false, 2));
  EXPECT_NE(forget(true, 3).violation, "");
}

}  // namespace
}  // namespace perdure::alias
