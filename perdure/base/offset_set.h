// SPDX-License-Identifier: BSD-3-Clause
// OffsetIndex: where in a sequence an offset stands. Open-addressed; forgets everything in O(1); no
// allocation once grown. SetByOffset: items in the order in which they came, each offset once, with
// membership that stays cheap however many there are: the objects that a transaction allocates or
// frees, the lines that a full log names.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "perdure/base/growing_array.h"
#include "perdure/base/words.h"

namespace perdure {

/// The sequence is the caller's: `offset_at(place)` is its offset there, none twice; fewer than
/// 2^32.
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
  /// Covers one place more, unless its offset stands at an earlier one: false. Requires: memory for
  /// it.
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
  GrowingArray<Slot> slots_;
  std::size_t covered_ = 0;
  std::uint32_t era_ = 1;  // slots of another era are free
};

/// Item: an Offset, or what has a member `offset`.
template <class Item>
class SetByOffset {
  static Offset offset_of(const Item& item) {
    if constexpr (std::is_same_v<Item, Offset>) {
      return item;
    } else {
      return item.offset;
    }
  }
  // First: whose type is deduced is used only after that.
  auto offset_at() const {
    return [this](std::size_t place) { return offset_of(items_[place]); };
  }

 public:
  bool empty() const { return items_.empty(); }
  bool contains(Offset offset) const {
    if (items_.size() <= kLinear) {
      for (const Item& item : items_) {
        if (offset_of(item) == offset) return true;
      }
      return false;
    }
    return index_.find(offset, offset_at()) != OffsetIndex::kNowhere;
  }
  /// False: it is there already.
  bool insert(const Item& item) {
    if (items_.size() < kLinear) {
      if (contains(offset_of(item))) return false;
      items_.push_back(item);
      return true;
    }
    index_.cover(items_.size(), items_.size() + 1, offset_at());
    items_.push_back(item);
    if (index_.cover_if_new(offset_at())) return true;
    items_.pop_back();
    return false;
  }
  std::size_t size() const { return items_.size(); }
  /// Forgets what was added since the set had `count` items.
  void shrink(std::size_t count) {
    items_.shrink(count);
    index_.clear();
    if (count > kLinear) index_.cover(count, count, offset_at());
  }
  void clear() {
    items_.clear();
    index_.clear();
  }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  static constexpr std::size_t kLinear = 32;
  GrowingArray<Item> items_;
  OffsetIndex index_;  // of all items, once there are more than kLinear
};
using OffsetSet = SetByOffset<Offset>;

}  // namespace perdure
