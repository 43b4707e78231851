// SPDX-License-Identifier: BSD-3-Clause
// Ordinary memory as a system under measurement: the rows' structures under PlainTx.
#include <cstdlib>
#include <new>

#include "bench/chained_hash.h"
#include "bench/workload.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/tx.h"

namespace perdure::bench {
namespace {

class PlainStore {
 public:
  explicit PlainStore(const SystemOptions& options)
      : lanes_(options.threads), slots_(options.slots) {
    for (Lane& lane : lanes_) {
      lane.words = zeroed<std::uint64_t>(options.array_words);
      lane.slots = zeroed<pptr<Value64>>(options.slots);
      lane.buckets = zeroed<std::byte>(ChainedHash::array_bytes(options.hash_entries));
      lane.roots = zeroed<Roots>(1);
      PlainTx tx;
      lane.roots->chains.make(tx, lane.buckets.get(), options.hash_entries);
    }
  }
  ~PlainStore() {
    PlainTx tx;
    for (Lane& lane : lanes_) {
      lane.roots->map8.clear(tx);
      lane.roots->map64.clear(tx);
      lane.roots->tree.clear(tx);
      lane.roots->chains.clear(tx);
      for (std::uint64_t slot = 0; slot < slots_; ++slot)
        std::free(tx.at(tx.load(lane.slots.get()[slot])));
    }
  }
  PlainStore(const PlainStore&) = delete;
  PlainStore& operator=(const PlainStore&) = delete;

  std::uint64_t* words(unsigned thread) { return lanes_[thread].words.get(); }

  template <class Body>
  static void atomically(const Body& body) {
    PlainTx tx;
    body(tx);
  }

  void allocate(unsigned thread, std::uint64_t slot, const Value64& value) {
    PlainTx tx;
    auto* object = static_cast<Value64*>(tx.allocate(sizeof(Value64)));
    tx.write(object, &value, sizeof(value));
    tx.store(lanes_[thread].slots.get()[slot], tx.link_to(object));
  }
  void release(unsigned thread, std::uint64_t slot) {
    PlainTx tx;
    pptr<Value64>& place = lanes_[thread].slots.get()[slot];
    tx.free(tx.at(tx.load(place)));
    tx.store(place, {});
  }

  void put(unsigned thread, std::uint64_t key, std::uint64_t value) {
    PlainTx tx;
    roots(thread).map8.put(tx, key, value);
  }
  void put(unsigned thread, std::uint64_t key, const Value64& value) {
    PlainTx tx;
    roots(thread).map64.put(tx, key, value);
  }
  template <class V>
  void erase(unsigned thread, std::uint64_t key) {
    PlainTx tx;
    if constexpr (std::is_same_v<V, Value64>) {
      roots(thread).map64.erase(tx, key);
    } else {
      roots(thread).map8.erase(tx, key);
    }
  }
  std::uint64_t get(unsigned thread, std::uint64_t key) {
    PlainTx tx;
    return roots(thread).map64.get(tx, key).value().words[0];
  }

  void put_in_tree(unsigned thread, std::uint64_t key, std::uint64_t value) {
    PlainTx tx;
    roots(thread).tree.put(tx, key, value);
  }
  void erase_in_tree(unsigned thread, std::uint64_t key) {
    PlainTx tx;
    roots(thread).tree.erase(tx, key);
  }
  void put_in_chains(unsigned thread, std::uint64_t key, std::uint64_t value) {
    PlainTx tx;
    roots(thread).chains.insert(tx, key, value);
  }
  void erase_in_chains(unsigned thread, std::uint64_t key) {
    PlainTx tx;
    roots(thread).chains.erase(tx, key);
  }
  std::uint64_t get_in_chains(unsigned thread, std::uint64_t key) {
    PlainTx tx;
    return roots(thread).chains.get(tx, key);
  }

  static std::optional<DomainCounts> counts() { return std::nullopt; }

 private:
  struct Roots {
    hash_map<std::uint64_t, std::uint64_t> map8;
    hash_map<std::uint64_t, Value64> map64;
    rb_map<std::uint64_t, std::uint64_t> tree;
    ChainedHash chains;
  };
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <class T>
  using Zeroed = std::unique_ptr<T, Free>;
  struct Lane {
    Zeroed<std::uint64_t> words;
    Zeroed<pptr<Value64>> slots;
    Zeroed<std::byte> buckets;
    Zeroed<Roots> roots;
  };

  template <class T>
  static Zeroed<T> zeroed(std::uint64_t count) {
    void* const memory = std::calloc(count, sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return Zeroed<T>(static_cast<T*>(memory));
  }
  Roots& roots(unsigned thread) { return *lanes_[thread].roots; }

  std::vector<Lane> lanes_;
  std::uint64_t slots_;
};

}  // namespace

std::unique_ptr<System> make_plain(const SystemOptions& options) {
  return std::make_unique<Workload<PlainStore>>(options);
}

}  // namespace perdure::bench
