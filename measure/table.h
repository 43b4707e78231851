// SPDX-License-Identifier: BSD-3-Clause
// A table for people.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace perdure::bench {

/// Lays cells out in columns: the first to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const {
    std::vector<std::size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
    }
    std::string out;
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string padding(widths[i] - width(row[i]), ' ');
        out += i == 0 ? row[i] + padding : "  " + padding + row[i];
      }
      out.erase(out.find_last_not_of(' ') + 1);
      out += '\n';
    }
    return out;
  }

 private:
  /// Columns on the screen: code points, not bytes.
  static std::size_t width(const std::string& text) {
    std::size_t columns = 0;
    for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    return columns;
  }
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace perdure::bench
