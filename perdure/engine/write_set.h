// The writes of one transaction, in order, and a way to find a word among them. Where a transaction executes in the log, a
// write's `value` is the place of the record that holds it (xil::Place): Tx knows which.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "perdure/base/masked_write.h"

namespace perdure {

/// Linear while small, an open-addressed index beyond. Cleared in O(1); no allocation once grown.
class WriteSet {
 public:
  bool empty() const { return writes_.empty(); }
  std::size_t size() const { return writes_.size(); }
  std::vector<MaskedWrite>& writes() { return writes_; }

  /// The buffered value of the word at `offset`, or null.
  MaskedWrite* find(Offset offset) {
    if ((filter_ & filter_bit(offset)) == 0) return nullptr;
    if (writes_.size() <= kLinear) {
      for (std::size_t i = writes_.size(); i-- > 0;) {
        if (writes_[i].offset == offset) return &writes_[i];
      }
      return nullptr;
    }
    for (std::size_t at = hash(offset);; ++at) {
      const Slot& slot = index_[at & (index_.size() - 1)];
      if (slot.era != era_) return nullptr;
      if (writes_[slot.write].offset == offset) return &writes_[slot.write];
    }
  }

  void put(Offset offset, Word value, Word mask = kWholeWord) {
    if (MaskedWrite* old = find(offset)) {
      old->value = (old->value & ~mask) | (value & mask);
      old->mask |= mask;
      return;
    }
    filter_ |= filter_bit(offset);
    // Field by field: pushed whole, it would be put together on the stack by words and copied by pairs of words, and each
    // such load waits for its stores to leave the core's buffer.
    MaskedWrite& fresh = writes_.emplace_back();
    fresh.offset = offset;
    fresh.value = value;
    fresh.mask = mask;
    if (writes_.size() > kLinear) add_to_index(writes_.size());
  }

  /// Memory for one more word: the next put() of a new one then needs none.
  void reserve_one() {
    if (writes_.size() == writes_.capacity())
      writes_.reserve(std::max<std::size_t>(2 * kLinear, 2 * writes_.size()));
    if (writes_.size() >= kLinear) add_to_index(writes_.size() + 1);
  }

  void clear() {
    writes_.clear();
    filter_ = 0;
    indexed_ = 0;
    ++era_;
  }

 private:
  static constexpr std::size_t kLinear = 12;
  struct Slot {
    std::uint64_t era = 0;
    std::size_t write = 0;
  };
  static std::size_t mix(Offset offset) { return (offset >> 3) * 0x9e3779b97f4a7c15u >> 20; }
  static std::size_t hash(Offset offset) { return mix(offset); }
  static std::uint64_t filter_bit(Offset offset) {
    return std::uint64_t{1} << (mix(offset) >> 8 & 63);
  }

  /// All writes there are, in an index with room for `count`.
  void add_to_index(std::size_t count) {
    if (count * 2 > index_.size()) {
      index_.assign(std::bit_ceil(count * 4), Slot{});
      indexed_ = 0;
    }
    for (; indexed_ < writes_.size(); ++indexed_) {
      std::size_t at = hash(writes_[indexed_].offset);
      while (index_[at & (index_.size() - 1)].era == era_) ++at;
      index_[at & (index_.size() - 1)] = {era_, indexed_};
    }
  }

  std::vector<MaskedWrite> writes_;
  std::vector<Slot> index_;
  std::size_t indexed_ = 0;   // writes_[0, indexed_) are in index_
  std::uint64_t era_ = 1;     // slots of another era are free
  std::uint64_t filter_ = 0;  // one bit per word that may be buffered
};

}  // namespace perdure
