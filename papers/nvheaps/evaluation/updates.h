// SPDX-License-Identifier: BSD-3-Clause
// Figure 4: an array of a million elements, of which a transaction updates some at random.
#pragma once

#include "papers/nvheaps/evaluation/sizes.h"
#include "papers/nvheaps/evaluation/swaps.h"

namespace perdure::bench::nvheaps {

template <class L>
class Updates {
 public:
  using Root = SwapRoot<L>;
  using Heap = typename L::template Heap<Root>;

  Updates(Heap& heap, std::uint64_t elements) : heap_(&heap), count_(elements) {
    heap.run([&](auto root) {
      root->entries = L::template make_array<typename L::template Field<std::uint64_t>>(count_);
    });
  }

  void update(Random& random, std::uint64_t updates) {
    heap_->run([&](auto root) {
      Random places = random;  // the same ones when the transaction has to run again
      const auto entries = root->entries.get();
      for (std::uint64_t i = 0; i < updates; ++i) entries[places.below(count_)] += 1;
    });
    random = Random(random.next());
  }

  /// All updates there were.
  std::uint64_t sum() {
    return heap_->read([&](auto root) {
      const auto entries = root->entries.get();
      std::uint64_t sum = 0;
      for (std::uint64_t i = 0; i < count_; ++i) sum += entries[i];
      return sum;
    });
  }

 private:
  Heap* heap_;
  std::uint64_t count_;
};

}  // namespace perdure::bench::nvheaps
