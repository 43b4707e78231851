// SPDX-License-Identifier: BSD-3-Clause
// A loaded database in memory, as small as --scale allows.
#pragma once

#include <string>

#include "bench/tpcc/loader.h"

namespace perdure::bench::tpcc {

class TinyDatabase {
 public:
  explicit TinyDatabase(std::int64_t warehouses = 1) : size{warehouses, kMaxDivisor} {
    load(db, size, 1);
  }
  std::int64_t number(const std::string& expression) { return db.number("SELECT " + expression); }
  /// All rows of all tables.
  std::string dump() {
    std::string text;
    for (const std::string_view table : kTables) {
      Statement statement(db, "SELECT * FROM " + std::string(table) + " ORDER BY 1, 2, 3");
      Rows rows = statement.rows();
      const int columns = ::sqlite3_column_count(statement.handle());
      while (rows.next()) {
        for (int column = 0; column < columns; ++column)
          text += (rows.is_null(column) ? "NULL" : std::string(rows.text(column))) + "|";
        text += "\n";
      }
    }
    return text;
  }

  Size size;
  Connection db{":memory:", "unix", Connection::Access::kCreate};
};

}  // namespace perdure::bench::tpcc
