// SPDX-License-Identifier: BSD-3-Clause
// Commits that are visible before they are durable, in every order of two or three threads: nobody
// returns what a power failure could take back.
#include <memory>
#include <vector>

#include "sim/interleaved/interleaved_test.h"

namespace perdure::interleaved {
namespace {

using DurabilityInterleaved = Interleaved;

struct Setting {
  Bias bias = Bias::kEnded;
  std::size_t writers = 1;
  bool apart = false;    // each has a counter of its own
  bool updates = false;  // whoever looks also stores
  bool throws = false;   // it leaves with an exception
};

/// How often what a reader met was not durable yet, in all schedules.
std::uint64_t early = 0;

/// Threads that each add one to a counter, and one that looks.
Report counting(const Setting& setting, const Limits& limits) {
  early = 0;
  return explore(
      setting.bias,
      [=](World& world) {
        const std::size_t counters = setting.apart ? setting.writers : 1;
        const std::size_t most = setting.writers / counters;
        struct Returned {
          std::vector<Word> values;
          std::uint64_t durable;
        };
        auto returned = std::make_shared<Returned>(Returned{std::vector<Word>(counters), 0});
        // Of the commits that made a counter 1, 2, ...
        auto timestamps = std::make_shared<std::vector<std::vector<std::uint64_t>>>(
            counters, std::vector<std::uint64_t>(most));
        Threads all;
        for (std::size_t thread = 0; thread < setting.writers; ++thread) {
          all.bodies.emplace_back([=, &world] {
            const std::size_t counter = thread % counters;
            Word mine = 0;
            world.update(thread, [&](Tx& tx) {
              mine = tx.load(world.cell(counter)) + 1;
              tx.store(world.cell(counter), mine);
            });
            const std::uint64_t timestamp = world.tx(thread).last_timestamp();
            require(world.durable() >= timestamp, "acknowledged before it is durable");
            (*timestamps)[counter][mine - 1] = timestamp;
          });
        }
        all.bodies.emplace_back([=, &world] {
          struct Leaves {};
          try {
            world.transact(setting.writers, {.read_only = !setting.updates}, [&](Tx& tx) {
              Word sum = 0;
              for (std::size_t i = 0; i < counters; ++i)
                sum += returned->values[i] = tx.load(world.cell(i));
              if (tx.seen() != 0) ++early;
              if (setting.updates) tx.store(world.cell(counters), sum);
              if (setting.throws) throw Leaves{};
            });
          } catch (const Leaves&) {
          }
          returned->durable = world.durable();
        });
        all.after = [=, &world] {
          for (std::size_t i = 0; i < counters; ++i) {
            require(world.cell(i) == most, "an increment is lost");
            const Word value = returned->values[i];
            require(value == 0 || returned->durable >= (*timestamps)[i][value - 1],
                    "returned before it is durable");
          }
        };
        return all;
      },
      limits, Medium::kFile);
}

void expect_sound_and_early(const Report& report) {
  expect_sound(report);
  EXPECT_GT(early, 0u);
}

TEST_F(DurabilityInterleaved, WhatIsReturnedIsDurable) {
  for (const Bias bias : {Bias::kNone, Bias::kEnded}) {
    for (const bool updates : {false, true}) {
      expect_sound_and_early(counting({.bias = bias, .updates = updates}, {.preemptions = 3}));
      for (const bool apart : {false, true}) {
        expect_sound_and_early(
            counting({.bias = bias, .writers = 2, .apart = apart, .updates = updates}, {}));
      }
    }
  }
  expect_sound_and_early(counting({}, {.store_buffers = true}));
  // The owner of biased locking commits as it becomes visible.
  expect_sound(counting({.bias = Bias::kToFirst}, {.preemptions = 3}));
}

TEST_F(DurabilityInterleaved, SoIsWhatAnExceptionMayTell) {
  for (const bool updates : {false, true}) {
    expect_sound_and_early(counting({.updates = updates, .throws = true}, {.preemptions = 3}));
  }
}

TEST_F(DurabilityInterleaved, EachPartOfTheHorizonIsNeeded) {
  const auto looks = [] { return counting({}, {}); };
  // A strict commit says that it is to be waited for, and whoever has seen it looks.
  expect_noticed({Access::kChange, "DurableHorizon::strict_commit"}, looks);
  expect_noticed({Access::kLoad, "DurableHorizon::wait_target"}, looks);
  // Who appends to the log of all has it alone.
  expect_noticed({Access::kLock}, [] { return counting({.writers = 2, .apart = true}, {}); });
}

}  // namespace
}  // namespace perdure::interleaved
