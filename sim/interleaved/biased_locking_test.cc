// SPDX-License-Identifier: BSD-3-Clause
// Biased locking in every order of two or three threads: while the owner is in the middle of a
// transaction another thread begins one, or becomes the owner.
#include "sim/interleaved/interleaved_test.h"

namespace perdure::interleaved {
namespace {

using BiasedLockingInterleaved = Interleaved;

enum class Story : std::uint8_t {
  kRevoked,  // the first thread is the owner
  kBecomes,  // the second thread is about to become the owner
};
enum class Work : std::uint8_t { kMoves, kLooks };

struct Setting {
  Story story = Story::kRevoked;
  Work first = Work::kMoves;
  Work second = Work::kMoves;
  bool third = false;  // moves, too
  bool twice = false;  // the first works twice
};

/// How often a transaction has run alone, in all schedules.
std::uint64_t alone = 0;
std::uint64_t among_others = 0;

/// Threads that move an amount between two words, or see their sum.
Report sums(const Setting& setting, const Limits& limits) {
  alone = among_others = 0;
  return explore(
      setting.story == Story::kRevoked ? Bias::kToFirst : Bias::kEnded,
      [=](World& world) {
        if (setting.story == Story::kBecomes) world.let_become_owner(1);
        const auto work = [&world](std::size_t thread, Work what) {
          world.transact(thread, {.read_only = what == Work::kLooks}, [&](Tx& tx) {
            ++(tx.alone() ? alone : among_others);
            const Word from = tx.load(world.cell(0));
            const Word to = tx.load(world.cell(1));
            require(from + to == 0, "a broken sum");
            if (what == Work::kLooks) return;
            tx.store(world.cell(0), from + 1);
            tx.store(world.cell(1), to - 1);
          });
        };
        Threads all;
        all.bodies.emplace_back([=] {
          work(0, setting.first);
          if (setting.twice) work(0, setting.first);
        });
        all.bodies.emplace_back([=] { work(1, setting.second); });
        if (setting.third) all.bodies.emplace_back([=] { work(2, Work::kMoves); });
        Word moves = setting.third ? 1 : 0;
        if (setting.first == Work::kMoves) moves += setting.twice ? 2 : 1;
        if (setting.second == Work::kMoves) ++moves;
        all.after = [&world, moves] {
          require(world.cell(0) == moves && world.cell(1) == Word{0} - moves, "something is lost");
        };
        return all;
      },
      limits);
}

void expect_sound_and_both(const Report& report) {
  expect_sound(report);
  EXPECT_GT(alone, 0u);
  EXPECT_GT(among_others, 0u);
}

TEST_F(BiasedLockingInterleaved, AnOwnerNeverSeesNorLosesWhatAnotherCommits) {
  for (const bool store_buffers : {false, true}) {
    const Limits limits = {.preemptions = 3, .store_buffers = store_buffers};
    expect_sound_and_both(sums({}, limits));
    expect_sound_and_both(sums({.second = Work::kLooks}, limits));
    expect_sound_and_both(sums({.first = Work::kLooks}, limits));
    expect_sound_and_both(sums({.third = true}, {.store_buffers = store_buffers}));
    expect_sound_and_both(sums({.twice = true}, {.store_buffers = store_buffers}));
  }
}

TEST_F(BiasedLockingInterleaved, NorDoesAThreadThatBecomesTheOwner) {
  expect_sound_and_both(sums({.story = Story::kBecomes}, {.preemptions = 3}));
  for (const bool store_buffers : {false, true}) {
    const Limits limits = {.store_buffers = store_buffers};
    expect_sound_and_both(sums({.story = Story::kBecomes}, limits));
    expect_sound_and_both(sums({.story = Story::kBecomes, .second = Work::kLooks}, limits));
    expect_sound_and_both(sums({.story = Story::kBecomes, .first = Work::kLooks}, limits));
    expect_sound_and_both(sums({.story = Story::kBecomes, .twice = true}, limits));
  }
  expect_sound_and_both(sums({.story = Story::kBecomes, .third = true}, {}));
}

TEST_F(BiasedLockingInterleaved, EachLookAndEachWaitIsNeeded) {
  const auto revoked = [](const Setting& setting, bool store_buffers = false) {
    return [=] { return sums(setting, {.store_buffers = store_buffers}); };
  };
  // The owner looks after each load, and before it commits.
  expect_noticed({Access::kLoad, "Place::still_alone"}, revoked({.first = Work::kLooks}));
  expect_noticed({Access::kLoad, "Place::still_alone"}, revoked({}));
  // It says that it commits, and whoever begins waits until it has done so.
  expect_noticed({Access::kStore, "Place::claim"}, revoked({.second = Work::kLooks}));
  expect_noticed({Access::kLoad, "BiasedLocking::end_owner", std::memory_order_acquire},
                 revoked({.second = Work::kLooks}));
  // So does whoever begins beside the one that waits.
  expect_noticed({Access::kLock}, revoked({.third = true}));
  // Both rest on the barrier.
  expect_noticed({Access::kBarrier, "BiasedLocking::end_owner"},
                 revoked({.second = Work::kLooks}, true));
}

TEST_F(BiasedLockingInterleaved, SoIsWhatAThreadDoesBeforeItBecomesTheOwner) {
  const auto becomes = [](const Setting& setting, bool store_buffers = false) {
    return [=] { return sums(setting, {.store_buffers = store_buffers}); };
  };
  constexpr Setting kBoth = {.story = Story::kBecomes};
  // It says so, and then looks again whether anybody is running.
  expect_noticed({Access::kAgain, "BiasedLocking::others"}, becomes(kBoth));
  // Whoever begins says so before.
  expect_noticed({Access::kStore, "Place::begin_among_others"}, becomes(kBoth));
  expect_noticed({Access::kBarrier, "BiasedLocking::settle"}, becomes(kBoth, true));
}

}  // namespace
}  // namespace perdure::interleaved
