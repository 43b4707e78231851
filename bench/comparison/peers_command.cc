// SPDX-License-Identifier: BSD-3-Clause
#include "bench/comparison/peers_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "bench/comparison/report.h"
#include "measure/settings.h"
#include "tools/command.h"

namespace perdure::bench::comparison {
namespace {

struct PeersOptions {
  std::vector<std::string> only;    // peers; empty: all that were built in
  std::vector<std::string> rows;    // empty: all
  std::vector<std::string> places;  // empty: both
  std::vector<unsigned> threads;    // empty: 1, 2, and 16 where commits can be grouped
  std::string memory_dir = "/dev/shm";
  std::string disk_dir = ".";
  std::uint64_t live = 0;    // 0: as --quick or not has it
  unsigned repetitions = 0;  // 0: the same
  double seconds = 0;        // 0: the same
  std::uint64_t seed = 1;
  bool quick = false;
  bool as_json = false;
  std::string html_file;
};

constexpr unsigned kGroup = 16;  // threads whose commits a disk should see as a few

template <class Name>
bool wanted(const std::vector<std::string>& names, const Name& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

RaceRules rules_of(const PeersOptions& options) {
  RaceRules rules = options.quick ? RaceRules{2, 0.002} : RaceRules{5, 0.05};
  if (options.repetitions != 0) rules.repetitions = options.repetitions;
  if (options.seconds != 0) rules.seconds = options.seconds;
  return rules;
}

/// Errors: throws Exception kInvalid for a peer that was asked for by name and is not built in.
std::vector<const StoreKind*> kinds_of(const PeersOptions& options, Place place) {
  std::vector<const StoreKind*> kinds;
  for (const StoreKind& kind : store_kinds()) {
    if (!kind.terms(place) || (!kind.ours() && !wanted(options.only, kind.name))) continue;
    if (maker_of(kind) != nullptr) {
      kinds.push_back(&kind);
    } else if (!options.only.empty()) {
      throw Exception(Code::kInvalid, "peers: " + std::string(kind.name) +
                                          " is not built in; install " + std::string(kind.package) +
                                          ", configure again and build");
    }
  }
  return kinds;
}

std::vector<RowPlan> rows_of(const PeersOptions& options, Place place) {
  std::vector<RowPlan> rows;
  for (const RowInfo& info : kRows) {
    if (!wanted(options.rows, info.name)) continue;
    std::vector<unsigned> threads = options.threads;
    if (threads.empty()) {
      threads = {1, 2};
      if (place == Place::kDisk && info.group_commit) threads.push_back(kGroup);
    }
    for (const unsigned count : threads) rows.push_back({&info, count});
  }
  return rows;
}

/// On a disk the device decides, not the caches; and filling larger stores would take longer than
/// measuring them: libpmemobj syncs a dozen times for every record.
std::uint64_t live_of(const PeersOptions& options, Place place) {
  if (options.live != 0) return options.live;
  if (options.quick) return 200;
  return place == Place::kMemory ? 10'000 : 1'000;
}

std::vector<Plan> plans_of(const PeersOptions& options) {
  std::vector<Plan> plans;
  for (const Place place : {Place::kMemory, Place::kDisk}) {
    if (!wanted(options.places, place_name(place))) continue;
    plans.push_back({place, place == Place::kMemory ? options.memory_dir : options.disk_dir,
                     kinds_of(options, place), rows_of(options, place), live_of(options, place),
                     options.seed, rules_of(options)});
  }
  return plans;
}

void run(const PeersOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  // Before minutes are spent: can the page be written?
  if (!options.html_file.empty()) write_report(options.html_file, "");
  Report report;
  report.environment = look_around();
  report.environment.seed = options.seed;
  report.environment.rules = rules_of(options);
  for (const StoreKind& kind : store_kinds()) {
    if (maker_of(kind) == nullptr) report.not_built.push_back(&kind);
  }
  const std::vector<Plan> plans = plans_of(options);
  std::size_t all_rows = 0;
  for (const Plan& plan : plans) all_rows += plan.rows.size();
  std::size_t first_row = 0;
  for (const Plan& plan : plans) {
    report.places.push_back(measure(plan, first_row, all_rows));
    first_row += plan.rows.size();
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reproduce::tell_end(report.seconds);
  if (!options.html_file.empty()) write_report(options.html_file, html_of(report));
  std::fputs((options.as_json ? json_of(report) : text_of(report)).c_str(), stdout);
}

}  // namespace

void add_peers_command(tools::Command bench) {
  auto options = std::make_shared<PeersOptions>();
  tools::Command command = bench.add_subcommand(
      "peers", "Other stores and ours in one run: the same work, every update synced");
  std::vector<std::string> names;
  for (const StoreKind& kind : store_kinds()) {
    if (!kind.ours()) names.emplace_back(kind.name);
  }
  command.add_option("--only", options->only, "only these peers beside ours, as in lmdb,sqlite")
      .separated_by_commas()
      .one_of(names);
  std::vector<std::string> rows;
  for (const RowInfo& info : kRows) rows.emplace_back(info.name);
  command.add_option("--rows", options->rows, "only these rows, as in update-64,scan-64")
      .separated_by_commas()
      .one_of(rows);
  command.add_option("--places", options->places, "tmpfs or disk (default both)")
      .separated_by_commas()
      .one_of({"tmpfs", "disk"});
  command.add_option("--tmpfs", options->memory_dir, "where files in memory go (default /dev/shm)")
      .existing_directory();
  command
      .add_option("--disk", options->disk_dir,
                  "where files on a disk go (default the current directory)")
      .existing_directory();
  command
      .add_option("--threads", options->threads,
                  "thread counts (default 1,2, and 16 for update-64 on the disk)")
      .separated_by_commas()
      .range(1, 64);
  command
      .add_option("--live", options->live,
                  "records in each store (default 10000 on tmpfs, 1000 on the disk)")
      .range(64, 100'000'000);
  command.add_option("--reps", options->repetitions, "runs of each store on each row")
      .range(1, 1000);
  command.add_option("--seconds", options->seconds, "length of one run").range(0.0001, 60.0);
  tools::add_count(command, "--seed", options->seed, "of the keys and values");
  command.add_flag("--quick", options->quick,
                   "tiny stores, two short runs: a look, not a measurement");
  tools::add_json_flag(command, options->as_json);
  command.add_option("--html", options->html_file,
                     "write the report as a page with charts into this file");
  command.callback([options] { run(*options); });
}

}  // namespace perdure::bench::comparison
