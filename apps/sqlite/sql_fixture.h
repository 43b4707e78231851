// SPDX-License-Identifier: BSD-3-Clause
// What the tests of this room stand on: databases in a directory that goes away, SQL in a line, and SQLite's error log.
#pragma once

#include <sqlite3.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "apps/sqlite/perdure_sqlite.h"
#include "apps/sqlite/places.h"
#include "tests/small_pool.h"

namespace perdure::sqlite::testing {

using perdure::testing::in_child;
using perdure::testing::kSanitized;
using perdure::testing::TempDir;

/// What SQLite has logged since the last call.
class ErrorLog {
 public:
  static ErrorLog& instance() {
    static auto& log = *new ErrorLog;
    return log;
  }
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  ErrorLog() {
    sqlite3_config(
        SQLITE_CONFIG_LOG,
        +[](void* self, int, const char* message) {
          auto& log = *static_cast<ErrorLog*>(self);
          const std::lock_guard lock(log.mutex_);
          log.text_.append(message).append("\n");
        },
        this);
    perdure_sqlite_register(0);
  }
  std::mutex mutex_;
  std::string text_;
};

/// A connection.
class Sql {
 public:
  /// `name`: a path, or a URI.
  explicit Sql(const std::string& name, int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
    ErrorLog::instance();
    code_ = sqlite3_open_v2(name.c_str(), &db_, flags | SQLITE_OPEN_URI, nullptr);
  }
  ~Sql() { sqlite3_close(db_); }
  Sql(const Sql&) = delete;
  Sql& operator=(const Sql&) = delete;

  int code() const { return code_; }  // of opening it
  sqlite3* db() { return db_; }
  /// Runs statements and returns SQLite's code.
  int run(const std::string& sql) {
    return sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  }
  void must(const std::string& sql) {
    ASSERT_EQ(run(sql), SQLITE_OK) << sql << ": " << sqlite3_errmsg(db_) << "\n"
                                   << ErrorLog::instance().take();
  }
  /// The rows of an answer, as "1|a;2|b"; or "error: ...".
  std::string ask(const std::string& sql) {
    std::string rows;
    const auto add = [](void* to, int count, char** values, char**) {
      auto& text = *static_cast<std::string*>(to);
      if (!text.empty()) text += ';';
      for (int i = 0; i < count; ++i)
        text.append(i == 0 ? "" : "|").append(values[i] == nullptr ? "NULL" : values[i]);
      return 0;
    };
    if (sqlite3_exec(db_, sql.c_str(), add, &rows, nullptr) != SQLITE_OK)
      return std::string("error: ") + sqlite3_errmsg(db_);
    return rows;
  }

 private:
  sqlite3* db_ = nullptr;
  int code_ = SQLITE_OK;
};

/// Names a database for a VFS. Its pool gets few logs, so that it is quickly copied.
inline std::string uri_of(const std::string& vfs, const std::string& path,
                          const std::string& parameters) {
  return "file:" + path + "?vfs=" + vfs +
         (parameters.find("threads=") == std::string::npos ? "&threads=16" : "") +
         (parameters.empty() ? "" : "&" + parameters);
}
inline std::string uri(const std::string& path, const std::string& parameters = "") {
  return uri_of("perdure", path, parameters);
}
inline std::string plain_uri(const std::string& path, const std::string& parameters = "") {
  return uri_of("perdure-plain", path, parameters);
}

/// What a killed process would leave of a database that is open: a copy of its file, under another name. (On files the pool's
/// mapping is private, on memory what is stored is in the file.)
inline std::string as_if_killed(const std::string& path) {
  static int copies = 0;
  std::string copy = path + ".killed" + std::to_string(++copies);
  std::filesystem::copy_file(path, copy);
  return copy;
}

/// Every test runs on memory and on a disk.
struct OnBoth : ::testing::TestWithParam<const char*> {
  TempDir dir{GetParam()};
  std::string path = dir / "x.db";
};

/// More than a page takes, and a question that tells whether all of it is there.
inline constexpr char kManyRows[] =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
    "INSERT INTO t SELECT i, zeroblob(500) FROM n;";
inline constexpr char kAllRows[] = "SELECT count(*), sum(v = zeroblob(500)) FROM t";

}  // namespace perdure::sqlite::testing
