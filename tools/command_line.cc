// SPDX-License-Identifier: BSD-3-Clause
#include "tools/command_line.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/core.h>

#include "perdure/error.h"
#include "tools/command.h"

namespace perdure::tools {
namespace {

constexpr const char* kFooter =
    R"(Every command takes --help and, for programs, --json.
Exit codes: 0 done; 1 damage found, no such key, or a violation; 2 wrong usage, or input that cannot be
understood; 3 the pool cannot be opened or used.)";

/// What stays in the buffer counts as not written: a backup must not miss its end unseen.
int leave(const char* name, int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  fmt::print(stderr, "{}: standard output: cannot be written; nothing in the pool was lost\n",
             name);
  return kCannot;
}

int run(const CommandLine& command_line, int argc, char** argv) {
  const char* const name = command_line.name;
  CLI::App app(command_line.about, name);
  app.set_version_flag("--version", std::string(name) + " " PERDURE_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  command_line.add_commands(app);
  try {
    app.parse(argc, argv);
    return leave(name, kDone);
  } catch (const CLI::Success& help) {
    return leave(name, app.exit(help));
  } catch (const CLI::RuntimeError& left) {
    return leave(name, left.get_exit_code());
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "{}: {}\nRun with --help for the ways to use it.\n", name, wrong.what());
    return kUsage;
  } catch (const Exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return error.code() == Code::kInvalid ? kUsage : kCannot;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return kCannot;
  }
}

}  // namespace

int run_command_line(const CommandLine& command_line, int argc, char** argv) noexcept {
  // A reader that goes away (`perdure kv scan … | head`) ends this process quietly, as it does
  // every filter.
  std::signal(SIGPIPE, SIG_DFL);
  try {
    return run(command_line, argc, argv);
  } catch (...) {
    std::fputs("perdure: out of memory, or standard error cannot be written\n", stderr);
    return kCannot;
  }
}

}  // namespace perdure::tools
