// SPDX-License-Identifier: BSD-3-Clause
// SQLite: one table in write-ahead-log mode, a connection for each thread. Its busy handler sleeps
// for milliseconds, which would be measured in place of SQLite; so writers take turns at a mutex.
#include <sqlite3.h>

#include <mutex>
#include <vector>

#include "bench/comparison/kinds.h"

namespace perdure::bench::comparison {
namespace {

class Connection {
 public:
  explicit Connection(const std::string& path) {
    try {
      check(::sqlite3_open_v2(path.c_str(), &connection_,
                              SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                              nullptr),
            path.c_str());
      check(::sqlite3_busy_timeout(connection_, 10'000), "busy_timeout");
      run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
          "CREATE TABLE IF NOT EXISTS records (key INTEGER PRIMARY KEY, value BLOB NOT NULL)");
      begin_ = prepare("BEGIN IMMEDIATE");
      commit_ = prepare("COMMIT");
      put_ = prepare("INSERT OR REPLACE INTO records VALUES (?, ?)");
      erase_ = prepare("DELETE FROM records WHERE key = ?");
      get_ = prepare("SELECT value FROM records WHERE key = ?");
      scan_ = prepare("SELECT key, value FROM records WHERE key >= ? ORDER BY key LIMIT ?");
    } catch (...) {
      close();
      throw;
    }
  }
  ~Connection() { close(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void put(std::span<const Record> records) {
    // A statement alone is a transaction.
    if (records.size() > 1) finish(begin_);
    for (const Record& record : records) {
      bind(put_, 1, record.key);
      check(::sqlite3_bind_blob(put_, 2, record.value.data(), static_cast<int>(record.value.size()),
                                SQLITE_STATIC),
            "bind");
      finish(put_);
    }
    if (records.size() > 1) finish(commit_);
  }
  void erase(std::uint64_t key) {
    bind(erase_, 1, key);
    finish(erase_);
  }
  bool get(std::uint64_t key, std::string& value) {
    bind(get_, 1, key);
    const bool found = step(get_);
    if (found) value = blob(get_, 0);
    check(::sqlite3_reset(get_), "reset");
    return found;
  }
  void scan(std::uint64_t from, std::uint64_t count, const Visit& visit) {
    bind(scan_, 1, from);
    bind(scan_, 2, count);
    while (step(scan_))
      visit(static_cast<std::uint64_t>(::sqlite3_column_int64(scan_, 0)), blob(scan_, 1));
    check(::sqlite3_reset(scan_), "reset");
  }

 private:
  void check(int status, const char* what) const {
    if (status != SQLITE_OK)
      throw Exception(Code::kIo,
                      std::string("SQLite: ") + what + ": " + ::sqlite3_errmsg(connection_));
  }
  void run(const char* statements) {
    check(::sqlite3_exec(connection_, statements, nullptr, nullptr, nullptr), statements);
  }
  sqlite3_stmt* prepare(const char* text) {
    sqlite3_stmt* statement = nullptr;
    check(
        ::sqlite3_prepare_v3(connection_, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr),
        text);
    return statement;
  }
  void bind(sqlite3_stmt* statement, int place, std::uint64_t number) {
    check(::sqlite3_bind_int64(statement, place, static_cast<sqlite3_int64>(number)), "bind");
  }
  /// True: there is a row.
  bool step(sqlite3_stmt* statement) {
    const int status = ::sqlite3_step(statement);
    if (status != SQLITE_ROW && status != SQLITE_DONE) check(status, ::sqlite3_sql(statement));
    return status == SQLITE_ROW;
  }
  void finish(sqlite3_stmt* statement) {
    while (step(statement)) {
    }
    check(::sqlite3_reset(statement), "reset");
  }
  static std::string_view blob(sqlite3_stmt* statement, int column) {
    return {static_cast<const char*>(::sqlite3_column_blob(statement, column)),
            static_cast<std::size_t>(::sqlite3_column_bytes(statement, column))};
  }
  void close() {
    for (sqlite3_stmt* statement : {begin_, commit_, put_, erase_, get_, scan_})
      ::sqlite3_finalize(statement);
    ::sqlite3_close(connection_);
  }

  sqlite3* connection_ = nullptr;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
  sqlite3_stmt* put_ = nullptr;
  sqlite3_stmt* erase_ = nullptr;
  sqlite3_stmt* get_ = nullptr;
  sqlite3_stmt* scan_ = nullptr;
};

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(const StoreOptions& options) {
    for (unsigned thread = 0; thread < options.threads; ++thread)
      connections_.push_back(std::make_unique<Connection>(options.dir + "/records.sqlite"));
  }

  void put(unsigned thread, std::span<const Record> records) override {
    const std::lock_guard turn(writers_);
    connections_[thread]->put(records);
  }
  void erase(unsigned thread, std::uint64_t key) override {
    const std::lock_guard turn(writers_);
    connections_[thread]->erase(key);
  }
  bool get(unsigned thread, std::uint64_t key, std::string& value) override {
    return connections_[thread]->get(key, value);
  }
  void scan(unsigned thread, std::uint64_t from, std::uint64_t count, const Visit& visit) override {
    connections_[thread]->scan(from, count, visit);
  }

 private:
  std::mutex writers_;
  std::vector<std::unique_ptr<Connection>> connections_;
};

const RegisterStore kRegistered("sqlite",
                                [](const StoreOptions& options) -> std::unique_ptr<Store> {
                                  return std::make_unique<SqliteStore>(options);
                                });

}  // namespace
}  // namespace perdure::bench::comparison
