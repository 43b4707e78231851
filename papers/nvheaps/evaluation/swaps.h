// SPDX-License-Identifier: BSD-3-Clause
// SPS (Table 2): random swaps between the entries of an array of integers.
#pragma once

#include <vector>

#include "bench/workload.h"
#include "papers/nvheaps/evaluation/sizes.h"
#include "perdure/object.h"

namespace perdure::bench::nvheaps {

template <class L>
struct SwapRoot : L::template Object<SwapRoot<L>> {
  typename L::template Ref<typename L::template Array<typename L::template Field<std::uint64_t>>>
      entries;
  PERDURE_FIELDS(SwapRoot, entries);
};

template <class L>
class Swaps {
 public:
  using Root = SwapRoot<L>;
  using Heap = typename L::template Heap<Root>;
  struct Scratch {};

  Swaps(Heap& heap, const Sizes& sizes) : heap_(&heap), count_(sizes.array_words) {
    heap.run([&](auto root) {
      root->entries = L::template make_array<typename L::template Field<std::uint64_t>>(count_);
    });
    fill_up(heap, count_, [](auto& root, std::uint64_t i) { root->entries.get()[i] = i; });
  }

  /// With the same structure, read back.
  void go_on_with(Heap& heap) { heap_ = &heap; }

  std::int64_t operate(Random& random, Scratch&) {
    const std::uint64_t one = random.below(count_);
    const std::uint64_t other = random.below(count_);
    heap_->run([&](auto root) {
      const auto entries = root->entries.get();
      const std::uint64_t value = entries[one];
      entries[one] = entries[other].get();
      entries[other] = value;
    });
    return 0;
  }

  /// Every number is still there, once.
  std::uint64_t check() {
    std::vector<bool> seen(count_);
    heap_->read([&](auto root) {
      const auto entries = root->entries.get();
      require(entries->size() == count_, "SPS: the array has changed its size");
      for (std::uint64_t i = 0; i < count_; ++i) {
        const std::uint64_t value = entries[i];
        require(value < count_ && !seen[value], "SPS: a number is lost or there twice");
        seen[value] = true;
      }
    });
    return count_;
  }

 private:
  Heap* heap_;
  std::uint64_t count_;
};

}  // namespace perdure::bench::nvheaps
