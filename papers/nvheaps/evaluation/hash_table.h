// SPDX-License-Identifier: BSD-3-Clause
// HashTable (Table 2): searches for an integer in an open-chain hash table; inserts it if it is absent, removes it otherwise.
#pragma once

#include <bit>
#include <vector>

#include "bench/workload.h"
#include "papers/nvheaps/evaluation/sizes.h"
#include "perdure/object.h"

namespace perdure::bench::nvheaps {

template <class L>
struct HashEntry : L::template Object<HashEntry<L>> {
  typename L::template Field<std::uint64_t> key;
  typename L::template Ref<HashEntry> next;
  PERDURE_FIELDS(HashEntry, key, next);
};
template <class L>
struct HashRoot : L::template Object<HashRoot<L>> {
  typename L::template Ref<typename L::template Array<typename L::template Ref<HashEntry<L>>>>
      buckets;
  PERDURE_FIELDS(HashRoot, buckets);
};

template <class L>
class HashTable {
 public:
  using Root = HashRoot<L>;
  using Heap = typename L::template Heap<Root>;
  using Entry = HashEntry<L>;
  using Local = typename L::template Local<Entry>;
  struct Scratch {};

  HashTable(Heap& heap, const Sizes& sizes)
      : heap_(&heap), keys_(2 * sizes.keys), buckets_(std::bit_ceil(sizes.keys)) {
    heap.run([&](auto root) {
      root->buckets = L::template make_array<typename L::template Ref<Entry>>(buckets_);
    });
    const std::vector<std::uint64_t> keys = shuffled_keys(sizes.keys);
    fill_up(heap, keys.size(), [&](auto&, std::uint64_t i) { toggle(keys[i]); });
  }

  /// With the same structure, read back.
  void go_on_with(Heap& heap) { heap_ = &heap; }

  std::int64_t operate(Random& random, Scratch&) { return toggle(random.below(keys_)) ? 1 : -1; }

  /// Whether the key was inserted.
  bool toggle(std::uint64_t key) {
    return heap_->run([&](auto root) {
      auto& first = root->buckets.get()[bucket_of(key)];
      Local before = nullptr;
      Local at = first;
      while (at && at->key != key) {
        before = at;
        at = at->next;
      }
      if (!at) {
        const Local made = L::template make<Entry>();
        made->key = key;
        made->next = first;
        first = made;
        return true;
      }
      if (before) {
        before->next = at->next;
      } else {
        first = at->next;
      }
      L::end(at);
      return false;
    });
  }

  /// Every entry is in the chain where it belongs, once.
  std::uint64_t check() {
    return heap_->read([&](auto root) {
      std::uint64_t count = 0;
      const auto buckets = root->buckets.get();
      for (std::uint64_t i = 0; i < buckets_; ++i) {
        for (Local at = buckets[i]; at; at = at->next) {
          require(bucket_of(at->key) == i, "HashTable: an entry is in another one's chain");
          for (Local other = at->next; other; other = other->next)
            require(other->key != at->key.get(), "HashTable: a key is there twice");
          ++count;
        }
      }
      return count;
    });
  }

 private:
  std::uint64_t bucket_of(std::uint64_t key) const {
    return (key * 0x9e3779b97f4a7c15u >> 20) & (buckets_ - 1);
  }
  Heap* heap_;
  std::uint64_t keys_;
  std::uint64_t buckets_;
};

}  // namespace perdure::bench::nvheaps
