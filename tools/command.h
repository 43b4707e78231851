// SPDX-License-Identifier: BSD-3-Clause
// What the commands of the `perdure` tool share: exit codes, and the options of those that open a
// pool.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "perdure/expert.h"
#include "perdure/pool.h"
#include "tools/report.h"

namespace perdure::tools {

/// The exit codes of every command; scripts rely on them.
inline constexpr int kDone = 0;
inline constexpr int kNegative =
    1;  // check: damage found; get, del: no such key; torture, demo, explore: a violation
inline constexpr int kUsage = 2;
inline constexpr int kCannot = 3;  // the pool could not be opened or used

/// Leaves the command with `code`, silently. What it had to say has been said.
[[noreturn]] inline void leave_with(int code) { throw CLI::RuntimeError(code); }

/// Adds `--json` to a command.
inline void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Answer in JSON");
}

/// An option that is a number; CLI11 itself takes -1 for a very large one.
template <class T>
CLI::Option* add_count(CLI::App& command, const std::string& name, T& value,
                       const std::string& what) {
  return command.add_option(name, value, what)
      ->check(CLI::Validator(
          [](std::string& text) {
            return text.empty() || text[0] == '-' ? text + " is not a number from 0 on"
                                                  : std::string();
          },
          ""));
}

/// An option that takes one of a few names, and nothing else.
template <class T>
void add_choice(CLI::App& command, const std::string& name, T& value,
                const std::vector<std::pair<std::string, T>>& choices, const std::string& what) {
  std::string names;
  for (const auto& [text, meaning] : choices) names += (names.empty() ? "" : ", ") + text;
  command
      .add_option_function<std::string>(
          name,
          [&value, choices](const std::string& text) {
            for (const auto& [known, meaning] : choices) {
              if (known == text) value = meaning;
            }
          },
          what)
      ->check(CLI::Validator(
          [choices, names](std::string& text) {
            for (const auto& [known, meaning] : choices) {
              if (known == text) return std::string();
            }
            return "'" + text + "' is none of " + names;
          },
          ""))
      ->type_name("NAME");
}

/// --truncation.
void add_truncation_option(CLI::App& command, Truncation& truncation);
/// Options of a command that opens a pool for writing: --domain, --truncation and --log-limit.
void add_open_options(CLI::App& command, ExpertOptions& options);
/// Options of a command that may create one: --capacity, --segment, --ring, --slots, --roots.
void add_create_options(CLI::App& command, ExpertOptions& options);

/// Where a pool is and what its acknowledgements are worth; the head of most reports.
Report describe(const Pool& pool, const std::string& path);
Report describe(const RecoveryReport& recovery);

}  // namespace perdure::tools
