// SPDX-License-Identifier: BSD-3-Clause
// Biased locking in every order of two or three threads: while the owner, or a favoured reader, is in
// the middle of a transaction, another thread begins one, becomes the owner, or favours readers.
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
  expect_noticed({Access::kLoad, "Place::still_biased"}, revoked({.first = Work::kLooks}));
  expect_noticed({Access::kLoad, "Place::still_biased"}, revoked({}));
  // It says that it commits, and whoever begins waits until it has done so.
  expect_noticed({Access::kStore, "Place::claim"}, revoked({.second = Work::kLooks}));
  expect_noticed({Access::kLoad, "BiasedLocking::end_bias", std::memory_order_acquire},
                 revoked({.second = Work::kLooks}));
  // Both rest on the barrier.
  expect_noticed({Access::kBarrier, "BiasedLocking::end_bias"},
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
  expect_noticed({Access::kBarrier, "BiasedLocking::make_owner"}, becomes(kBoth, true));
}

// ---- favoured readers ---------------------------------------------------------------------------

enum class Reading : std::uint8_t {
  kRevoked,  // readers are favoured
  kBecomes,  // the second thread is about to favour them
  kAgain,    // the second thread ends that, and favours them again
};
struct Readers {
  Reading reading = Reading::kRevoked;
  bool third = false;  // moves, too
};

/// The first thread moves an amount (kAgain: sees the sum), the second one sees the sum.
Report readers(const Readers& setting, const Limits& limits) {
  alone = among_others = 0;
  return explore(
      setting.reading == Reading::kBecomes ? Bias::kEnded : Bias::kToReaders,
      [=](World& world) {
        if (setting.reading == Reading::kBecomes) world.let_favour_readers(1);
        const auto moves = [&world](std::size_t thread) {
          world.update(thread, [&](Tx& tx) {
            const Word from = tx.load(world.cell(0));
            tx.store(world.cell(0), from + 1);
            tx.store(world.cell(1), tx.load(world.cell(1)) - 1);
          });
        };
        const auto looks = [&world, setting](std::size_t thread) {
          world.transact(thread, {.read_only = true}, [&](Tx& tx) {
            ++(tx.alone() ? alone : among_others);
            const Word from = tx.load(world.cell(0));
            require(from + tx.load(world.cell(1)) == 0, "a broken sum");
          });
        };
        Threads all;
        if (setting.reading == Reading::kAgain) {
          all.bodies.emplace_back([=] { looks(0); });
          all.bodies.emplace_back([=, &world] {
            moves(1);
            // It looks around twice, and another thread begins between: so it cannot be the owner.
            for (int i = 0; i < 3; ++i) {
              world.let_favour_readers(1);
              world.tx(2).begin(true, false);
              world.tx(2).roll_back();
            }
            looks(1);
          });
        } else {
          all.bodies.emplace_back([=] { moves(0); });
          all.bodies.emplace_back([=] {
            looks(1);
            looks(1);
          });
        }
        if (setting.third) all.bodies.emplace_back([=] { moves(2); });
        const Word moved = setting.third ? 2 : 1;
        all.after = [&world, moved] {
          require(world.cell(0) == moved && world.cell(1) == Word{0} - moved, "something is lost");
        };
        return all;
      },
      limits);
}

TEST_F(BiasedLockingInterleaved, FavouredReadersSeeWhatWasCommittedAsAWhole) {
  expect_sound_and_both(readers({}, {.preemptions = 3}));
  for (const bool store_buffers : {false, true}) {
    const Limits limits = {.store_buffers = store_buffers};
    expect_sound_and_both(readers({}, limits));
    expect_sound_and_both(readers({.reading = Reading::kBecomes}, limits));
    expect_sound_and_both(readers({.third = true}, limits));
    expect_sound_and_both(
        readers({.reading = Reading::kAgain},
                {.preemptions = 1, .steps = 100'000, .store_buffers = store_buffers}));
  }
  expect_sound_and_both(readers({.reading = Reading::kBecomes, .third = true}, {}));
}

TEST_F(BiasedLockingInterleaved, EachStepThatFavoursReadersIsNeeded) {
  const auto of = [](const Readers& setting, const Limits& limits = {}) {
    return [=] { return readers(setting, limits); };
  };
  // A favoured reader looks after each load.
  expect_noticed({Access::kLoad, "Place::still_biased"}, of({}));
  // Who favours readers looks whether an update is running, which says so before it begins.
  expect_noticed({Access::kLoad, "BiasedLocking::others"}, of({.reading = Reading::kBecomes}));
  expect_noticed({Access::kStore, "Place::begin_among_others"}, of({.reading = Reading::kBecomes}));
  expect_noticed({Access::kBarrier, "BiasedLocking::favour_readers"},
                 of({.reading = Reading::kBecomes}, {.store_buffers = true}));
  // Nobody begins meanwhile.
  expect_noticed({Access::kLock}, of({.reading = Reading::kBecomes}));
  // And whether somebody is reading whom an earlier bias favoured, who has said so.
  expect_noticed({Access::kStore, "Place::begin_as_reader"},
                 of({.reading = Reading::kAgain}, {.preemptions = 1, .steps = 100'000}));
}

}  // namespace
}  // namespace perdure::interleaved
