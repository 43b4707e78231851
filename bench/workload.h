// SPDX-License-Identifier: BSD-3-Clause
// Workload: what a row does, written once as a template over the store that it runs on.
//
// A store offers, each call being one transaction of its own unless it takes a `tx`:
//   words(thread)                               the thread's array
//   atomically(body)                            body(tx) with tx.load(word), tx.store(word, value)
//   allocate(thread, slot, value) / release(thread, slot)
//   put(thread, key, value) / erase(thread, key) for std::uint64_t and Value64 values: erase<V>
//   get(thread, key) → first word of the Value64
//   put_in_tree(thread, key, value) / erase_in_tree(thread, key)
//   put_in_chains(thread, key, value) / erase_in_chains(thread, key) / get_in_chains(thread, key)
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "bench/system.h"

namespace perdure::bench {

/// SplitMix64: small, and the same sequence for every system.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// Below `bound`, by multiplication: no division on the measured path.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }

 private:
  std::uint64_t state_;
};

/// Which keys are in a map: inserts and deletes take turns, so that its size stays.
class KeyChurn {
 public:
  explicit KeyChurn(std::uint64_t live) : keys_(2 * live), live_(live) {
    std::iota(keys_.begin(), keys_.end(), std::uint64_t{1});
  }
  const std::vector<std::uint64_t>& keys() const { return keys_; }
  std::uint64_t live() const { return live_; }
  bool insert_is_next() const { return insert_next_; }
  std::uint64_t any_live(Random& random) const { return keys_[random.below(live_)]; }
  std::uint64_t insert(Random& random) {
    std::swap(keys_[live_], keys_[live_ + random.below(keys_.size() - live_)]);
    insert_next_ = false;
    return keys_[live_++];
  }
  std::uint64_t erase(Random& random) {
    std::swap(keys_[random.below(live_)], keys_[live_ - 1]);
    insert_next_ = true;
    return keys_[--live_];
  }

 private:
  std::vector<std::uint64_t> keys_;  // the first live_ are in the map
  std::uint64_t live_;
  bool insert_next_ = true;
};

template <class Store>
class Workload final : public System {
 public:
  explicit Workload(const SystemOptions& options) : options_(options), store_(options) {
    for (unsigned thread = 0; thread < options.threads; ++thread) {
      lanes_.push_back(std::make_unique<Lane>(options, thread));
      for (std::uint64_t i = 0; i < options.hash_entries; ++i) {
        const std::uint64_t key = lanes_.back()->churn8.keys()[i];
        store_.put(thread, key, key);
        store_.put(thread, key, value_of(key));
        store_.put_in_tree(thread, key, key);
        store_.put_in_chains(thread, key, key);
      }
    }
  }

  void prepare(Row row, std::uint64_t operations, unsigned thread) override {
    Lane& lane = *lanes_[thread];
    if (row == Row::kAllocate) {
      while (lane.allocated > 0) store_.release(thread, --lane.allocated);
    } else if (row == Row::kFree) {
      while (lane.allocated < operations) allocate(lane, thread);
    }
  }

  void run(Row row, std::uint64_t operations, unsigned thread) override {
    Lane& lane = *lanes_[thread];
    switch (row) {
      case Row::kEmpty:
        for (; operations > 0; --operations) store_.atomically([](auto&) {});
        return;
      case Row::kStore1: return stores<1>(lane, operations, thread);
      case Row::kStore2: return stores<2>(lane, operations, thread);
      case Row::kStore10: return stores<10>(lane, operations, thread);
      case Row::kSwap1: return swaps<1>(lane, operations, thread);
      case Row::kSwap4: return swaps<4>(lane, operations, thread);
      case Row::kSwap16: return swaps<16>(lane, operations, thread);
      case Row::kSwap64: return swaps<64>(lane, operations, thread);
      case Row::kAllocate:
        for (; operations > 0; --operations) allocate(lane, thread);
        return;
      case Row::kFree:
        for (; operations > 0; --operations) store_.release(thread, --lane.allocated);
        return;
      case Row::kHash8: return churn_map<std::uint64_t>(lane, lane.churn8, operations, thread);
      case Row::kHash64: return churn_map<Value64>(lane, lane.churn64, operations, thread);
      case Row::kLookUp:
        for (; operations > 0; --operations)
          lane.sink += store_.get(thread, lane.churn64.any_live(lane.random));
        return;
      case Row::kChained8:
        return churn(
            lane, lane.churn_chains, operations,
            [&](std::uint64_t key) { store_.put_in_chains(thread, key, key); },
            [&](std::uint64_t key) { store_.erase_in_chains(thread, key); });
      case Row::kChainedLookUp:
        for (; operations > 0; --operations)
          lane.sink += store_.get_in_chains(thread, lane.churn_chains.any_live(lane.random));
        return;
      case Row::kTree8:
        return churn(
            lane, lane.churn_tree, operations,
            [&](std::uint64_t key) { store_.put_in_tree(thread, key, key); },
            [&](std::uint64_t key) { store_.erase_in_tree(thread, key); });
    }
  }

  std::optional<DomainCounts> counts() const override { return store_.counts(); }

 private:
  struct alignas(kLineBytes) Lane {
    Lane(const SystemOptions& options, unsigned thread)
        : random(options.seed + thread),
          churn8(options.hash_entries),
          churn64(options.hash_entries),
          churn_chains(options.hash_entries),
          churn_tree(options.hash_entries) {}
    Random random;
    KeyChurn churn8;
    KeyChurn churn64;
    KeyChurn churn_chains;
    KeyChurn churn_tree;
    std::uint64_t allocated = 0;
    std::uint64_t sink = 0;
  };

  static Value64 value_of(std::uint64_t key) {
    Value64 value;
    for (std::uint64_t& word : value.words) word = key;
    return value;
  }
  template <class V>
  static V make_value(std::uint64_t key) {
    if constexpr (std::is_same_v<V, Value64>) {
      return value_of(key);
    } else {
      return key;
    }
  }

  void allocate(Lane& lane, unsigned thread) {
    store_.allocate(thread, lane.allocated, value_of(lane.allocated));
    ++lane.allocated;
  }

  template <unsigned kStores>
  void stores(Lane& lane, std::uint64_t operations, unsigned thread) {
    std::uint64_t* const words = store_.words(thread);
    for (; operations > 0; --operations) {
      store_.atomically([&](auto& tx) {
        for (unsigned i = 0; i < kStores; ++i)
          tx.store(words[lane.random.below(options_.array_words)], operations);
      });
    }
  }

  template <unsigned kSwaps>
  void swaps(Lane& lane, std::uint64_t operations, unsigned thread) {
    std::uint64_t* const words = store_.words(thread);
    for (; operations > 0; --operations) {
      store_.atomically([&](auto& tx) {
        for (unsigned i = 0; i < kSwaps; ++i) {
          std::uint64_t& a = words[lane.random.below(options_.swap_words)];
          std::uint64_t& b = words[lane.random.below(options_.swap_words)];
          const std::uint64_t was = tx.load(a);
          tx.store(a, tx.load(b));
          tx.store(b, was);
        }
      });
    }
  }

  template <class Insert, class Erase>
  static void churn(Lane& lane, KeyChurn& keys, std::uint64_t operations, Insert insert,
                    Erase erase) {
    for (; operations > 0; --operations) {
      if (keys.insert_is_next()) {
        insert(keys.insert(lane.random));
      } else {
        erase(keys.erase(lane.random));
      }
    }
  }
  template <class V>
  void churn_map(Lane& lane, KeyChurn& keys, std::uint64_t operations, unsigned thread) {
    churn(
        lane, keys, operations,
        [&](std::uint64_t key) { store_.put(thread, key, make_value<V>(key)); },
        [&](std::uint64_t key) { store_.template erase<V>(thread, key); });
  }

  SystemOptions options_;
  Store store_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace perdure::bench
