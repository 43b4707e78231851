// SPDX-License-Identifier: BSD-3-Clause
// AliasStates: which of the two alias tables is written, read, retired, and used again (SoftWrAP
// §IV-A, Figure 3).
//
// A table's life:
//   Empty    nothing in it
//   Active   stores go to it, loads look here first
//   Full     no more stores, loads look here second; wraps that were opened before may not have
//            closed yet
//   Closed   they have: all that it holds was committed, and goes home (it is *retired*); loads
//            still look here
//   Retired  all is home, where new wraps look; older ones may still be looking here
//   Empty    they have closed too: it was cleared
//
//   Wraps of any number of threads                      One manager, in turn
//     open: join the set of the two tables' states        fill()      X Active, Y Empty  → X Full,
//     Y Active
//     store, load: ask view() where                       close()     X Full             → X
//     Closed, when nobody is in A_X
//     close: leave the set                                retire()    X Closed           → X
//     Retired, after its words are home
//                                                         recycle()   X Retired          → X Empty,
//                                                         when nobody is in A_Y R̄_X
//
// A wrap that is open while the tables change stores to the new active one from then on. So an
// Active table holds stores of wraps of both sets, A_X and A_Y. But it is closed only after it was
// Full, which needs the other one to be Empty, hence all wraps of that one's time to be closed. The
// four sets are the paper's, but there are no counters: each wrap says in a cache line of its own
// in which set it is, and the manager looks at all of them. A counter would be a line that every
// open and close of every thread writes.
// Source: SoftWrAP (MSST 2015) §IV-A. Orders: as epochs of reclamation.
// Threads: wraps any, each with its own Wrap; fill() to release() by one at a time.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "perdure/alias/machine.h"
#include "perdure/base/check.h"
#include "perdure/base/words.h"

namespace perdure::alias {

enum class TableState : std::uint8_t { kEmpty, kActive, kFull, kClosed, kRetired };

template <class Machine = Hardware>
class AliasStates {
 public:
  /// Where a store goes and a load looks: first `active`, then, if `second` holds, the other one,
  /// then home.
  struct View {
    unsigned active;
    bool second;
  };

  /// A thread's part.
  class alignas(kLineBytes) Wrap {
    friend AliasStates;
    typename Machine::template Atomic<std::uint64_t> set_{kNone};
  };

  AliasStates() : states_(word_of(TableState::kActive, TableState::kEmpty)) {}

  /// Before its first open().   Throws: std::bad_alloc.
  void add(const Wrap& wrap) {
    const std::lock_guard lock(mutex_);
    wraps_.push_back(&wrap);
  }
  /// After its last close().
  void remove(const Wrap& wrap) {
    const std::lock_guard lock(mutex_);
    std::erase(wraps_, &wrap);
  }

  /// Waits while the manager holds new wraps back.
  void open(Wrap& wrap) {
    for (;;) {
      const std::uint64_t before = states_.load(std::memory_order_acquire);
      if ((before & kHeld) != 0) {
        Machine::pause();
        continue;
      }
      const std::uint64_t set = set_of(before);
      wrap.set_.store(set, std::memory_order_relaxed);
      // Orders: the set before the second look. Without it the manager could miss this wrap after a
      //         change that this wrap has missed.
      Machine::fence(Rule::kSayFence);
      const std::uint64_t now = states_.load(std::memory_order_acquire);
      if (!Machine::keeps(Rule::kLookAgain)) return;
      if (set_of(now) == set && (now & kHeld) == 0) return;
      wrap.set_.store(kNone, std::memory_order_release);
    }
  }
  /// Release: who then finds nobody in the set sees what the wrap has stored.
  void close(Wrap& wrap) { wrap.set_.store(kNone, std::memory_order_release); }

  /// Requires: in an open wrap. Holds for one access; the next may find another.
  View view() const {
    const std::uint64_t now = states_.load(std::memory_order_acquire);
    const unsigned active = active_of(now);
    const TableState other = state_of(now, 1 - active);
    return {active, Machine::keeps(Rule::kLookSecond) &&
                        (other == TableState::kFull || other == TableState::kClosed)};
  }

  TableState state(unsigned table) const {
    return state_of(states_.load(std::memory_order_acquire), table);
  }

  // ---- the manager ------------------------------------------------------------------------------

  /// False: the other table is still in use.
  bool fill() {
    const std::uint64_t now = states_.load(std::memory_order_relaxed);
    const unsigned active = active_of(now);
    if (Machine::keeps(Rule::kFillWhenEmpty) && state_of(now, 1 - active) != TableState::kEmpty)
      return false;
    set(active, TableState::kFull, 1 - active, TableState::kActive);
    return true;
  }
  /// The table that is Full becomes Closed; false while a wrap that may have stored there is open.
  bool close(unsigned table) {
    PERDURE_CHECK(state(table) == TableState::kFull, "only a full table is closed");
    if (Machine::keeps(Rule::kCloseWhenLeft) &&
        anybody_in([&](std::uint64_t set) { return active_in(set) == table; }))
      return false;
    set(table, TableState::kClosed);
    return true;
  }
  /// Requires: what the table holds is home, and every look there finds it.
  void retire(unsigned table) {
    PERDURE_CHECK(state(table) == TableState::kClosed, "only a closed table is retired");
    set(table, TableState::kRetired);
  }
  /// Whether nobody looks into a retired table any more: it may be cleared, and then recycled.
  bool unused(unsigned table) const {
    PERDURE_CHECK(state(table) == TableState::kRetired, "only a retired table is cleared");
    return !Machine::keeps(Rule::kRecycleWhenLeft) ||
           !anybody_in([&](std::uint64_t set) { return set == set_number(1 - table, false); });
  }
  /// Requires: unused(), and cleared since.
  void recycle(unsigned table) { set(table, TableState::kEmpty); }

  /// Holds new wraps back; true when none is open any more.
  bool hold() {
    const std::uint64_t now = states_.load(std::memory_order_relaxed);
    if ((now & kHeld) == 0) states_.store(now | kHeld, std::memory_order_release);
    return !anybody_in([](std::uint64_t) { return true; });
  }
  /// Lets them open again.
  void release() {
    states_.store(states_.load(std::memory_order_relaxed) & ~kHeld, std::memory_order_release);
  }

 private:
  static constexpr unsigned kBits = 3;  // of a state
  static constexpr std::uint64_t kHeld = std::uint64_t{1} << (2 * kBits);
  static constexpr std::uint64_t kNone = 0;

  static std::uint64_t word_of(TableState first, TableState second) {
    return static_cast<std::uint64_t>(first) | static_cast<std::uint64_t>(second) << kBits;
  }
  static TableState state_of(std::uint64_t states, unsigned table) {
    return static_cast<TableState>(states >> (table * kBits) & 7);
  }
  static unsigned active_of(std::uint64_t states) {
    return state_of(states, 0) == TableState::kActive ? 0 : 1;
  }
  /// A_X R̄_Y and so on: which table was active, and whether nothing had to be looked up in the
  /// other.
  static std::uint64_t set_number(unsigned active, bool other_retired) {
    return 1 + 2 * std::uint64_t{active} + (other_retired ? 1 : 0);
  }
  static std::uint64_t set_of(std::uint64_t states) {
    const unsigned active = active_of(states);
    const TableState other = state_of(states, 1 - active);
    return set_number(active, other == TableState::kRetired || other == TableState::kEmpty);
  }
  static unsigned active_in(std::uint64_t set) { return static_cast<unsigned>((set - 1) / 2); }

  void set(unsigned table, TableState state) {
    set(table, state, 1 - table, this->state(1 - table));
  }
  void set(unsigned table, TableState state, unsigned other, TableState of_other) {
    const std::uint64_t held = states_.load(std::memory_order_relaxed) & kHeld;
    states_.store(held | (table < other ? word_of(state, of_other) : word_of(of_other, state)),
                  std::memory_order_release);
  }
  template <class Which>
  bool anybody_in(Which which) const {
    // Orders: the last change of states before the look at the wraps; pairs with the fence of
    //         open(). Without it a wrap could open in the states before, after it was looked for.
    Machine::fence(Rule::kChangeFence);
    const std::lock_guard lock(mutex_);
    for (const Wrap* wrap : wraps_) {
      // Acquire: pairs with close().
      const std::uint64_t set = wrap->set_.load(std::memory_order_acquire);
      if (set != kNone && which(set)) return true;
    }
    return false;
  }

  typename Machine::template Atomic<std::uint64_t> states_;
  mutable std::mutex mutex_;
  std::vector<const Wrap*> wraps_;
};

}  // namespace perdure::alias
