// SPDX-License-Identifier: BSD-3-Clause
// Perdure as a system under measurement.
#include <array>

#include "bench/chained_hash.h"
#include "bench/workload.h"
#include "papers/pool.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"

namespace perdure::bench {
namespace {

papers::LabOptions pool_options(const SystemOptions& options) {
  papers::LabOptions pool;
  pool.domain = options.domain;
  pool.engine = options.engine;
  pool.truncation = options.truncation;
  pool.tornbit_logs = options.tornbit_logs;
  pool.count = options.count;
  pool.log_slots = options.threads + 1;  // and the thread that sets everything up
  pool.root_entries = 7 * options.threads;
  return pool;
}

class PerdureStore {
 public:
  explicit PerdureStore(const SystemOptions& options)
      : file_(options.dir, "perdure"),
        pool_(papers::create(file_.path(), pool_options(options)).value()) {
    counted_ = options.count;
    durability_ = options.durability;
    for (unsigned thread = 0; thread < options.threads; ++thread) {
      const std::string suffix = std::to_string(thread);
      lanes_.push_back({make_array<Word>("array" + suffix, options.array_words),
                        make_array<pptr<Value64>>("slots" + suffix, options.slots),
                        pool_.root<hash_map<std::uint64_t, std::uint64_t>>("map8-" + suffix),
                        pool_.root<hash_map<std::uint64_t, Value64>>("map64-" + suffix),
                        pool_.root<rb_map<std::uint64_t, std::uint64_t>>("tree-" + suffix),
                        pool_.root<ChainedHash>("chains-" + suffix)});
      auto* buckets = make_array<std::uint64_t>("buckets" + suffix,
                                                ChainedHash::buckets_for(options.hash_entries));
      atomically([&](Tx& tx) { lanes_.back().chains->make(tx, buckets, options.hash_entries); });
    }
  }

  Word* words(unsigned thread) { return lanes_[thread].words; }

  template <class Body>
  void atomically(Body&& body) {
    pool_.atomically(durability_, std::forward<Body>(body));
  }

  void allocate(unsigned thread, std::uint64_t slot, const Value64& value) {
    atomically([&](Tx& tx) {
      auto* object = static_cast<Value64*>(tx.allocate(sizeof(Value64)));
      tx.write(object, &value, sizeof(value));
      tx.store(lanes_[thread].slots[slot], tx.link_to(object));
    });
  }
  void release(unsigned thread, std::uint64_t slot) {
    atomically([&](Tx& tx) {
      pptr<Value64>& place = lanes_[thread].slots[slot];
      tx.free(tx.at(tx.load(place)));
      tx.store(place, {});
    });
  }

  void put(unsigned thread, std::uint64_t key, std::uint64_t value) {
    atomically([&](Tx& tx) { lanes_[thread].map8->put(tx, key, value); });
  }
  void put(unsigned thread, std::uint64_t key, const Value64& value) {
    atomically([&](Tx& tx) { lanes_[thread].map64->put(tx, key, value); });
  }
  template <class V>
  void erase(unsigned thread, std::uint64_t key) {
    atomically([&](Tx& tx) {
      if constexpr (std::is_same_v<V, Value64>) {
        lanes_[thread].map64->erase(tx, key);
      } else {
        lanes_[thread].map8->erase(tx, key);
      }
    });
  }
  std::uint64_t get(unsigned thread, std::uint64_t key) {
    return pool_.read_only(
        [&](Tx& tx) { return lanes_[thread].map64->get(tx, key).value().words[0]; });
  }

  void put_in_tree(unsigned thread, std::uint64_t key, std::uint64_t value) {
    atomically([&](Tx& tx) { lanes_[thread].tree->put(tx, key, value); });
  }
  void erase_in_tree(unsigned thread, std::uint64_t key) {
    atomically([&](Tx& tx) { lanes_[thread].tree->erase(tx, key); });
  }

  void put_in_chains(unsigned thread, std::uint64_t key, std::uint64_t value) {
    atomically([&](Tx& tx) { lanes_[thread].chains->insert(tx, key, value); });
  }
  void erase_in_chains(unsigned thread, std::uint64_t key) {
    atomically([&](Tx& tx) { lanes_[thread].chains->erase(tx, key); });
  }
  std::uint64_t get_in_chains(unsigned thread, std::uint64_t key) {
    return pool_.read_only([&](Tx& tx) { return lanes_[thread].chains->get(tx, key); });
  }

  std::optional<DomainCounts> counts() const {
    if (!counted_) return std::nullopt;
    return pool_.counts();
  }

 private:
  struct Lane {
    Word* words;
    pptr<Value64>* slots;
    hash_map<std::uint64_t, std::uint64_t>* map8;
    hash_map<std::uint64_t, Value64>* map64;
    rb_map<std::uint64_t, std::uint64_t>* tree;
    ChainedHash* chains;
  };

  /// An array of zeroes under a root of its own. Written piece by piece, so that no transaction is
  /// huge and no page fault is left for the measurement.
  template <class T>
  T* make_array(const std::string& name, std::uint64_t count) {
    auto* root = pool_.root<pptr<T>>(name);
    auto* array = static_cast<T*>(pool_.atomically([&](Tx& tx) {
      void* memory = tx.allocate(count * sizeof(T));
      tx.store(*root, tx.link_to(static_cast<T*>(memory)));
      return memory;
    }));
    static constexpr std::uint64_t kPiece = 4096;
    static constexpr std::array<T, kPiece> kZeroes{};
    for (std::uint64_t i = 0; i < count; i += kPiece) {
      const std::uint64_t here = std::min(kPiece, count - i);
      pool_.atomically([&](Tx& tx) { tx.write(array + i, kZeroes.data(), here * sizeof(T)); });
    }
    return array;
  }

  ScratchFile file_;
  papers::LabPool pool_;
  bool counted_ = false;
  Durability durability_ = Durability::kStrict;
  std::vector<Lane> lanes_;
};

}  // namespace

std::unique_ptr<System> make_perdure(const SystemOptions& options) {
  return std::make_unique<Workload<PerdureStore>>(options);
}

}  // namespace perdure::bench
