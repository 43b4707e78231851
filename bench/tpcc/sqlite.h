// SPDX-License-Identifier: BSD-3-Clause
// SQLite's C interface with owners: a connection, its statements, and the rows that one yields.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "perdure/error.h"

namespace perdure::bench::tpcc {

/// Errors: all that follows throws Exception: kBusy, kCorrupt, kNoSpace, or kIo for whatever else
/// SQLite reports.
/// Threads: one at a time, with its statements.
class Connection {
 public:
  enum class Access : std::uint8_t { kReadOnly, kWrite, kCreate };
  /// `vfs` by name, `parameters` of the URI. A connection that meets another's lock tries again for a minute.
  Connection(const std::string& path, const std::string& vfs, Access access,
             const std::string& parameters = "");
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Any number of statements, what they yield ignored.
  void run(const std::string& statements);
  /// The first column of the first row. Errors: also kCorrupt where there is no row.
  std::string text(const std::string& statement);
  std::int64_t number(const std::string& statement);
  /// Every page of `from` into this one, whatever the VFSes of the two.
  void copy_from(Connection& from);

  sqlite3* handle() const { return connection_; }
  void check(int status, const std::string& what) const;

 private:
  sqlite3* connection_ = nullptr;
};

/// The rows of a statement; it is reset, and holds no lock any more, when this goes.
class Rows {
 public:
  Rows(Connection& connection, sqlite3_stmt* statement)
      : connection_(connection), statement_(statement) {}
  ~Rows() { ::sqlite3_reset(statement_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  /// True: there is a row (more), and the columns are its.
  bool next();
  std::int64_t number(int column) const { return ::sqlite3_column_int64(statement_, column); }
  /// Valid until the next call of next().
  std::string_view text(int column) const;
  bool is_null(int column) const {
    return ::sqlite3_column_type(statement_, column) == SQLITE_NULL;
  }

 private:
  Connection& connection_;
  sqlite3_stmt* statement_;
};

/// A prepared statement.
class Statement {
 public:
  Statement(Connection& connection, const std::string& text);
  ~Statement() { ::sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <class... Values>
  Rows rows(const Values&... values) {
    int place = 0;
    (bind(++place, values), ...);
    return Rows(connection_, statement_);
  }
  template <class... Values>
  void run(const Values&... values) {
    Rows all = rows(values...);
    while (all.next()) {
    }
  }
  /// run() that must have changed one row: what others rely on is there.
  /// Errors: also kCorrupt.
  template <class... Values>
  void change_one(const Values&... values) {
    run(values...);
    if (::sqlite3_changes(connection_.handle()) != 1) throw_unexpected("did not change one row");
  }
  sqlite3_stmt* handle() const { return statement_; }
  /// Errors: throws Exception kCorrupt, with the text of the statement.
  [[noreturn]] void throw_unexpected(const std::string& what) const;

 private:
  void bind(int place, std::int64_t value);
  void bind(int place, std::string_view value);
  void bind(int place, const std::optional<std::int64_t>& value);

  Connection& connection_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace perdure::bench::tpcc
