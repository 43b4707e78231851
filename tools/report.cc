// SPDX-License-Identifier: BSD-3-Clause
#include "tools/report.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <vector>

#include <fmt/core.h>

#include "perdure/error.h"

namespace perdure::tools {
namespace {

bool ends_with(std::string_view name, std::string_view unit) {
  return name.size() > unit.size() && name.substr(name.size() - unit.size()) == unit;
}

/// A name without its unit, as people read it.
std::string label_of(std::string name) {
  for (const std::string_view unit : {"_bytes", "_ns"}) {
    if (ends_with(name, unit)) name.resize(name.size() - unit.size());
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

/// Numbers that are copied elsewhere rather than read: places and seeds.
bool names_something(std::string_view name) { return name == "seed" || ends_with(name, "_byte"); }

std::string with_thousands(std::uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// Names and texts may come from a file that nobody vouches for: no control character of theirs
/// reaches a terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

std::string text_of(const std::string& name, const Report& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number() && ends_with(name, "_ns")) return human_ns(value.get<double>());
  if (value.is_number_float()) return fmt::format("{:.2f}", value.get<double>());
  if (ends_with(name, "_bytes")) return human_bytes(value.get<std::uint64_t>());
  if (value.is_number_unsigned() && !names_something(name))
    return with_thousands(value.get<std::uint64_t>());
  return value.dump();
}

void print_columns(const std::string& indent, const Report& rows) {
  std::vector<std::string> names;
  for (const auto& [name, value] : rows.front().items()) names.push_back(name);
  std::vector<std::vector<std::string>> cells{{}};
  std::vector<bool> right;
  for (const std::string& name : names) {
    cells[0].push_back(label_of(name));
    right.push_back(rows.front().at(name).is_number());
  }
  for (const Report& row : rows) {
    cells.emplace_back();
    for (const std::string& name : names)
      cells.back().push_back(text_of(name, row.value(name, Report())));
  }
  std::vector<std::size_t> width(names.size());
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  for (const auto& row : cells) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(width[i] - row[i].size(), ' ');
      line += right[i] ? gap + row[i] : row[i] + gap;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

bool is_plain(const Report& value) { return !value.is_object() && !value.is_array(); }

void print_tree(const std::string& indent, const Report& tree) {
  std::size_t width = 0;
  for (const auto& [name, value] : tree.items()) {
    if (is_plain(value)) width = std::max(width, label_of(name).size());
  }
  for (const auto& [name, value] : tree.items()) {
    if (is_plain(value)) {
      fmt::print("{}{:<{}}  {}\n", indent, label_of(name), width, text_of(name, value));
    } else if (value.is_object()) {
      fmt::print("{}{}\n", indent, label_of(name));
      print_tree(indent + "  ", value);
    } else if (value.empty()) {
      fmt::print("{}{}: none\n", indent, label_of(name));
    } else {
      fmt::print("{}{}\n", indent, label_of(name));
      if (value.front().is_object()) {
        print_columns(indent + "  ", value);
      } else {
        for (const Report& item : value) fmt::print("{}  {}\n", indent, text_of(name, item));
      }
    }
  }
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto scaled = static_cast<double>(bytes);
  for (; scaled >= 1024 && unit + 1 < std::size(kUnits); ++unit) scaled /= 1024;
  if (unit == 0 || bytes % (std::uint64_t{1} << (10 * unit)) == 0)
    return fmt::format("{:.0f} {}", scaled, kUnits[unit]);
  return fmt::format("{:.1f} {}", scaled, kUnits[unit]);
}

std::string human_ns(double ns) {
  constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  std::size_t unit = 0;
  for (; ns >= 1000 && unit + 1 < std::size(kUnits); ++unit) ns /= 1000;
  return fmt::format("{:.{}f} {}", ns, unit == 0 ? 0 : 2, kUnits[unit]);
}

std::uint64_t parse_bytes(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view kUnits = "KMGT";
  const unsigned shift = unit.size() == 1 && kUnits.find(unit[0]) != kUnits.npos
                             ? 10 * static_cast<unsigned>(kUnits.find(unit[0]) + 1)
                             : 0;
  if (error != std::errc() || (!unit.empty() && shift == 0) || value > ~std::uint64_t{0} >> shift)
    throw Exception(
        Code::kInvalid,
        "'" + std::string(text) + "' is not a size; write bytes, or a number and K, M, G or T");
  return value << shift;
}

void print(const Report& report, bool json) {
  if (json) {
    fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_tree("", report);
  }
  std::fflush(stdout);
}

}  // namespace perdure::tools
