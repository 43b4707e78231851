// SPDX-License-Identifier: BSD-3-Clause
// OffsetSet: offsets in the order in which they came, each once, with membership that stays cheap however many there are:
// the objects that a transaction allocates or frees, the lines that a full log names.
#pragma once

#include <algorithm>
#include <vector>

#include "perdure/base/offset_index.h"

namespace perdure {

class OffsetSet {
  // First: whose type is deduced is used only after that.
  auto offset_at() const {
    return [this](std::size_t place) { return items_[place]; };
  }

 public:
  bool empty() const { return items_.empty(); }
  bool contains(Offset offset) const {
    if (items_.size() <= kLinear)
      return std::find(items_.begin(), items_.end(), offset) != items_.end();
    return index_.find(offset, offset_at()) != OffsetIndex::kNowhere;
  }
  /// False: it is there already.
  bool insert(Offset offset) {
    if (items_.size() < kLinear) {
      if (contains(offset)) return false;
      items_.push_back(offset);
      return true;
    }
    index_.cover(items_.size(), items_.size() + 1, offset_at());
    items_.push_back(offset);
    if (index_.cover_if_new(offset_at())) return true;
    items_.pop_back();
    return false;
  }
  std::size_t size() const { return items_.size(); }
  /// Forgets what was added since the set had `count` items.
  void shrink(std::size_t count) {
    items_.resize(count);
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
  std::vector<Offset> items_;
  OffsetIndex index_;  // of all items, once there are more than kLinear
};

}  // namespace perdure
