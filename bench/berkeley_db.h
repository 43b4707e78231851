// SPDX-License-Identifier: BSD-3-Clause
// Berkeley DB 5.3 as the benchmarks use it: one table in a private transactional environment.
#pragma once

#include <db.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "perdure/error.h"

namespace perdure::bench {

class BerkeleyDb {
 public:
  struct Options {
    DBTYPE type = DB_HASH;
    std::uint32_t page_bytes = 4096;
    std::uint64_t cache_bytes = std::uint64_t{512} << 20;
    std::uint32_t most_locks = 1000;  // at the same time
  };

  static void check(int status, const std::string& what) {
    if (status != 0)
      throw Exception(Code::kIo, "Berkeley DB: " + what + ": " + ::db_strerror(status));
  }

  /// In a directory in which it was open before, what was committed there is recovered from its log.
  /// Errors: throws Exception kIo, as everything here.
  BerkeleyDb(const std::string& directory, const Options& options) {
    try {
      open(directory, options);
    } catch (...) {
      close();
      throw;
    }
  }
  /// Pages stay unwritten: the log has what they hold.
  ~BerkeleyDb() { close(); }
  BerkeleyDb(const BerkeleyDb&) = delete;
  BerkeleyDb& operator=(const BerkeleyDb&) = delete;

  /// Runs `update(transaction)`, which returns a status of the library, until it is not chosen to
  /// end a deadlock, and commits with `commit_flags`. Threads: any.
  template <class Update>
  void in_transaction(const char* what, std::uint32_t commit_flags, Update update) {
    for (;;) {
      DB_TXN* transaction = nullptr;
      check(environment_->txn_begin(environment_, nullptr, &transaction, 0), "txn_begin");
      const int status = update(transaction);
      if (status == 0) return check(transaction->commit(transaction, commit_flags), "commit");
      check(transaction->abort(transaction), "abort");
      if (status != DB_LOCK_DEADLOCK) check(status, what);
      deadlocks_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// Transactions that were begun again, so far.
  std::uint64_t deadlocks() const { return deadlocks_.load(std::memory_order_relaxed); }

  /// For in_transaction(): what they return is the library's.
  int put(DB_TXN* transaction, std::string_view key, std::string_view value) {
    DBT name = item(key);
    DBT record = item(value);
    return table_->put(table_, transaction, &name, &record, 0);
  }
  /// What stands there, locked as for a write. `record` is anything when nothing does.
  int read_to_write(DB_TXN* transaction, std::string_view key, std::string& record) {
    DBT name = item(key);
    for (;;) {
      DBT found{};
      found.data = record.data();
      found.ulen = static_cast<std::uint32_t>(record.size());
      found.flags = DB_DBT_USERMEM;
      const int status = table_->get(table_, transaction, &name, &found, DB_RMW);
      if (status == 0 || status == DB_BUFFER_SMALL) record.resize(found.size);
      if (status != DB_BUFFER_SMALL) return status;
    }
  }
  int erase(DB_TXN* transaction, std::string_view key) {
    DBT name = item(key);
    return table_->del(table_, transaction, &name, 0);
  }

  /// The same for what the transaction writes next: the record is locked for that. Requires: a value of as many bytes.
  int get_to_write(DB_TXN* transaction, std::string_view key, std::string& value) {
    DBT name = item(key);
    DBT record{};
    record.data = value.data();
    record.ulen = static_cast<std::uint32_t>(value.size());
    record.flags = DB_DBT_USERMEM;
    return table_->get(table_, transaction, &name, &record, DB_RMW);
  }

  /// False, and `value` is anything, when there is none. Threads: any.
  bool get(std::string_view key, std::string& value) {
    DBT name = item(key);
    for (;;) {
      DBT record{};
      record.data = value.data();
      record.ulen = static_cast<std::uint32_t>(value.size());
      record.flags = DB_DBT_USERMEM;
      const int status = table_->get(table_, nullptr, &name, &record, 0);
      if (status == DB_NOTFOUND) return false;
      if (status == DB_LOCK_DEADLOCK) continue;
      if (status != DB_BUFFER_SMALL) check(status, "get");
      value.resize(record.size);
      if (status == 0) return true;
    }
  }

  /// Visits up to `count` records, `visit(key, value)`, from `key` on. Requires: a B-tree.
  /// Threads: any, while none updates.
  template <class Visit>
  void scan(std::string_view key, std::uint64_t count, const Visit& visit) {
    DBC* cursor = nullptr;
    check(table_->cursor(table_, nullptr, &cursor, 0), "cursor");
    DBT name = item(key);
    DBT record{};
    int status = 0;
    for (std::uint32_t way = DB_SET_RANGE; count > 0; --count, way = DB_NEXT) {
      status = cursor->get(cursor, &name, &record, way);
      if (status != 0) break;
      visit(view(name), view(record));
    }
    check(cursor->close(cursor), "close a cursor");
    if (status != DB_NOTFOUND) check(status, "scan");
  }

  /// Visits records from `key` on (empty: all) while `visit(key, value)` says so, outside transactions, so that each is as it was
  /// committed when it is read. False: it was chosen to end a deadlock. Requires: a B-tree, or no key. Threads: any.
  template <class Visit>
  bool scan_while(std::string_view key, const Visit& visit) {
    DBC* cursor = nullptr;
    check(table_->cursor(table_, nullptr, &cursor, 0), "cursor");
    DBT name = item(key);
    DBT record{};
    int status = cursor->get(cursor, &name, &record, key.empty() ? DB_FIRST : DB_SET_RANGE);
    while (status == 0 && visit(view(name), view(record)))
      status = cursor->get(cursor, &name, &record, DB_NEXT);
    check(cursor->close(cursor), "close a cursor");
    if (status == DB_LOCK_DEADLOCK) return false;
    if (status != DB_NOTFOUND) check(status, "scan");
    return true;
  }

 private:
  static DBT item(std::string_view bytes) {
    DBT made{};
    made.data = const_cast<char*>(bytes.data());
    made.size = static_cast<std::uint32_t>(bytes.size());
    return made;
  }
  static std::string_view view(const DBT& item) {
    return {static_cast<const char*>(item.data), item.size};
  }

  void open(const std::string& directory, const Options& options) {
    check(::db_env_create(&environment_, 0), "db_env_create");
    check(environment_->set_cachesize(
              environment_, static_cast<std::uint32_t>(options.cache_bytes >> 30),
              static_cast<std::uint32_t>(options.cache_bytes & ((1u << 30) - 1)), 1),
          "set_cachesize");
    check(environment_->set_lk_detect(environment_, DB_LOCK_DEFAULT), "set_lk_detect");
    check(environment_->set_lk_max_locks(environment_, options.most_locks), "set_lk_max_locks");
    check(environment_->set_lk_max_objects(environment_, options.most_locks), "set_lk_max_objects");
    check(environment_->open(environment_, directory.c_str(),
                             DB_CREATE | DB_PRIVATE | DB_THREAD | DB_INIT_LOCK | DB_INIT_LOG |
                                 DB_INIT_MPOOL | DB_INIT_TXN | DB_RECOVER,
                             0600),
          directory);
    check(::db_create(&table_, environment_, 0), "db_create");
    check(table_->set_pagesize(table_, options.page_bytes), "set_pagesize");
    check(table_->open(table_, nullptr, "table.db", nullptr, options.type,
                       DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0600),
          "table.db");
  }
  void close() {
    if (table_ != nullptr) table_->close(table_, DB_NOSYNC);
    if (environment_ != nullptr) environment_->close(environment_, 0);
  }

  std::atomic<std::uint64_t> deadlocks_{0};
  DB_ENV* environment_ = nullptr;
  DB* table_ = nullptr;
};

/// A page size with which transactions of several threads can live, for records of `value_bytes`: a
/// value of more than a quarter of a page overflows it, and they then deadlock at nearly every
/// update. One thread needs no more than the library's own choice, 4 KiB.
inline std::uint32_t berkeley_page_bytes(std::uint64_t value_bytes, unsigned threads) {
  constexpr std::uint64_t kLeast = 4096;
  constexpr std::uint64_t kMost = 65536;
  if (threads == 1) return kLeast;
  return static_cast<std::uint32_t>(std::clamp(std::bit_ceil(8 * value_bytes), kLeast, kMost));
}

}  // namespace perdure::bench
