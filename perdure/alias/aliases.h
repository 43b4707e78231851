// SPDX-License-Identifier: BSD-3-Clause
// Aliases: the double-buffered alias table, in which wraps store and load, and from which the
// manager stores words home (SoftWrAP §IV-A).
// Threads: wraps any, each with its own Wrap; advance() by one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "perdure/alias/alias_states.h"
#include "perdure/alias/alias_table.h"

namespace perdure::alias {

template <class Machine = Hardware>
class Aliases {
 public:
  using Wrap = typename AliasStates<Machine>::Wrap;

  /// A table is full when one in `threshold` of its entries is taken: longer probes cost more than
  /// an earlier change.
  /// Throws: std::bad_alloc.
  explicit Aliases(const AliasLimits& limits, std::uint64_t threshold = 8)
      : tables_{AliasTable<Machine>(limits), AliasTable<Machine>(limits)}, threshold_(threshold) {}

  AliasStates<Machine>& states() { return states_; }
  const AliasTable<Machine>& table(unsigned which) const { return tables_[which]; }

  /// Requires: in an open wrap.
  /// False: no entry is free (of write(): some of it may have happened).
  bool store(Offset at, Word value, Word mask) {
    return tables_[states_.view().active].store(at, value, mask);
  }
  bool write(Offset to, const void* from, std::uint64_t bytes) {
    return tables_[states_.view().active].write(to, from, bytes);
  }
  /// Returns the newest value of the word at `at`; calls `home(at)` if the tables do not hold all
  /// of it. Requires: as store().
  template <class Home>
  Word load(Offset at, Home home) const {
    Word value = 0;
    const Word mask = peek(at, value);
    if (mask != kWholeWord) value |= home(at) & ~mask;
    return value;
  }
  /// Finds what the tables hold of it. Returns the mask of its bits.
  Word peek(Offset at, Word& value) const {
    const auto view = states_.view();
    Word mask = tables_[view.active].load(at, value);
    if (view.second && mask != kWholeWord) {
      Word older = 0;
      const Word there = tables_[1 - view.active].load(at, older);
      value |= older & ~mask;
      mask |= there;
    }
    return mask;
  }
  /// Whether nothing was stored since the tables were empty.
  bool empty() const {
    return std::all_of(tables_.begin(), tables_.end(), [](const AliasTable<Machine>& table) {
      return table.words() == 0 && table.pages() == 0;
    });
  }

  /// Removes the bytes of `mask` in the word at `at`. Threads: nobody stores to those bytes;
  /// advance(), which would take them home meanwhile, only where nothing goes home.
  void forget(Offset at, Word mask = kWholeWord) {
    for (AliasTable<Machine>& table : tables_) table.forget(at, mask);
  }
  /// As AliasTable::for_each(), for the table that is not active, if it has not gone home.
  /// Threads: no advance() at the same time.
  template <class Visit>
  void for_each_older(Visit visit) const {
    const auto view = states_.view();
    if (view.second) tables_[1 - view.active].for_each(visit);
  }
  const AliasTable<Machine>& active() const { return tables_[states_.view().active]; }
  /// Whether the active table is full enough for a change of tables.
  bool is_full() const {
    const AliasTable<Machine>& active = tables_[states_.view().active];
    return active.words() * threshold_ >= active.limits().words ||
           active.pages() * threshold_ >= active.limits().pages;
  }

  /// Takes the next step in the life of a table that is not active; false: none is possible now.
  /// `retire(table)` makes all that the table holds durable at home, and returns whether it could;
  /// loads find it there from then on.
  template <class Retire>
  bool advance(Retire retire) {
    const unsigned table = 1 - states_.view().active;
    switch (states_.state(table)) {
      case TableState::kFull: return states_.close(table);
      case TableState::kClosed:
        if (!retire(tables_[table])) return false;
        states_.retire(table);
        return true;
      case TableState::kRetired:
        if (!states_.unused(table)) return false;
        tables_[table].clear();
        states_.recycle(table);
        return true;
      case TableState::kEmpty:
      case TableState::kActive: break;
    }
    return false;
  }

 private:
  AliasStates<Machine> states_;
  std::array<AliasTable<Machine>, 2> tables_;
  std::uint64_t threshold_;
};

}  // namespace perdure::alias
