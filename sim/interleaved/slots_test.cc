// SPDX-License-Identifier: BSD-3-Clause
// Logs that are lent for updates, in every order of two threads: one begins an update while the other
// wants its log.
#include <memory>
#include <mutex>

#include "sim/interleaved/interleaved_test.h"

namespace perdure::interleaved {
namespace {

using SlotsInterleaved = Interleaved;

/// Two threads with one log make three updates, as PoolCore does: who has none takes the other's, and
/// waits while that one is in an update.
Report three_updates(const Limits& limits) {
  return explore(
      Bias::kNone,
      [](World& world) {
        struct Shared {
          Mutex list;
          bool used = false;
        };
        const auto log = std::make_shared<Shared>();
        world.tx(1).let_slot_go();
        const auto update = [&world, log](std::size_t thread) {
          Tx& me = world.tx(thread);
          const auto has_one = [&] {
            const std::lock_guard lock(log->list);
            if (me.has_slot()) return true;
            const std::size_t slot = world.tx(1 - thread).take_slot_away();
            if (slot != Tx::kNoSlot) me.give_slot(slot);
            return slot != Tx::kNoSlot;
          };
          if (!me.keep_slot()) {
            while (!has_one()) interleave::give_way();
          }
          require(!log->used, "two updates with one log");
          log->used = true;
          interleave::step();
          log->used = false;
          me.rest();
        };
        Threads all;
        all.bodies.emplace_back([=] {
          update(0);
          update(0);
        });
        all.bodies.emplace_back([=] { update(1); });
        return all;
      },
      limits);
}

TEST_F(SlotsInterleaved, ALogIsNeverThatOfTwoUpdates) {
  expect_sound(three_updates({.preemptions = 4}));
  expect_sound(three_updates({.preemptions = 3, .store_buffers = true}));
}

TEST_F(SlotsInterleaved, EachLookAndTheBarrierAreNeeded) {
  const auto with_buffers = [] { return three_updates({.store_buffers = true}); };
  const auto without = [] { return three_updates({}); };
  // A thread says that it is in an update, and then looks whether the log is still its own.
  expect_noticed({Access::kStore, "Tx::keep_slot"}, without);
  expect_noticed({Access::kAgain, "Tx::keep_slot"}, without);
  // Who takes it strikes it out, and then looks whether that thread is in one.
  expect_noticed({Access::kStore, "Tx::take_slot_away"}, without);
  expect_noticed({Access::kAgain, "Tx::take_slot_away", std::memory_order_acquire}, without);
  expect_noticed({Access::kBarrier, "Tx::take_slot_away"}, with_buffers);
}

}  // namespace
}  // namespace perdure::interleaved
