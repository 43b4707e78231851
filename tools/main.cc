// SPDX-License-Identifier: BSD-3-Clause
// The `perdure` command: pools from the outside, an embedded store for scripts, and the judges of
// the house.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "apps/kv/kv.h"
#include "apps/ldap/commands/ldap.h"
#ifdef PERDURE_WITH_MEMCACHED
#include "apps/memcached/commands/serve.h"
#endif
#include "apps/run/commands.h"
#include "bench/bench_command.h"
#include "measure/reproduce_command.h"
#include "tools/command.h"

namespace {

constexpr const char* kAbout =
    R"(perdure: data structures that survive crashes, in one file.

  perdure kv put words.pool moon "a natural satellite"    store a record, durably
  perdure kv get words.pool moon                          and get it back, after any crash
  perdure kv load words.pool words.tsv                    load many; every batch is all or nothing
  perdure info words.pool                                 what is in this file?
  perdure check words.pool                                is it whole? (never changes the file)
  perdure compact words.pool fresh.pool                   a copy without what nobody can find
  perdure explore --list                                  cut the power everywhere and look
  perdure torture /dev/shm/t.pool --kills 500             the same with real processes and SIGKILL
  perdure run --state job.state -- python3 job.py         any program, whose memory survives kill -9
  perdure sim gcc                                         an unmodified program on simulated memories)";

constexpr const char* kFooter =
    R"(Every command takes --help and, for programs, --json.
Exit codes: 0 done; 1 damage found, no such key, or a violation; 2 wrong usage, or input that cannot be
understood; 3 the pool cannot be opened or used.)";

// A command that runs programs takes theirs after --, whatever they look like; CLI11 would look for its own
// options among them.
std::vector<std::string> take_program(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "sim") return {};
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    std::vector<std::string> program(argv + i + 1, argv + argc);
    argc = i;
    return program;
  }
  return {};
}

int run(int argc, char** argv) {
  const std::vector<std::string> program = take_program(argc, argv);
  CLI::App app(kAbout, "perdure");
  app.set_version_flag("--version", "perdure " PERDURE_VERSION);
  app.footer(kFooter);
  app.require_subcommand(1);
  perdure::tools::add_pool_commands(app);
  perdure::tools::add_check_command(app);
  perdure::tools::add_reclaim_command(app);
  perdure::tools::add_compact_command(app);
  perdure::tools::add_dump_command(app);
  perdure::kv::add_kv_commands(app);
  perdure::ldap::add_ldap_commands(app);
#ifdef PERDURE_WITH_MEMCACHED
  perdure::memcached::add_serve_command(app);
#endif
  perdure::run::add_run_commands(app);
  perdure::tools::add_explore_command(app);
  perdure::tools::add_torture_command(app);
  perdure::tools::add_sim_command(app, program);
  perdure::bench::add_bench_command(app);
  perdure::bench::reproduce::add_reproduce_command(app);
  // What stays in the buffer counts as not written: a backup must not miss its end unseen.
  const auto leave = [](int code) {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fputs("perdure: standard output: cannot be written; nothing in the pool was lost\n",
               stderr);
    return perdure::tools::kCannot;
  };
  try {
    app.parse(argc, argv);
    return leave(perdure::tools::kDone);
  } catch (const CLI::Success& help) {
    return leave(app.exit(help));
  } catch (const CLI::RuntimeError& left) {
    return leave(left.get_exit_code());
  } catch (const CLI::ParseError& wrong) {
    fmt::print(stderr, "perdure: {}\nRun with --help for the ways to use it.\n", wrong.what());
    return perdure::tools::kUsage;
  } catch (const perdure::Exception& error) {
    fmt::print(stderr, "perdure: {}\n", error.what());
    return error.code() == perdure::Code::kInvalid ? perdure::tools::kUsage
                                                   : perdure::tools::kCannot;
  } catch (const std::exception& error) {
    fmt::print(stderr, "perdure: {}\n", error.what());
    return perdure::tools::kCannot;
  }
}

}  // namespace

int main(int argc, char** argv) {
  // A reader that goes away (`perdure kv scan … | head`) ends this process quietly, as it does
  // every filter.
  std::signal(SIGPIPE, SIG_DFL);
  try {
    return run(argc, argv);
  } catch (...) {
    std::fputs("perdure: out of memory, or standard error cannot be written\n", stderr);
    return perdure::tools::kCannot;
  }
}
