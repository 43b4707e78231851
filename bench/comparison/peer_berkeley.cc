// SPDX-License-Identifier: BSD-3-Clause
// Berkeley DB 5.3, as a hash table and as a B-tree.
#include "bench/berkeley_db.h"
#include "bench/comparison/kinds.h"

namespace perdure::bench::comparison {
namespace {

template <DBTYPE kType>
class BerkeleyStore final : public Store {
 public:
  explicit BerkeleyStore(const StoreOptions& options)
      : table_(options.dir,
               {.type = kType,
                .page_bytes = berkeley_page_bytes(options.value_bytes, options.threads),
                .cache_bytes = cache_bytes_for(options),
                .most_locks = 20'000}) {}

  void put(unsigned, std::span<const Record> records) override {
    table_.in_transaction("put", DB_TXN_SYNC, [&](DB_TXN* transaction) {
      int status = 0;
      for (std::size_t i = 0; i < records.size() && status == 0; ++i)
        status = table_.put(transaction, OrderedKey(records[i].key).view(), records[i].value);
      return status;
    });
  }
  void erase(unsigned, std::uint64_t key) override {
    table_.in_transaction("del", DB_TXN_SYNC, [&](DB_TXN* transaction) {
      return table_.erase(transaction, OrderedKey(key).view());
    });
  }
  bool get(unsigned, std::uint64_t key, std::string& value) override {
    return table_.get(OrderedKey(key).view(), value);
  }
  void scan(unsigned thread, std::uint64_t from, std::uint64_t count, const Visit& visit) override {
    if (kType != DB_BTREE) return Store::scan(thread, from, count, visit);
    table_.scan(OrderedKey(from).view(), count, [&](std::string_view key, std::string_view value) {
      visit(OrderedKey::number(key.data()), value);
    });
  }

 private:
  /// Four times the records, so that pages half full find room, and some.
  static std::uint64_t cache_bytes_for(const StoreOptions& options) {
    return (std::uint64_t{64} << 20) + 4 * options.records * (options.value_bytes + 64);
  }
  BerkeleyDb table_;
};

template <DBTYPE kType>
std::unique_ptr<Store> make(const StoreOptions& options) {
  return std::make_unique<BerkeleyStore<kType>>(options);
}

const RegisterStore kRegistered[] = {{"bdb-hash", make<DB_HASH>}, {"bdb-btree", make<DB_BTREE>}};

}  // namespace
}  // namespace perdure::bench::comparison
