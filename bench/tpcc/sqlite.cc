// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/sqlite.h"

namespace perdure::bench::tpcc {
namespace {

constexpr int kBusyTimeoutMs = 60'000;

Code code_of(int status) {
  switch (status & 0xff) {
    case SQLITE_BUSY: return Code::kBusy;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return Code::kCorrupt;
    case SQLITE_FULL: return Code::kNoSpace;
    default: return Code::kIo;
  }
}

int flags_of(Connection::Access access) {
  switch (access) {
    case Connection::Access::kReadOnly: return SQLITE_OPEN_READONLY;
    case Connection::Access::kWrite: return SQLITE_OPEN_READWRITE;
    case Connection::Access::kCreate: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  }
  return 0;
}

std::string uri_of(const std::string& path, const std::string& parameters) {
  std::string uri = "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += c == '%' ? "%25" : c == '?' ? "%3f" : "%23";
    } else {
      uri += c;
    }
  }
  return parameters.empty() ? uri : uri + "?" + parameters;
}

}  // namespace

Connection::Connection(const std::string& path, const std::string& vfs, Access access,
                       const std::string& parameters) {
  try {
    check(::sqlite3_open_v2(uri_of(path, parameters).c_str(), &connection_,
                            flags_of(access) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, vfs.c_str()),
          path);
    check(::sqlite3_busy_timeout(connection_, kBusyTimeoutMs), "busy_timeout");
  } catch (...) {
    ::sqlite3_close(connection_);
    throw;
  }
}

Connection::~Connection() { ::sqlite3_close(connection_); }

void Connection::check(int status, const std::string& what) const {
  if (status != SQLITE_OK)
    throw Exception(code_of(status), "SQLite: " + what + ": " + ::sqlite3_errmsg(connection_));
}

void Connection::run(const std::string& statements) {
  check(::sqlite3_exec(connection_, statements.c_str(), nullptr, nullptr, nullptr), statements);
}

std::string Connection::text(const std::string& statement) {
  Statement prepared(*this, statement);
  Rows rows = prepared.rows();
  if (!rows.next()) prepared.throw_unexpected("yields no row");
  return std::string(rows.text(0));
}

std::int64_t Connection::number(const std::string& statement) {
  Statement prepared(*this, statement);
  Rows rows = prepared.rows();
  if (!rows.next()) prepared.throw_unexpected("yields no row");
  return rows.number(0);
}

void Connection::copy_from(Connection& from) {
  sqlite3_backup* const backup =
      ::sqlite3_backup_init(connection_, "main", from.connection_, "main");
  if (backup == nullptr) check(::sqlite3_errcode(connection_), "backup");
  const int status = ::sqlite3_backup_step(backup, -1);
  const int finished = ::sqlite3_backup_finish(backup);
  if (status != SQLITE_DONE) check(finished == SQLITE_OK ? status : finished, "backup");
}

bool Rows::next() {
  const int status = ::sqlite3_step(statement_);
  if (status != SQLITE_ROW && status != SQLITE_DONE)
    connection_.check(status, ::sqlite3_sql(statement_));
  return status == SQLITE_ROW;
}

std::string_view Rows::text(int column) const {
  const auto* const begin =
      reinterpret_cast<const char*>(::sqlite3_column_text(statement_, column));
  if (begin == nullptr) return {};
  return {begin, static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
}

Statement::Statement(Connection& connection, const std::string& text) : connection_(connection) {
  connection.check(::sqlite3_prepare_v3(connection.handle(), text.c_str(), -1,
                                        SQLITE_PREPARE_PERSISTENT, &statement_, nullptr),
                   text);
}

void Statement::throw_unexpected(const std::string& what) const {
  throw Exception(Code::kCorrupt,
                  std::string("SQLite: ") + ::sqlite3_sql(statement_) + ": " + what);
}

void Statement::bind(int place, std::int64_t value) {
  connection_.check(::sqlite3_bind_int64(statement_, place, value), "bind");
}

void Statement::bind(int place, std::string_view value) {
  // Copied: the caller's text may go before the statement's next step.
  connection_.check(::sqlite3_bind_text(statement_, place, value.data(),
                                        static_cast<int>(value.size()), SQLITE_TRANSIENT),
                    "bind");
}

void Statement::bind(int place, const std::optional<std::int64_t>& value) {
  if (value)
    bind(place, *value);
  else
    connection_.check(::sqlite3_bind_null(statement_, place), "bind");
}

}  // namespace perdure::bench::tpcc
