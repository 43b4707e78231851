// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/tpcc_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "bench/system.h"
#include "bench/tpcc/report.h"
#include "measure/settings.h"
#include "tools/command.h"

namespace perdure::bench::tpcc {
namespace {

struct TpccOptions {
  Load load;
  unsigned rounds = 1;
  std::vector<std::string> modes;   // empty: the default ones
  std::vector<std::string> vfses;   // each adds VFS/delete/full
  std::vector<std::string> places;  // empty: both
  std::string memory_dir = "/dev/shm";
  std::string disk_dir = ".";
  std::string extension;
  bool warm_up_is_asked_for = false;
  bool as_json = false;
};

std::vector<Mode> modes_of(const TpccOptions& options) {
  std::vector<Mode> modes;
  if (options.modes.empty()) modes = default_modes();
  const auto add = [&](const std::string& name) {
    Mode mode = mode_of(name);
    const bool known = std::any_of(modes.begin(), modes.end(),
                                   [&](const Mode& other) { return other.name() == mode.name(); });
    if (!known) modes.push_back(std::move(mode));
  };
  for (const std::string& name : options.modes) add(name);
  for (const std::string& name : options.vfses) add(name);
  return modes;
}

/// Says what comes next, of `total` steps.
class Steps {
 public:
  explicit Steps(std::size_t total) : total_(total) {}
  void tell(const std::string& what) { reproduce::tell_progress(what, done_++, total_); }

 private:
  std::size_t done_ = 0;
  std::size_t total_;
};

PlaceResult measure(const TpccOptions& options, const std::string& place, const std::string& dir,
                    const std::vector<Mode>& modes, Steps& steps) {
  PlaceResult result{place, dir, file_system_of(dir), 0, {}};
  for (const Mode& mode : modes) result.modes.push_back({mode, {}});
  const ScratchDirectory home(dir, "tpcc-original");
  const std::string original = home.path() + "/original.sqlite";
  steps.tell(place + ": loading");
  load_original(original, options.load);
  result.database_bytes = std::filesystem::file_size(original);
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (ModeResult& mode : result.modes) {
      steps.tell(fmt::format("{}: {}, round {}", place, mode.mode.name(), round + 1));
      mode.rounds.push_back(run_round(options.load, mode.mode, original, home.path(), round));
    }
  }
  return result;
}

void run(TpccOptions options) {
  const auto start = std::chrono::steady_clock::now();
  // As many transactions as are asked for should be all.
  if (options.load.transactions != 0 && !options.warm_up_is_asked_for)
    options.load.warm_up_seconds = 0;
  register_vfses(options.extension);
  const std::vector<Mode> modes = modes_of(options);
  std::vector<std::string> places = options.places;
  if (places.empty()) places = {"tmpfs", "disk"};

  Report report;
  report.environment = look_around();
  report.sqlite = ::sqlite3_libversion();
  report.extension = options.extension;
  report.load = options.load;
  report.rounds = options.rounds;
  Steps steps(places.size() * (1 + options.rounds * modes.size()));
  for (const std::string& place : places)
    report.places.push_back(measure(
        options, place, place == "tmpfs" ? options.memory_dir : options.disk_dir, modes, steps));
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reproduce::tell_end(report.seconds);
  std::fputs((options.as_json ? json_of(report) : text_of(report)).c_str(), stdout);
  if (!violations_of(report).empty()) tools::leave_with(tools::kNegative);
}

}  // namespace

void add_tpcc_command(tools::Command bench) {
  auto options = std::make_shared<TpccOptions>();
  tools::Command command = bench.add_subcommand(
      "tpcc", "TPC-C on SQLite: transactions in several modes, and what is left");
  command.add_option("--warehouses", options->load.size.warehouses, "as large as this (default 1)")
      .range(1, 1'000);
  command
      .add_option("--scale", options->load.size.divisor,
                  "divides items, customers and orders: a look, not TPC-C (default 1)")
      .range(std::int64_t{1}, kMaxDivisor);
  command.add_option("--connections", options->load.connections, "each on a thread of its own")
      .range(1, 64);
  auto seconds =
      command.add_option("--seconds", options->load.seconds, "length of one run (default 10)");
  seconds.range(0.001, 86'400.0);
  command
      .add_option("--transactions", options->load.transactions,
                  "length of one run, of all connections together, in place of --seconds")
      .range(1, 1'000'000'000)
      .excludes(seconds);
  command
      .add_option_function<double>(
          "--warmup",
          [options](const double& asked) {
            options->load.warm_up_seconds = asked;
            options->warm_up_is_asked_for = true;
          },
          "seconds before each run (default 1, with --transactions 0)")
      .range(0.0, 3'600.0);
  command.add_option("--rounds", options->rounds, "runs of each mode, by turns (default 1)")
      .range(1, 1'000);
  command
      .add_option("--modes", options->modes,
                  "only these, as in unix/wal/full,unix/delete/extra: VFS, journal_mode and "
                  "synchronous, or a VFS alone")
      .separated_by_commas();
  command
      .add_option("--vfs", options->vfses,
                  "these VFSes also, in mode delete/full (perdure is, where it is there)")
      .separated_by_commas();
  command
      .add_option("--extension", options->extension,
                  "load this SQLite extension first, for the VFSes that it registers")
      .existing_file();
  command
      .add_option("--cache", options->load.cache_mib,
                  "MiB of page cache of each connection (default SQLite's own: 2)")
      .range(1, 65'536);
  command.add_option("--places", options->places, "tmpfs or disk (default both)")
      .separated_by_commas()
      .one_of({"tmpfs", "disk"});
  command.add_option("--tmpfs", options->memory_dir, "where files in memory go (default /dev/shm)")
      .existing_directory();
  command
      .add_option("--disk", options->disk_dir,
                  "where files on a disk go (default the current directory)")
      .existing_directory();
  tools::add_count(command, "--seed", options->load.seed, "of the rows and of the transactions");
  tools::add_json_flag(command, options->as_json);
  command.callback([options] { run(*options); });
}

}  // namespace perdure::bench::tpcc
