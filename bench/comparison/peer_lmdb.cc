// SPDX-License-Identifier: BSD-3-Clause
// LMDB: one environment, one table with integer keys.
#include <lmdb.h>

#include <utility>
#include <vector>

#include "bench/comparison/kinds.h"

namespace perdure::bench::comparison {
namespace {

void check(int status, const char* what) {
  if (status != MDB_SUCCESS)
    throw Exception(Code::kIo, std::string("LMDB: ") + what + ": " + ::mdb_strerror(status));
}

MDB_val item(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
MDB_val item(const std::uint64_t& key) { return {sizeof(key), const_cast<std::uint64_t*>(&key)}; }
std::string_view view(const MDB_val& item) {
  return {static_cast<const char*>(item.mv_data), item.mv_size};
}

class LmdbStore final : public Store {
 public:
  explicit LmdbStore(const StoreOptions& options) : readers_(options.threads) {
    check(::mdb_env_create(&environment_), "mdb_env_create");
    try {
      // Address space, not memory: copy on write needs room beside what is live.
      check(::mdb_env_set_mapsize(
                environment_, (std::size_t{1} << 30) + 16 * options.records * options.value_bytes),
            "mdb_env_set_mapsize");
      // A reader's transaction belongs to its number, not to the thread that happens to use it.
      check(::mdb_env_open(environment_, options.dir.c_str(), MDB_NOTLS, 0600), "mdb_env_open");
      MDB_txn* transaction = begin();
      check(::mdb_dbi_open(transaction, nullptr, MDB_INTEGERKEY, &table_), "mdb_dbi_open");
      check(::mdb_txn_commit(transaction), "mdb_txn_commit");
      for (Reader& reader : readers_) {
        check(::mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &reader.transaction),
              "mdb_txn_begin");
        ::mdb_txn_reset(reader.transaction);
      }
    } catch (...) {
      close();
      throw;
    }
  }
  ~LmdbStore() override { close(); }
  LmdbStore(const LmdbStore&) = delete;
  LmdbStore& operator=(const LmdbStore&) = delete;

  void put(unsigned, std::span<const Record> records) override {
    update([&](MDB_txn* transaction) {
      int status = MDB_SUCCESS;
      for (std::size_t i = 0; i < records.size() && status == MDB_SUCCESS; ++i) {
        MDB_val name = item(records[i].key);
        MDB_val value = item(records[i].value);
        status = ::mdb_put(transaction, table_, &name, &value, 0);
      }
      return std::pair(status, "mdb_put");
    });
  }
  void erase(unsigned, std::uint64_t key) override {
    update([&](MDB_txn* transaction) {
      MDB_val name = item(key);
      return std::pair(::mdb_del(transaction, table_, &name, nullptr), "mdb_del");
    });
  }
  bool get(unsigned thread, std::uint64_t key, std::string& value) override {
    MDB_txn* const transaction = readers_[thread].transaction;
    check(::mdb_txn_renew(transaction), "mdb_txn_renew");
    MDB_val name = item(key);
    MDB_val found{};
    const int status = ::mdb_get(transaction, table_, &name, &found);
    if (status == MDB_SUCCESS) value = view(found);
    ::mdb_txn_reset(transaction);
    if (status != MDB_NOTFOUND) check(status, "mdb_get");
    return status == MDB_SUCCESS;
  }
  void scan(unsigned thread, std::uint64_t from, std::uint64_t count, const Visit& visit) override {
    Reader& reader = readers_[thread];
    check(::mdb_txn_renew(reader.transaction), "mdb_txn_renew");
    int status = reader.cursor == nullptr
                     ? ::mdb_cursor_open(reader.transaction, table_, &reader.cursor)
                     : ::mdb_cursor_renew(reader.transaction, reader.cursor);
    MDB_val name = item(from);
    MDB_val value{};
    for (MDB_cursor_op way = MDB_SET_RANGE; status == MDB_SUCCESS && count > 0;
         --count, way = MDB_NEXT) {
      status = ::mdb_cursor_get(reader.cursor, &name, &value, way);
      if (status != MDB_SUCCESS) break;
      std::uint64_t key = 0;
      std::memcpy(&key, name.mv_data, sizeof(key));
      visit(key, view(value));
    }
    ::mdb_txn_reset(reader.transaction);
    if (status != MDB_NOTFOUND) check(status, "scan");
  }

 private:
  struct Reader {
    MDB_txn* transaction = nullptr;
    MDB_cursor* cursor = nullptr;
  };

  MDB_txn* begin() {
    MDB_txn* transaction = nullptr;
    check(::mdb_txn_begin(environment_, nullptr, 0, &transaction), "mdb_txn_begin");
    return transaction;
  }
  /// `work(transaction)` returns a status and what it is of.
  template <class Work>
  void update(const Work& work) {
    MDB_txn* const transaction = begin();
    const auto [status, what] = work(transaction);
    if (status != MDB_SUCCESS) ::mdb_txn_abort(transaction);
    check(status, what);
    check(::mdb_txn_commit(transaction), "mdb_txn_commit");
  }
  void close() {
    for (const Reader& reader : readers_) {
      if (reader.cursor != nullptr) ::mdb_cursor_close(reader.cursor);
      if (reader.transaction != nullptr) ::mdb_txn_abort(reader.transaction);
    }
    ::mdb_env_close(environment_);
  }

  MDB_env* environment_ = nullptr;
  MDB_dbi table_ = 0;
  std::vector<Reader> readers_;
};

const RegisterStore kRegistered("lmdb", [](const StoreOptions& options) -> std::unique_ptr<Store> {
  return std::make_unique<LmdbStore>(options);
});

}  // namespace
}  // namespace perdure::bench::comparison
