// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "bench/system.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/pool.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"

namespace perdure::bench::reproduce {
namespace {

class HashTable final : public UpdateStore {
 public:
  explicit HashTable(const StoreOptions& options)
      : file_(options.dir, "hash"),
        pool_(papers::create(file_.path(), options.pool).value()),
        map_(pool_.root<hash_map<std::uint64_t, bytes>>("table")) {}

  void put(std::uint64_t key, std::string_view value) override {
    pool_.atomically([&](Tx& tx) { map_->put(tx, key, value); });
  }
  void erase(std::uint64_t key) override {
    pool_.atomically([&](Tx& tx) { map_->erase(tx, key); });
  }
  std::string get(std::uint64_t key) override {
    return pool_.read_only([&](Tx& tx) { return map_->get(tx, key).value_or(std::string()); });
  }

 private:
  ScratchFile file_;
  Pool pool_;
  hash_map<std::uint64_t, bytes>* map_;
};

template <std::size_t kValueBytes>
class Tree final : public UpdateStore {
 public:
  explicit Tree(const StoreOptions& options)
      : file_(options.dir, "tree"),
        pool_(papers::create(file_.path(), options.pool).value()),
        map_(pool_.root<Map>("tree")) {}

  void put(std::uint64_t key, std::string_view value) override {
    Value fixed;
    if (value.size() != kValueBytes)
      throw Exception(Code::kInvalid, "reproduce: a value of another size than the tree's");
    value.copy(fixed.data(), kValueBytes);
    pool_.atomically([&](Tx& tx) { map_->put(tx, key, fixed); });
  }
  void erase(std::uint64_t key) override {
    pool_.atomically([&](Tx& tx) { map_->erase(tx, key); });
  }
  std::string get(std::uint64_t key) override {
    const auto value = pool_.read_only([&](Tx& tx) { return map_->get(tx, key); });
    return value ? std::string(value->data(), kValueBytes) : std::string();
  }

 private:
  using Value = std::array<char, kValueBytes>;
  using Map = btree_map<std::uint64_t, Value>;
  ScratchFile file_;
  Pool pool_;
  Map* map_;
};

}  // namespace

papers::LabOptions new_pool_options(const EmulatedMemory& memory) {
  papers::LabOptions options;
  options.domain = DomainKind::kAdr;
  options.latency = memory.model();
  options.in_place_bytes = ~std::size_t{0};
  options.tornbit_logs = true;
  return options;
}

std::unique_ptr<UpdateStore> make_hash_table(const StoreOptions& options) {
  return std::make_unique<HashTable>(options);
}

std::unique_ptr<UpdateStore> make_tree(const StoreOptions& options) {
  switch (options.value_bytes) {
    case 64: return std::make_unique<Tree<64>>(options);
    case 1024: return std::make_unique<Tree<1024>>(options);
    default:
      throw Exception(Code::kInvalid,
                      "reproduce: the tree holds values of 64 or 1024 bytes, not of " +
                          std::to_string(options.value_bytes));
  }
}

Peers& peers() {
  static Peers built;
  return built;
}

}  // namespace perdure::bench::reproduce
