// SPDX-License-Identifier: BSD-3-Clause
// Ours: a map in a pool, a transaction for each update.
#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "bench/comparison/kinds.h"
#include "papers/pool.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/pool.h"

namespace perdure::bench::comparison {
namespace {

Pool open_pool(const StoreOptions& options, DomainKind domain) {
  papers::LabOptions pool;
  pool.domain = domain;
  pool.log_slots = options.threads + 1;  // and the thread that fills and verifies
  return papers::open_or_create(options.dir + "/pool", pool).value();
}

class HashMapStore final : public Store {
 public:
  HashMapStore(const StoreOptions& options, DomainKind domain)
      : pool_(open_pool(options, domain)),
        map_(pool_.root<hash_map<std::uint64_t, bytes>>("records")) {}

  void put(unsigned, std::span<const Record> records) override {
    pool_.atomically([&](Tx& tx) {
      for (const Record& record : records) map_->put(tx, record.key, record.value);
    });
  }
  void erase(unsigned, std::uint64_t key) override {
    pool_.atomically([&](Tx& tx) { map_->erase(tx, key); });
  }
  bool get(unsigned, std::uint64_t key, std::string& value) override {
    return pool_.read_only([&](Tx& tx) { return map_->get(tx, key, value); });
  }

 private:
  Pool pool_;
  hash_map<std::uint64_t, bytes>* map_;
};

/// Values that the map keeps in its nodes, or, of `bytes`, apart.
template <class Value>
class TreeStore final : public Store {
 public:
  TreeStore(const StoreOptions& options, DomainKind domain)
      : pool_(open_pool(options, domain)), map_(pool_.root<Map>("records")) {}

  void put(unsigned, std::span<const Record> records) override {
    pool_.atomically([&](Tx& tx) {
      for (const Record& record : records) {
        if constexpr (std::is_same_v<Value, bytes>) {
          map_->put(tx, record.key, record.value);
        } else {
          map_->put(tx, record.key, fixed_value<sizeof(Value)>(record.value));
        }
      }
    });
  }
  void erase(unsigned, std::uint64_t key) override {
    pool_.atomically([&](Tx& tx) { map_->erase(tx, key); });
  }
  bool get(unsigned, std::uint64_t key, std::string& value) override {
    if constexpr (std::is_same_v<Value, bytes>) {
      return pool_.read_only([&](Tx& tx) { return map_->get(tx, key, value); });
    } else {
      const auto found = pool_.read_only([&](Tx& tx) { return map_->get(tx, key); });
      if (found) value.assign(found->data(), found->size());
      return found.has_value();
    }
  }
  void scan(unsigned, std::uint64_t from, std::uint64_t count, const Visit& visit) override {
    // Collected first: a transaction that meets an update begins again, and must not visit twice.
    const auto found = pool_.read_only([&](Tx& tx) {
      std::vector<typename Map::Entry> entries;
      entries.reserve(std::min<std::uint64_t>(count, 1024));
      map_->for_each_in(tx, from, ~std::uint64_t{0}, [&](std::uint64_t key, const auto& value) {
        entries.emplace_back(key, value);
        return entries.size() < count;
      });
      return entries;
    });
    for (const auto& [key, value] : found) visit(key, {value.data(), value.size()});
  }

 private:
  using Map = btree_map<std::uint64_t, Value>;
  Pool pool_;
  Map* map_;
};

template <DomainKind kDomain>
std::unique_ptr<Store> make_btree_map(const StoreOptions& options) {
  switch (options.value_bytes) {
    case 8: return std::make_unique<TreeStore<std::array<char, 8>>>(options, kDomain);
    case 64: return std::make_unique<TreeStore<std::array<char, 64>>>(options, kDomain);
    default: return std::make_unique<TreeStore<bytes>>(options, kDomain);
  }
}
template <DomainKind kDomain>
std::unique_ptr<Store> make_hash_map(const StoreOptions& options) {
  return std::make_unique<HashMapStore>(options, kDomain);
}

const RegisterStore kRegistered[] = {
    {"hash_map-dram", make_hash_map<DomainKind::kDram>},
    {"hash_map-adr", make_hash_map<DomainKind::kAdr>},
    {"hash_map-sync", make_hash_map<DomainKind::kSync>},
    {"btree_map-dram", make_btree_map<DomainKind::kDram>},
    {"btree_map-adr", make_btree_map<DomainKind::kAdr>},
    {"btree_map-sync", make_btree_map<DomainKind::kSync>},
};

}  // namespace
}  // namespace perdure::bench::comparison
