// OffsetSet: the objects that one transaction allocates or frees, in order, with membership that
// stays cheap when a transaction frees a hundred thousand of them.
#pragma once

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "perdure/base/words.h"

namespace perdure {

class OffsetSet {
 public:
  bool empty() const { return items_.empty(); }
  bool contains(Offset offset) const {
    if (items_.size() <= kLinear)
      return std::find(items_.begin(), items_.end(), offset) != items_.end();
    return index_.contains(offset);
  }
  void add(Offset offset) {
    // The list last: out of memory before, the set holds what it held.
    if (items_.size() == kLinear) index_.insert(items_.begin(), items_.end());
    if (items_.size() >= kLinear) index_.insert(offset);
    items_.push_back(offset);
  }
  std::size_t size() const { return items_.size(); }
  /// Forgets what was added since the set had `count` items.
  void shrink(std::size_t count) {
    const std::vector<Offset> kept(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(count));
    clear();
    for (const Offset offset : kept) add(offset);
  }
  void clear() {
    if (!index_.empty()) index_.clear();
    items_.clear();
  }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  static constexpr std::size_t kLinear = 32;
  std::vector<Offset> items_;
  std::unordered_set<Offset> index_;  // of all items, once there are more than kLinear
};

}  // namespace perdure
