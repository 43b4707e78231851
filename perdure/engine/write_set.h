// SPDX-License-Identifier: BSD-3-Clause
// WriteSet: the writes of one transaction, in order, and an index of the words among them. In an
// engine that executes in the log (papers/blurred), a write's `value` is the place of the record
// that holds the value.
#pragma once

#include "perdure/base/growing_array.h"
#include "perdure/base/offset_set.h"

namespace perdure {

/// Linear while small, an open-addressed index beyond. Cleared in O(1); no allocation once grown.
class WriteSet {
  // First: whose type is deduced is used only after that.
  auto offset_at() const {
    return [this](std::size_t place) { return writes_[place].offset; };
  }

 public:
  bool empty() const { return writes_.empty(); }
  std::size_t size() const { return writes_.size(); }
  MaskedWrites& writes() { return writes_; }

  /// False: the word at `offset` is not among them. (True says nothing.)
  bool may_hold(Offset offset) const { return (filter_ & filter_bit(offset)) != 0; }
  /// The buffered value of the word at `offset`, or null.
  MaskedWrite* find(Offset offset) {
    if (!may_hold(offset)) return nullptr;
    if (writes_.size() <= kLinear) {
      for (std::size_t i = writes_.size(); i-- > 0;) {
        if (writes_[i].offset == offset) return &writes_[i];
      }
      return nullptr;
    }
    const std::size_t place = index_.find(offset, offset_at());
    return place == OffsetIndex::kNowhere ? nullptr : &writes_[place];
  }

  void put(Offset offset, Word value, Word mask = kWholeWord) {
    if (MaskedWrite* old = find(offset)) {
      old->value = (old->value & ~mask) | (value & mask);
      old->mask |= mask;
      return;
    }
    filter_ |= filter_bit(offset);
    // Field by field: pushed whole, it would be put together on the stack by words and copied by
    // pairs of words, and each such load waits for its stores to leave the core's buffer.
    MaskedWrite& fresh = writes_.append();
    fresh.offset = offset;
    fresh.value = value;
    fresh.mask = mask;
    if (writes_.size() > kLinear) index_.cover(writes_.size(), writes_.size(), offset_at());
  }

  /// Memory for one more word: the next put() of a new one then needs none.
  void reserve_one() {
    if (writes_.size() == writes_.capacity())
      writes_.reserve(writes_.size() < kLinear ? 2 * kLinear : 2 * writes_.size());
    if (writes_.size() >= kLinear) index_.cover(writes_.size(), writes_.size() + 1, offset_at());
  }

  void clear() {
    writes_.clear();
    filter_ = 0;
    index_.clear();
  }

 private:
  static constexpr std::size_t kLinear = 12;
  static std::uint64_t filter_bit(Offset offset) {
    return std::uint64_t{1} << (OffsetIndex::hash(offset) >> 8 & 63);
  }

  MaskedWrites writes_;
  OffsetIndex index_;         // of all writes, once there are more than kLinear
  std::uint64_t filter_ = 0;  // one bit per word that may be buffered
};

}  // namespace perdure
