// OffsetIndex: where in a sequence an offset stands. Open-addressed; forgets everything in O(1); no allocation once grown.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "perdure/base/words.h"

namespace perdure {

/// The sequence is the caller's: `offset_at(place)` is its offset there, none twice.
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
      slots_.assign(std::bit_ceil(room * 4), Slot{});
      covered_ = 0;
    }
    for (; covered_ < count; ++covered_) {
      std::size_t at = hash(offset_at(covered_));
      while (slots_[at & (slots_.size() - 1)].era == era_) ++at;
      slots_[at & (slots_.size() - 1)] = {era_, covered_};
    }
  }
  void clear() {
    covered_ = 0;
    ++era_;
  }

 private:
  struct Slot {
    std::uint64_t era = 0;
    std::size_t place = 0;
  };
  std::vector<Slot> slots_;
  std::size_t covered_ = 0;
  std::uint64_t era_ = 1;  // slots of another era are free
};

}  // namespace perdure
