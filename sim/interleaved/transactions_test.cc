// SPDX-License-Identifier: BSD-3-Clause
// Transactions in every order of two or three threads: ownership records, the commit clock and its
// gate.
#include <array>

#include "perdure/engine/commit_window.h"
#include "sim/interleaved/interleaved_test.h"

namespace perdure::interleaved {
namespace {

using TransactionsInterleaved = Interleaved;

// ---- nothing is lost ----------------------------------------------------------------------------

/// Each thread adds one to a counter. The last one has had a Conflict if `one_again`.
Report increments(Bias bias, unsigned threads, bool one_again, const Limits& limits) {
  return explore(
      bias,
      [=](World& world) {
        Threads all;
        for (std::size_t thread = 0; thread < threads; ++thread) {
          const unsigned before = one_again && thread + 1 == threads ? 1 : 0;
          all.bodies.emplace_back([&world, thread, before] {
            Word& counter = world.cell(0);
            world.transact(thread, {.before = before},
                           [&](Tx& tx) { tx.store(counter, tx.load(counter) + 1); });
          });
        }
        all.after = [&world, threads] {
          require(world.cell(0) == threads, "an increment is lost");
        };
        return all;
      },
      limits);
}

TEST_F(TransactionsInterleaved, NoIncrementIsLost) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded}) {
    expect_sound(increments(bias, 2, false, {.preemptions = 3}));
    expect_sound(increments(bias, 3, false, {}));
    expect_sound(increments(bias, 2, false, {.store_buffers = true}));
  }
}

TEST_F(TransactionsInterleaved, NorIsOneOfAFirstAttemptBesideALaterOne) {
  expect_sound(increments(Bias::kEnded, 2, true, {.preemptions = 3}));
  expect_sound(increments(Bias::kEnded, 3, true, {}));
}

/// Two threads store to two words without having read them, in opposite orders.
Report blind_stores(unsigned before, const Limits& limits) {
  return explore(
      Bias::kEnded,
      [=](World& world) {
        Threads all;
        for (std::size_t thread = 0; thread < 2; ++thread) {
          all.bodies.emplace_back([&world, thread, before] {
            world.transact(thread, {.before = thread == 1 ? before : 0}, [&](Tx& tx) {
              tx.store(world.cell(thread), thread + 1);
              tx.store(world.cell(1 - thread), thread + 1);
            });
          });
        }
        all.after = [&world] {
          require(world.cell(0) == world.cell(1), "half of one, half of the other");
        };
        return all;
      },
      limits);
}

TEST_F(TransactionsInterleaved, WhatIsStoredBlindlyIsNeverHalfOfTwoTransactions) {
  expect_sound(blind_stores(0, {.preemptions = 3}));
  expect_sound(blind_stores(1, {.preemptions = 3}));
}

/// The word `index` of the line of a cell.
Word& word_of(World& world, std::size_t line, std::size_t index) {
  return (&world.cell(line))[index];
}

enum class Third : std::uint8_t {
  kNone,
  kLooks,   // it only reads
  kStores,  // it stores to a line that both others store to, and to one that is its own
};

/// Two threads that store, without having read them, to lines that overlap: the first to 0 and 1,
/// the second to 2 and 1. Each stores two words of one of them. The third thread reads it all. The
/// second has had `before` Conflicts.
Report overlapping_stores(Third third, unsigned before, const Limits& limits) {
  return explore(
      Bias::kEnded,
      [=](World& world) {
        const auto expect_whole = [&world](auto load) {
          const Word one = load(word_of(world, 0, 0));
          const Word both = load(word_of(world, 1, 0));
          const Word two = load(word_of(world, 2, 0));
          require(load(word_of(world, 0, 1)) == one, "half of the first one's stores");
          require(load(word_of(world, 1, 1)) == two, "half of the second one's stores");
          require(both == 0 ? one + two == 0 : (both == 1 ? one : two) == both,
                  "a store without the others of its transaction");
          return one + two;
        };
        auto seen = std::make_shared<Word>(0);
        Threads all;
        all.bodies.emplace_back([&world] {
          world.update(0, [&](Tx& tx) {
            for (Word* word : {&word_of(world, 0, 0), &word_of(world, 1, 0), &word_of(world, 0, 1)})
              tx.store(*word, 1);
          });
        });
        all.bodies.emplace_back([&world, before] {
          world.transact(1, {.before = before}, [&](Tx& tx) {
            for (Word* word : {&word_of(world, 2, 0), &word_of(world, 1, 0), &word_of(world, 1, 1)})
              tx.store(*word, 2);
          });
        });
        if (third != Third::kNone) {
          all.bodies.emplace_back([=, &world] {
            world.transact(2, {.read_only = third == Third::kLooks}, [&](Tx& tx) {
              *seen = expect_whole([&](const Word& word) { return tx.load(word); });
              if (third == Third::kLooks) return;
              tx.store(word_of(world, 1, 2), *seen + 1);
              tx.store(word_of(world, 3, 0), *seen + 1);
            });
          });
        }
        all.after = [=, &world] {
          require(expect_whole([](const Word& word) { return word; }) == 3, "stores are lost");
          const Word stored = third == Third::kStores ? *seen + 1 : 0;
          require(word_of(world, 1, 2) == stored && word_of(world, 3, 0) == stored,
                  "the third one's stores are lost");
        };
        return all;
      },
      limits);
}

TEST_F(TransactionsInterleaved, StoresToLinesThatOverlapAreSeenAndKeptAsAWhole) {
  for (const unsigned before : {0u, 1u}) {
    expect_sound(overlapping_stores(Third::kNone, before, {.preemptions = 3}));
    for (const Third third : {Third::kLooks, Third::kStores})
      expect_sound(overlapping_stores(third, before, {}));
  }
  expect_sound(overlapping_stores(Third::kNone, 0, {.store_buffers = true}));
}

// ---- opacity ------------------------------------------------------------------------------------

enum class Look : std::uint8_t {
  kOnly,     // a reader that remembers nothing
  kTracked,  // one that does, after Conflicts
  kLazily,   // it stores the sum
  kAtOnce,   // the same after a Conflict
  kRange,    // it reads both lines as one range, and then one again
};

/// One thread moves an amount between two words, twice; another sees their sum.
Report sums(Bias bias, Look how, const Limits& limits) {
  return explore(
      bias,
      [=](World& world) {
        Threads all;
        all.bodies.emplace_back([&world] {
          for (int i = 0; i < 2; ++i) {
            world.update(0, [&](Tx& tx) {
              tx.store(world.cell(0), tx.load(world.cell(0)) + 1);
              tx.store(world.cell(1), tx.load(world.cell(1)) - 1);
            });
          }
        });
        all.bodies.emplace_back([&world, how] {
          const bool updates = how == Look::kLazily || how == Look::kAtOnce;
          const unsigned before = how == Look::kTracked ? 3 : how == Look::kAtOnce ? 1 : 0;
          world.transact(1, {.read_only = !updates, .before = before}, [&](Tx& tx) {
            if (how == Look::kRange) {
              std::array<Word, kLineBytes / kWordBytes + 1> both{};
              tx.read(both.data(), &world.cell(0), sizeof(both));
              require(both.front() + both.back() == 0, "a broken sum in a range");
              require(both.front() == tx.load(world.cell(0)), "a word that changed");
              return;
            }
            const Word sum = tx.load(world.cell(1)) + tx.load(world.cell(0));
            require(sum == 0, "a broken sum");
            if (updates) tx.store(world.cell(2), sum + 1);
          });
        });
        all.after = [&world] {
          require(world.cell(0) == 2 && world.cell(1) == Word{0} - 2, "something is lost");
        };
        return all;
      },
      limits);
}

TEST_F(TransactionsInterleaved, NoAttemptSeesHalfOfACommit) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded}) {
    for (const Look how : {Look::kOnly, Look::kTracked, Look::kLazily, Look::kAtOnce, Look::kRange})
      expect_sound(sums(bias, how, {}));
    for (const Look how : {Look::kOnly, Look::kTracked, Look::kLazily})
      expect_sound(sums(bias, how, {.preemptions = 3}));
    for (const Look how : {Look::kOnly, Look::kLazily})
      expect_sound(sums(bias, how, {.store_buffers = true}));
  }
}

/// Commits that leave (0, 0), (0, 1), (2, 1) and then, if `again`, (2, 3) beside a thread that sees
/// both, the second first, and the first again.
Report extensions(Bias bias, bool again, const Limits& limits) {
  return explore(
      bias,
      [=](World& world) {
        Threads all;
        all.bodies.emplace_back([&world, again] {
          world.update(0, [&](Tx& tx) { tx.store(world.cell(1), 1); });
          world.update(0, [&](Tx& tx) { tx.store(world.cell(0), 2); });
          if (again) world.update(0, [&](Tx& tx) { tx.store(world.cell(1), 3); });
        });
        all.bodies.emplace_back([&world] {
          world.update(1, [&](Tx& tx) {
            const Word first = tx.load(world.cell(0));
            const Word second = tx.load(world.cell(1));
            require(first == 0 || second != 0, "a commit without the one before");
            require(first == 2 || second != 3, "a commit without the one before");
            require(tx.load(world.cell(0)) == first, "a word that changed");
            tx.store(world.cell(2), first + second);
          });
        });
        return all;
      },
      limits);
}

TEST_F(TransactionsInterleaved, ASnapshotMovesOnlyWhileWhatWasReadStillHolds) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded}) {
    expect_sound(extensions(bias, false, {.preemptions = 3}));
    expect_sound(extensions(bias, true, {}));
  }
}

// ---- serializability ----------------------------------------------------------------------------

/// Two threads that each take one away if both are there.
Report withdrawals(Bias bias, unsigned before, const Limits& limits) {
  return explore(
      bias,
      [=](World& world) {
        world.update(0, [&](Tx& tx) {
          tx.store(world.cell(0), 1);
          tx.store(world.cell(1), 1);
        });
        Threads all;
        for (std::size_t thread = 0; thread < 2; ++thread) {
          all.bodies.emplace_back([&world, thread, before] {
            world.transact(thread, {.before = thread == 1 ? before : 0}, [&](Tx& tx) {
              if (tx.load(world.cell(0)) + tx.load(world.cell(1)) == 2)
                tx.store(world.cell(thread), 0);
            });
          });
        }
        all.after = [&world] {
          require(world.cell(0) + world.cell(1) == 1, "both saw what the other took away");
        };
        return all;
      },
      limits);
}

TEST_F(TransactionsInterleaved, WriteSkewIsPrevented) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded}) {
    expect_sound(withdrawals(bias, 0, {.preemptions = 3}));
    expect_sound(withdrawals(bias, 1, {.preemptions = 3}));
  }
}

// ---- commits and truncations --------------------------------------------------------------------

/// One thread is twice in a commit, another keeps commits out.
Report gate(const Limits& limits) {
  return explore(
      Bias::kNone,
      [](World& world) {
        auto inside = std::make_shared<std::array<bool, 2>>();
        const auto enter = [inside](std::size_t me) {
          require(!(*inside)[1 - me], "a commit and a truncation meet");
          (*inside)[me] = true;
          interleave::step();
          (*inside)[me] = false;
        };
        Threads all;
        all.bodies.emplace_back([&world, enter] {
          for (int i = 0; i < 2; ++i) {
            const CommitWindow window(world.clock(), world.logs().slot(0));
            enter(0);
          }
        });
        all.bodies.emplace_back([&world, enter] {
          const CommitGate closed(world.clock(), world.logs());
          enter(1);
        });
        return all;
      },
      limits);
}

TEST_F(TransactionsInterleaved, NoCommitIsUnderWayBehindAClosedGate) {
  expect_sound(gate({.preemptions = 4}));
  expect_sound(gate({.preemptions = 3, .store_buffers = true}));
}

// ---- what all this rests on ---------------------------------------------------------------------

TEST_F(TransactionsInterleaved, EachAccessToAnOwnershipRecordIsNeeded) {
  const auto sums_of = [](Look how) { return [how] { return sums(Bias::kEnded, how, {}); }; };
  // The second look, after the word: of a load that meets what nearly every load meets, and of
  // others.
  expect_noticed({Access::kLoad, "Tx::load_among_others", std::memory_order_relaxed},
                 [] { return sums(Bias::kEnded, Look::kOnly, {.preemptions = 3}); });
  expect_noticed({Access::kLoad, "Tx::validated", std::memory_order_relaxed},
                 sums_of(Look::kRange));
  // The record is taken before anything is stored home, at the commit or at the store.
  expect_noticed({Access::kChange, "Tx::own_writes("},
                 [] { return increments(Bias::kEnded, 2, false, {}); });
  expect_noticed({Access::kChange, "Tx::own("},
                 [] { return increments(Bias::kNone, 2, false, {}); });
  // Of stores without loads, too, and of more than one record.
  for (const Third third : {Third::kLooks, Third::kStores}) {
    expect_noticed({Access::kChange, "Tx::own_writes("},
                   [third] { return overlapping_stores(third, 0, {}); });
  }
  // Whoever gets only some of them gives these back.
  expect_noticed({Access::kStore, "Tx::roll_back"},
                 [] { return overlapping_stores(Third::kLooks, 0, {}); });
  // It is given back with a new version, and only when everything is home. (With biased locking
  // whoever waits for it would become the owner, who needs none.)
  expect_noticed({Access::kStore, "Tx::let_go"},
                 [] { return increments(Bias::kNone, 2, false, {}); });
  expect_noticed({Access::kNew, "Tx::let_go"},
                 [] { return increments(Bias::kEnded, 2, false, {}); });
  expect_noticed({Access::kStore, "store_word", {}, "CommitWindow::next_phase"},
                 sums_of(Look::kOnly));
}

TEST_F(TransactionsInterleaved, SoIsEachLookAtWhatWasRead) {
  expect_noticed({Access::kLoad, "Tx::validate", {}, {}, [] { return World::is_committing(); }},
                 [] { return withdrawals(Bias::kEnded, 0, {}); });
  expect_noticed({Access::kLoad, "Tx::validate", {}, {}, [] { return !World::is_committing(); }},
                 [] { return extensions(Bias::kEnded, false, {}); });
}

TEST_F(TransactionsInterleaved, SoIsEachPartOfTheGate) {
  const auto at_the_gate = [] { return gate({}); };
  expect_noticed({Access::kStore, "CommitWindow::next_phase"}, at_the_gate);
  expect_noticed({Access::kLoad, "LogSlot::committing"}, at_the_gate);
  expect_noticed({Access::kChange, "CommitClock::close_gate"}, at_the_gate);
}

}  // namespace
}  // namespace perdure::interleaved
