// SPDX-License-Identifier: BSD-3-Clause
// SQLite under the workloads of Figure 7, in the place of Stasis, which is not packaged: a store that, too, brings pages, a
// write-ahead log and recovery, and waits for the device at each commit. It has no hash table.
#include <sqlite3.h>

#include "bench/system.h"
#include "papers/nvheaps/evaluation/others.h"

namespace perdure::bench::nvheaps {
namespace {

class Connection {
 public:
  Connection(const std::string& path, bool waits) {
    if (::sqlite3_open(path.c_str(), &database_) != SQLITE_OK) fail("open");
    ::sqlite3_busy_timeout(database_, 60'000);
    execute("PRAGMA journal_mode=WAL");
    wait_for_device(waits);
  }
  ~Connection() {
    for (sqlite3_stmt* statement : statements_) ::sqlite3_finalize(statement);
    ::sqlite3_close(database_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void wait_for_device(bool waits) {
    execute(waits ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
  }
  void execute(const char* sql) {
    if (::sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(sql);
  }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (::sqlite3_prepare_v2(database_, sql, -1, &statement, nullptr) != SQLITE_OK) fail(sql);
    statements_.push_back(statement);
    return statement;
  }
  /// Runs a statement; visit(statement) for each row.
  template <class Visit>
  void run(sqlite3_stmt* statement, std::initializer_list<std::uint64_t> values,
           const Visit& visit) {
    int place = 0;
    for (const std::uint64_t value : values)
      ::sqlite3_bind_int64(statement, ++place, static_cast<sqlite3_int64>(value));
    int status = 0;
    while ((status = ::sqlite3_step(statement)) == SQLITE_ROW) visit(statement);
    ::sqlite3_reset(statement);
    if (status != SQLITE_DONE) fail(::sqlite3_sql(statement));
  }
  void run(sqlite3_stmt* statement, std::initializer_list<std::uint64_t> values) {
    run(statement, values, [](sqlite3_stmt*) {});
  }
  bool changed() const { return ::sqlite3_changes(database_) > 0; }

 private:
  [[noreturn]] void fail(const char* what) {
    throw Exception(Code::kIo, std::string("SQLite: ") + what + ": " + ::sqlite3_errmsg(database_));
  }
  sqlite3* database_ = nullptr;
  std::vector<sqlite3_stmt*> statements_;
};

/// A thread's connection and its statements.
struct Client {
  Client(const std::string& path, bool waits) : connection(path, waits) {
    connection.execute(
        "CREATE TABLE IF NOT EXISTS pairs (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS keys (k INTEGER PRIMARY KEY, v INTEGER)");
    begin = connection.prepare("BEGIN IMMEDIATE");
    commit = connection.prepare("COMMIT");
    insert = connection.prepare("INSERT INTO keys VALUES (?, ?)");
    remove = connection.prepare("DELETE FROM keys WHERE k = ?");
    value = connection.prepare("SELECT v FROM keys WHERE k = ?");
    set = connection.prepare("UPDATE keys SET v = ?2 WHERE k = ?1");
    insert_pair = connection.prepare("INSERT INTO pairs VALUES (?, ?)");
    remove_pair = connection.prepare("DELETE FROM pairs WHERE a = ? AND b = ?");
    from = connection.prepare("SELECT b FROM pairs WHERE a = ?");
    count = connection.prepare("SELECT (SELECT count(*) FROM keys) + (SELECT count(*) FROM pairs)");
  }
  template <class Body>
  void in_transaction(const Body& body) {
    connection.run(begin, {});
    body();
    connection.run(commit, {});
  }
  std::uint64_t value_of(std::uint64_t key) {
    std::uint64_t found = 0;
    connection.run(value, {key}, [&](sqlite3_stmt* row) {
      found = static_cast<std::uint64_t>(::sqlite3_column_int64(row, 0));
    });
    return found;
  }

  Connection connection;
  sqlite3_stmt* begin;
  sqlite3_stmt* commit;
  sqlite3_stmt* insert;
  sqlite3_stmt* remove;
  sqlite3_stmt* value;
  sqlite3_stmt* set;
  sqlite3_stmt* insert_pair;
  sqlite3_stmt* remove_pair;
  sqlite3_stmt* from;
  sqlite3_stmt* count;
};

class SqliteStore final : public OtherStore {
 public:
  explicit SqliteStore(const OtherOptions& options)
      : directory_(options.dir, "sqlite"),
        waits_(options.waits),
        graph_(options.work == Work::kSixDegrees) {
    for (unsigned thread = 0; thread < options.threads; ++thread)
      clients_.push_back(std::make_unique<Client>(directory_.path() + "/pairs.sqlite", false));
  }

  void fill(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& pairs) override {
    Client& client = *clients_[0];
    client.in_transaction([&] {
      for (const auto& [a, b] : pairs)
        client.connection.run(graph_ ? client.insert_pair : client.insert, {a, b});
    });
    for (const auto& each : clients_) each->connection.wait_for_device(waits_);
  }
  void swap(std::uint64_t one, std::uint64_t other, unsigned thread) override {
    Client& client = *clients_[thread];
    client.in_transaction([&] {
      const std::uint64_t first = client.value_of(one);
      const std::uint64_t second = client.value_of(other);
      client.connection.run(client.set, {one, second});
      client.connection.run(client.set, {other, first});
    });
  }
  bool toggle(std::uint64_t key, unsigned thread) override {
    Client& client = *clients_[thread];
    bool inserted = false;
    client.in_transaction([&] {
      client.connection.run(client.remove, {key});
      inserted = !client.connection.changed();
      if (inserted) client.connection.run(client.insert, {key, key});
    });
    return inserted;
  }
  bool toggle_edge(std::uint64_t one, std::uint64_t other, unsigned thread) override {
    Client& client = *clients_[thread];
    bool inserted = false;
    client.in_transaction([&] {
      client.connection.run(client.remove_pair, {one, other});
      inserted = !client.connection.changed();
      if (inserted) client.connection.run(client.insert_pair, {one, other});
      client.connection.run(inserted ? client.insert_pair : client.remove_pair, {other, one});
    });
    return inserted;
  }
  void neighbours(std::uint64_t vertex, std::vector<std::uint64_t>& to, unsigned thread) override {
    Client& client = *clients_[thread];
    client.connection.run(client.from, {vertex}, [&](sqlite3_stmt* row) {
      to.push_back(static_cast<std::uint64_t>(::sqlite3_column_int64(row, 0)));
    });
  }
  std::uint64_t count() override {
    std::uint64_t found = 0;
    clients_[0]->connection.run(clients_[0]->count, {}, [&](sqlite3_stmt* row) {
      found = static_cast<std::uint64_t>(::sqlite3_column_int64(row, 0));
    });
    return found;
  }

 private:
  ScratchDirectory directory_;
  bool waits_;
  bool graph_;
  std::vector<std::unique_ptr<Client>> clients_;
};

const bool kRegistered = [] {
  others().sqlite.make = [](const OtherOptions& options) -> std::unique_ptr<OtherStore> {
    if (options.work == Work::kHashTable) return nullptr;
    return std::make_unique<SqliteStore>(options);
  };
  return true;
}();

}  // namespace
}  // namespace perdure::bench::nvheaps
