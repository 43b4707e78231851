// SPDX-License-Identifier: BSD-3-Clause
// What main() of both commands does: it reads the words, runs what they ask for, and turns every exception into a message.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::tools {

/// Makes the application: `add_commands` adds its commands to it.
struct CommandLine {
  const char* name;
  const char* about;  // what --help begins with
  void (*add_commands)(CLI::App& app);
};

/// Returns what main() has to return: one of the exit codes of tools/command.h.
int run_command_line(const CommandLine& command_line, int argc, char** argv) noexcept;

}  // namespace perdure::tools
