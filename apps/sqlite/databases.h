// Databases: the pools that this process has open as SQLite databases. Each is opened once, by its first connection, and
// shared by all; the last one closes it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "apps/sqlite/database_file.h"
#include "apps/sqlite/errors.h"
#include "apps/sqlite/locks.h"

namespace perdure::sqlite {

/// How a connection wants its database opened: the URI's parameters.
struct Request {
  std::string path;
  bool plain = false;  // by the VFS perdure-plain
  bool create = false;
  PoolOptions options;
  bool names_engine = false;  // else it takes an open pool's
  bool names_domain = false;
};

/// A database that is open in this process.
struct Database {
  /// Errors: throws Exception kTypeMismatch when it belongs to the other VFS.
  Database(const Request& request, Pool opened);
  /// Whether its file was removed, renamed or replaced: what is committed then is lost when the last connection is closed.
  bool moved() const;
  const std::string path;
  const std::pair<dev_t, ino_t> place;
  const PoolOptions options;
  Pool pool;
  PlainStore* const plain;  // null: of the VFS perdure
  DatabaseFile file;
  std::optional<DatabaseFile> journal;  // of the VFS perdure-plain
  Locks locks;
  const pid_t process = ::getpid();
  std::size_t connections = 0;  // Databases counts
};

/// A connection's hold on a database.
class DatabaseHold {
 public:
  explicit DatabaseHold(Database* database) : database_(database) {}
  ~DatabaseHold();
  DatabaseHold(const DatabaseHold&) = delete;
  DatabaseHold& operator=(const DatabaseHold&) = delete;
  Database& database() const { return *database_; }

 private:
  Database* database_;
};

/// Opens the database, or joins the connections that have it open.
/// Errors: throws Refusal.   Threads: any.
std::unique_ptr<DatabaseHold> open_database(const Request& request);

/// Whether the file is a pool, by its first bytes.
bool is_pool_file(const std::string& path);

}  // namespace perdure::sqlite
