// SPDX-License-Identifier: BSD-3-Clause
// What every command of the `perdure` tool answers with: one tree of named values, printed as a
// table for people or as JSON for programs. The two can never disagree, because both are made from
// the same tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace perdure::tools {

using Report = nlohmann::ordered_json;

/// Prints `report` to standard output. As a table, a name's last word tells the unit: "_bytes" and
/// "_ns" become sizes and times; a nested object becomes a section, an array of objects a table
/// with columns.
void print(const Report& report, bool json);

/// "4.5 MiB"; exact multiples stay whole.
std::string human_bytes(std::uint64_t bytes);
/// "1.25 ms".
std::string human_ns(double ns);

/// "64G", "1M", "512" as bytes. Errors: throws Exception kInvalid.
std::uint64_t parse_bytes(std::string_view text);

}  // namespace perdure::tools
