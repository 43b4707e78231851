// SPDX-License-Identifier: BSD-3-Clause
// OffsetIndex: where in a sequence an offset stands. Open-addressed; forgets everything in O(1); no allocation once grown.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "perdure/base/words.h"

namespace perdure {

/// The sequence is the caller's: `offset_at(place)` is its offset there, none twice; fewer than 2^32.
class OffsetIndex {
 public:
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  static std::size_t hash(Offset offset) { return (offset >> 3) * 0x9e3779b97f4a7c15u >> 20; }

  /// Where `offset` stands among the places covered, or kNowhere. Requires: cover() came before.
  template <class OffsetAt>
  std::size_t find(Offset offset, OffsetAt offset_at) const {
    for (std::size_t at = hash(offset);; ++at) {
      const Slot& slot = slots_[at & (slots_.size() - 1)];
      if (slot.era != era_) return kNowhere;
      if (offset_at(slot.place) == offset) return slot.place;
    }
  }
  /// Covers the first `count` places from now on, and has memory for `room`.
  template <class OffsetAt>
  void cover(std::size_t count, std::size_t room, OffsetAt offset_at) {
    if (room * 2 > slots_.size()) {
      slots_.assign(std::bit_ceil(room * 2 + 1), Slot{});
      covered_ = 0;
    }
    while (covered_ < count) {
      std::size_t at = hash(offset_at(covered_));
      while (slots_[at & (slots_.size() - 1)].era == era_) ++at;
      take(at);
    }
  }
  /// Covers one place more, unless its offset stands at an earlier one: false. Requires: memory for it.
  template <class OffsetAt>
  bool cover_if_new(OffsetAt offset_at) {
    const Offset offset = offset_at(covered_);
    for (std::size_t at = hash(offset);; ++at) {
      const Slot& slot = slots_[at & (slots_.size() - 1)];
      if (slot.era != era_) return take(at), true;
      if (offset_at(slot.place) == offset) return false;
    }
  }
  void clear() {
    covered_ = 0;
    if (++era_ != 0) return;
    slots_.assign(slots_.size(), Slot{});  // those of 2^32 eras ago
    era_ = 1;
  }

 private:
  // Small: an index of all lines of a log is in the way of what a program has in its caches.
  struct Slot {
    std::uint32_t era = 0;
    std::uint32_t place = 0;
  };
  void take(std::size_t at) {
    slots_[at & (slots_.size() - 1)] = {era_, static_cast<std::uint32_t>(covered_++)};
  }
  std::vector<Slot> slots_;
  std::size_t covered_ = 0;
  std::uint32_t era_ = 1;  // slots of another era are free
};

}  // namespace perdure
