// SPDX-License-Identifier: BSD-3-Clause
// WriteSet: the writes of one transaction, in order, and an index of the words among them. In an
// engine that executes in the log (papers/blurred), a write's `value` is the place of the record
// that holds the value.
#pragma once

#include <array>

#include "perdure/base/growing_array.h"
#include "perdure/base/offset_set.h"

namespace perdure {

/// A filter tells of nearly every word that it has not been written. A word of which it cannot tell
/// is looked for linearly, and among many in an index, which covers only what was there when it was
/// asked last. No allocation once grown.
class WriteSet {
  // First: a function whose type is deduced is used only after its definition.
  auto offset_at() const {
    return [this](std::size_t place) { return writes_[place].offset; };
  }

 public:
  bool empty() const { return writes_.empty(); }
  std::size_t size() const { return writes_.size(); }
  MaskedWrites& writes() { return writes_; }

  /// False: the word at `offset` is not among them. (True says nothing.)
  bool may_hold(Offset offset) const {
    return !writes_.empty() && filter_[in_filter(offset)] == era_;
  }
  /// The buffered value of the word at `offset`, or null.
  MaskedWrite* find(Offset offset) {
    if (!may_hold(offset)) return nullptr;
    if (writes_.size() <= kLinear) {
      for (std::size_t i = writes_.size(); i-- > 0;) {
        if (writes_[i].offset == offset) return &writes_[i];
      }
      return nullptr;
    }
    index_.cover(writes_.size(), writes_.size(), offset_at());
    const std::size_t place = index_.find(offset, offset_at());
    return place == OffsetIndex::kNowhere ? nullptr : &writes_[place];
  }

  void put(Offset offset, Word value, Word mask = kWholeWord) {
    if (MaskedWrite* old = find(offset)) {
      old->value = (old->value & ~mask) | (value & mask);
      old->mask |= mask;
      return;
    }
    add(offset, value, mask);
  }
  /// put() of a whole word.
  [[gnu::always_inline]] void put_whole(Offset offset, Word value) {
    if (filter_[in_filter(offset)] != era_) [[likely]] {
      add(offset, value, kWholeWord);
    } else {
      put_again(offset, value);
    }
  }

  /// From now on until clear(), may_hold() is true for every word: some are written elsewhere.
  void say_may_hold_all() { filter_.fill(era_); }

  /// Memory for one more word: the next put() of a new one then needs none.
  void reserve_one() {
    if (writes_.size() == writes_.capacity())
      writes_.reserve(writes_.size() < kLinear ? 2 * kLinear : 2 * writes_.size());
    if (writes_.size() >= kLinear) index_.cover(writes_.size(), writes_.size() + 1, offset_at());
  }

  void clear() {
    if (writes_.size() >= kLinear) index_.clear();
    writes_.clear();
    // Nothing is stored to the filter: behind a fence each store waits in the core's buffer.
    if (++era_ != 0) return;
    filter_ = {};  // what it says of the sets of 256 eras ago
    era_ = 1;
  }

 private:
  static constexpr std::size_t kLinear = 12;
  static constexpr unsigned kFilterBits = 10;
  static std::size_t in_filter(Offset offset) {
    return (offset / kWordBytes * 0x9e3779b97f4a7c15u) >> (64 - kFilterBits);
  }

  void add(Offset offset, Word value, Word mask) {
    // First: if memory is short, the filter names a word too many, which does no harm.
    filter_[in_filter(offset)] = era_;
    // Stores field by field: the compiler would put a pushed struct together on the stack in words
    // and copy it in pairs of words, and each such load waits for its stores to leave the core's
    // buffer.
    MaskedWrite& fresh = writes_.append();
    fresh.offset = offset;
    fresh.value = value;
    fresh.mask = mask;
  }
  [[gnu::noinline]] void put_again(Offset offset, Word value) { put(offset, value); }

  MaskedWrites writes_;
  OffsetIndex index_;
  /// By the hash of a word, the era in which such a word was written last. 0: in none. (Bytes: to
  /// set and to test a bit would take twice the instructions.)
  std::array<std::uint8_t, 1 << kFilterBits> filter_{};
  std::uint8_t era_ = 1;
};

}  // namespace perdure
