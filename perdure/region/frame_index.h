// SPDX-License-Identifier: BSD-3-Clause
// FrameIndex: which frame holds a page of a file. Volatile; rebuilt from the mapping table at every
//             open, so it is one flat table without an allocation per page.
#pragma once

#include <bit>
#include <limits>
#include <vector>

#include "perdure/base/check.h"
#include "perdure/region/frame_layout.h"

namespace perdure {

/// Threads: none; the caller's lock.
class FrameIndex {
 public:
  static constexpr FrameNumber kNone = std::numeric_limits<FrameNumber>::max();

  explicit FrameIndex(FrameNumber frames)
      : keys_(frames, 0),
        slots_(std::bit_ceil(std::size_t{frames} * 2), kNone),
        shift_(64 - std::countr_zero(slots_.size())) {}

  /// The payload of the page in the frame; zero when the frame is free.
  std::uint64_t key_of(FrameNumber frame) const { return keys_[frame]; }

  FrameNumber find(std::uint64_t key) const { return slots_[slot_of(key)]; }

  /// The frame that has the page already, or kNone after `frame` was entered.
  /// Requires: the frame is free; key is not zero.
  FrameNumber insert(std::uint64_t key, FrameNumber frame) {
    const std::size_t slot = slot_of(key);
    if (slots_[slot] != kNone) return slots_[slot];
    keys_[frame] = key;
    slots_[slot] = frame;
    return kNone;
  }

  /// Requires: the frame holds a page.
  void erase(FrameNumber frame) {
    std::size_t hole = slot_of(keys_[frame]);
    PERDURE_CHECK(slots_[hole] == frame, "the frame is not in the index");
    keys_[frame] = 0;
    // Whoever was pushed past the hole moves back into it: no tombstones, so searches stay short.
    for (std::size_t at = next(hole); slots_[at] != kNone; at = next(at)) {
      const std::size_t wanted = home_of(keys_[slots_[at]]);
      if (((at - wanted) & mask()) < ((at - hole) & mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = kNone;
  }

 private:
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t next(std::size_t slot) const { return (slot + 1) & mask(); }
  // Fibonacci hashing: pages of a file are consecutive numbers, which this spreads evenly.
  std::size_t home_of(std::uint64_t key) const { return (key * 0x9e3779b97f4a7c15u) >> shift_; }
  /// Where the key is, or where it would go. Ends, because half of the slots are empty.
  std::size_t slot_of(std::uint64_t key) const {
    std::size_t slot = home_of(key);
    while (slots_[slot] != kNone && keys_[slots_[slot]] != key) slot = next(slot);
    return slot;
  }

  std::vector<std::uint64_t> keys_;  // by frame
  std::vector<FrameNumber> slots_;
  int shift_;
};

}  // namespace perdure
