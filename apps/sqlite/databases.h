// SPDX-License-Identifier: BSD-3-Clause
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
#include "perdure/expert.h"

namespace perdure::sqlite {

/// How a connection wants its database opened: the URI's parameters.
struct Request {
  std::string path;
  bool plain = false;  // by the VFS perdure-plain
  bool create = false;
  bool only_reads = false;  // mode=ro
  ExpertOptions options;
  std::string engine;         // empty: an open pool's, or the default
  bool names_domain = false;  // else it takes an open pool's
  /// For the laboratory's opener: what emulates memory, and the words of its tables. 0: not given.
  std::uint64_t line_ns = 0;
  std::uint64_t alias_words = 0;
};

/// Opens a database's pool, or makes it if the request says so. Errors: as those of Pool; kInvalid for an engine that it does
/// not know.
using PoolOpener = Result<Pool> (*)(const Request& request);
/// The library's engine as "mnemosyne", the default, and with private pages as "softwrap". Who only reads, while another process
/// has the database open, gets a copy in memory of what is durable then.
Result<Pool> open_with_library(const Request& request);
/// Has databases that are opened from now on opened by `opener`: how the laboratory brings the engines of the papers.
/// Threads: none else uses databases.
void open_pools_by(PoolOpener opener);

/// A database that is open in this process.
struct Database {
  /// Errors: throws Exception kTypeMismatch when it belongs to the other VFS.
  Database(const Request& request, Pool opened);
  /// Whether its file was removed, renamed or replaced: what is committed then is lost when the last connection is closed.
  bool moved() const;
  const std::string path;
  const std::pair<dev_t, ino_t> place;
  const std::string engine;
  Pool pool;
  const bool of_the_past;   // another process has it open, and goes on
  PlainStore* const plain;  // null: of the VFS perdure
  DatabaseFile file;
  std::optional<DatabaseFile> journal;  // of the VFS perdure-plain
  const std::shared_ptr<Locks> locks = std::make_shared<Locks>();
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
