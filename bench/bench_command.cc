// SPDX-License-Identifier: BSD-3-Clause
#include "bench/bench_command.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "bench/comparison/peers_command.h"
#include "bench/contention.h"
#include "bench/floor.h"
#include "bench/looking_command.h"
#ifdef PERDURE_WITH_LIBMEMCACHED
#include "bench/memcached/memcached_command.h"
#endif
#include "measure/instructions.h"
#include "measure/report.h"
#ifdef PERDURE_WITH_SQLITE
#include "bench/tpcc/tpcc_command.h"
#endif
#include "papers/pool.h"
#include "tools/command.h"
#include "tools/lab/commands.h"

namespace perdure::bench {
namespace {

/// An engine with one way to empty its logs, as in "blurred/when-full"; the library's also with
/// Mnemosyne's logs, as in "mnemosyne/next-commit/tornbit".
struct Cell {
  papers::EngineKind engine = papers::EngineKind::kMnemosyne;
  Truncation truncation = Truncation::kAuto;
  bool tornbit_logs = false;
};
std::string name_of(const Cell& cell) {
  return std::string(papers::engine_name(cell.engine)) + "/" +
         std::string(truncation_name(cell.truncation)) + (cell.tornbit_logs ? "/tornbit" : "");
}
const std::map<std::string, Cell>& cells() {
  static const std::map<std::string, Cell> all = [] {
    std::map<std::string, Cell> made;
    for (const papers::EngineKind engine :
         {papers::EngineKind::kMnemosyne, papers::EngineKind::kBlurred,
          papers::EngineKind::kAdaptive, papers::EngineKind::kBase,
          papers::EngineKind::kBaseStream}) {
      for (const Truncation truncation : {Truncation::kEachCommit, Truncation::kNextCommit,
                                          Truncation::kWhenFull, Truncation::kBackground}) {
        made[name_of({engine, truncation})] = {engine, truncation};
        if (engine != papers::EngineKind::kMnemosyne) continue;
        made[name_of({engine, truncation, true})] = {engine, truncation, true};
      }
    }
    return made;
  }();
  return all;
}
std::vector<std::string> cell_names() {
  std::vector<std::string> names;
  for (const auto& [name, cell] : cells()) names.push_back(name);
  return names;
}

struct BenchOptions {
  std::string dir;  // empty: chosen by the domain
  DomainKind domain = DomainKind::kAdr;
  papers::EngineKind engine = papers::EngineKind::kMnemosyne;
  Truncation truncation = Truncation::kAuto;
  std::vector<std::string> beside;  // names of cells
  std::vector<unsigned> threads;    // empty: chosen by the domain
  std::vector<std::string> rows;    // empty: all
  RaceRules rules;
  std::uint64_t seed = 1;
  bool quick = false;
  bool without_peers = false;
  bool with_plain = false;
  bool as_json = false;
};

SystemOptions system_options(const BenchOptions& options, unsigned threads) {
  SystemOptions system;
  system.dir = options.dir;
  system.domain = options.domain;
  system.engine = options.engine;
  system.truncation = options.truncation;
  system.threads = threads;
  system.seed = options.seed;
  if (options.quick || options.domain == DomainKind::kSync) {
    // On a disk the device decides, not the caches; and setting up larger structures would take
    // longer than measuring.
    system.array_words = std::uint64_t{1} << 17;
    system.swap_words = std::uint64_t{1} << 16;
    system.hash_entries = options.quick ? 1'000 : 100;
    system.slots = 4'096;
  }
  return system;
}

/// The systems of one thread count, set up together so that every row can be run by turns.
struct Field {
  Field(const BenchOptions& options, unsigned threads, Environment& environment) {
    const SystemOptions setup = system_options(options, threads);
    perdure = make_perdure(setup);
    const auto add = [&](const std::string& name, std::unique_ptr<System> system) {
      if (system == nullptr) return;
      others.push_back(std::move(system));
      if (std::find(environment.peers.begin(), environment.peers.end(), name) ==
          environment.peers.end())
        environment.peers.push_back(name);
    };
    for (const std::string& name : options.beside) {
      SystemOptions other = setup;
      other.engine = cells().at(name).engine;
      other.truncation = cells().at(name).truncation;
      other.tornbit_logs = cells().at(name).tornbit_logs;
      add(name, make_perdure(other));
    }
    if (options.with_plain) add("plain memory", make_plain(setup));
    if (options.without_peers) return;
    for (const Peer& peer : peers()) {
      add(peer.name, peer.make(setup));
    }
  }
  std::unique_ptr<System> perdure;
  std::vector<std::unique_ptr<System>> others;
};

Contestant contestant(System& system, Row row, const SystemOptions& setup) {
  Contestant contestant;
  contestant.prepare = [&system, row](std::uint64_t operations, unsigned thread) {
    system.prepare(row, operations, thread);
  };
  contestant.run = [&system, row](std::uint64_t operations, unsigned thread) {
    system.run(row, operations, thread);
  };
  if (row == Row::kAllocate || row == Row::kFree) contestant.max_operations = setup.slots;
  return contestant;
}

bool wanted(const BenchOptions& options, const RowInfo& info) {
  return options.rows.empty() ||
         std::find(options.rows.begin(), options.rows.end(), info.name) != options.rows.end();
}

/// Counts what one operation of `row` asks of the domain. Apart from the timing, because counting
/// costs time.
Traffic count_traffic(System& counted, Row row) {
  static constexpr std::uint64_t kOperations = 2'000;
  counted.prepare(row, kOperations, 0);
  const DomainCounts before = counted.counts().value();
  counted.run(row, kOperations, 0);
  const DomainCounts spent = counted.counts().value() - before;
  const auto each = [](std::uint64_t sum) { return static_cast<double>(sum) / kOperations; };
  return {each(spent.flushes), each(spent.fences), each(spent.bytes())};
}

/// Instructions of one operation, where they can be counted.
std::optional<double> count_instructions(System& system, Row row) {
  static constexpr std::uint64_t kOperations = 2'000;
  system.prepare(row, kOperations, 0);
  InstructionCounter counter;
  const auto all = counter.count([&] { system.run(row, kOperations, 0); });
  if (!all) return std::nullopt;
  return static_cast<double>(*all) / kOperations;
}

std::vector<std::optional<Timing>> peers_of(const std::vector<Timing>& timings, std::size_t first,
                                            std::size_t count) {
  return {timings.begin() + static_cast<std::ptrdiff_t>(first),
          timings.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

void measure_transactions(const BenchOptions& options, Report& report, MemoryFloor* floor) {
  SystemOptions counting = system_options(options, 1);
  counting.count = true;
  const std::unique_ptr<System> counted = make_perdure(counting);
  for (const unsigned threads : options.threads) {
    const SystemOptions setup = system_options(options, threads);
    Field field(options, threads, report.environment);
    Team team(threads);
    for (const RowInfo& info : kRows) {
      if (!wanted(options, info)) continue;
      std::vector<Contestant> contestants = {contestant(*field.perdure, info.row, setup)};
      for (const auto& other : field.others)
        contestants.push_back(contestant(*other, info.row, setup));
      const bool with_floor = floor != nullptr && info.floor_lines > 0;
      if (with_floor) contestants.push_back(floor->log_lines(info.floor_lines));
      const std::vector<Timing> timings = race(team, contestants, options.rules);

      TransactionRow row;
      row.info = info;
      row.threads = threads;
      row.pinned = team.pinned();
      row.perdure = timings[0];
      row.traffic = count_traffic(*counted, info.row);
      if (threads == 1) row.instructions = count_instructions(*field.perdure, info.row);
      row.peers = peers_of(timings, 1, field.others.size());
      if (with_floor) row.floor = timings.back();
      report.transactions.push_back(std::move(row));
    }
  }
}

void measure_floor(const BenchOptions& options, Report& report, MemoryFloor& floor) {
  Team team(1);
  const auto add = [&](std::string name, Contestant contestant) {
    report.floor.push_back(
        {std::move(name), race(team, {std::move(contestant)}, options.rules).front()});
  };
  for (const unsigned lines : {1u, 2u, 4u, 8u, 16u}) {
    add(std::to_string(lines) + " log line" + (lines == 1 ? "" : "s") + ", one fence",
        floor.log_lines(lines));
  }
  add("random store, cached", floor.random_stores(1));
  add("random line, one fence", floor.random_lines(1));
  add("10 random lines, one fence", floor.random_lines(10));
}

void measure_sync(const BenchOptions& options, Report& report) {
  for (const unsigned threads : options.threads) {
    const SystemOptions setup = system_options(options, threads);
    Field field(options, threads, report.environment);
    SystemOptions relaxing = setup;
    relaxing.durability = Durability::kRelaxed;
    const std::unique_ptr<System> relaxed = make_perdure(relaxing);
    DiskFloor floor(options.dir, threads);
    Team team(threads, false);
    std::vector<Contestant> contestants = {contestant(*field.perdure, Row::kStore1, setup),
                                           floor.writes(),
                                           contestant(*relaxed, Row::kStore1, relaxing)};
    for (const auto& other : field.others)
      contestants.push_back(contestant(*other, Row::kStore1, setup));
    const std::vector<Timing> timings = race(team, contestants, options.rules);
    report.sync.push_back(
        {threads, timings[0], timings[1], timings[2], peers_of(timings, 3, field.others.size())});
  }
}

void run(BenchOptions options) {
  const bool sync = options.domain == DomainKind::kSync;
  if (options.dir.empty()) options.dir = sync ? "." : "/dev/shm";
  if (options.threads.empty()) {
    options.threads = sync ? std::vector<unsigned>{1, 2, 4, 16} : std::vector<unsigned>{1, 2};
    if (options.quick) options.threads = {1};
  }
  if (options.quick) options.rules = {3, 0.005};

  Report report;
  report.environment = look_around();
  report.environment.domain = domain_name(options.domain);
  report.environment.engine = options.truncation == Truncation::kAuto
                                  ? std::string(papers::engine_name(options.engine))
                                  : name_of({options.engine, options.truncation});
  report.environment.dir = options.dir;
  report.environment.seed = options.seed;
  report.environment.rules = options.rules;
  const auto measure_meeting = [&] {
    for (const unsigned threads : options.threads) {
      for (ContentionRow& row : measure_contention(system_options(options, threads), options.rules))
        report.contention.push_back(std::move(row));
    }
  };
  if (sync) {
    measure_sync(options, report);
    measure_meeting();
  } else if (options.domain == DomainKind::kAdr) {
    MemoryFloor floor(options.dir, system_options(options, 1).array_words * kWordBytes);
    measure_floor(options, report, floor);
    measure_transactions(options, report, &floor);
    if (options.rows.empty()) {
      report.logs = measure_logs(options.dir, options.rules,
                                 {8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096});
      measure_meeting();
    }
  } else {
    // Without write-back there is nothing to wait for: the floor is the work itself.
    measure_transactions(options, report, nullptr);
  }
  std::fputs((options.as_json ? as_json(report) : as_table(report)).c_str(), stdout);
}

}  // namespace

void add_bench_command(tools::Command app) {
  auto options = std::make_shared<BenchOptions>();
  tools::Command bench = app.add_subcommand(
      "bench", "Measure what transactions cost, beside the hardware and the peers");
  tools::add_choice<DomainKind>(bench, "--domain", options->domain,
                                {{"adr", DomainKind::kAdr},
                                 {"dram", DomainKind::kDram},
                                 {"eadr", DomainKind::kEadr},
                                 {"sync", DomainKind::kSync}},
                                "adr (default), eadr, dram or sync");
  tools::add_engine_option(bench, options->engine);
  tools::add_truncation_option(bench, options->truncation);
  bench
      .add_option("--beside", options->beside,
                  "the same rows on other engines and logs, by turns, as in blurred/when-full")
      .separated_by_commas()
      .one_of(cell_names());
  bench
      .add_option("--dir", options->dir,
                  "where the pools go (default /dev/shm; for sync the current directory)")
      .existing_directory();
  bench.add_option("--threads", options->threads, "thread counts, as in 1,2")
      .separated_by_commas()
      .range(1, 64);
  std::vector<std::string> names;
  for (const RowInfo& info : kRows) names.emplace_back(info.name);
  bench.add_option("--rows", options->rows, "only these rows, as in store-1,swap-1")
      .separated_by_commas()
      .one_of(names);
  bench.add_option("--reps", options->rules.repetitions, "repetitions of each row").range(1, 1000);
  bench.add_option("--seconds", options->rules.seconds, "length of one repetition")
      .range(0.0001, 60.0);
  bench.add_option("--seed", options->seed, "of the random words and keys");
  bench.add_flag("--quick", options->quick,
                 "small structures, few repetitions: a look, not a measurement");
  bench.add_flag("--no-peers", options->without_peers, "measure Perdure and the floor only");
  bench.add_flag("--plain", options->with_plain,
                 "beside the same structures in ordinary memory, without transactions");
  bench.add_flag("--json", options->as_json, "print JSON");
  comparison::add_peers_command(bench);
  add_looking_command(bench);
#ifdef PERDURE_WITH_SQLITE
  tpcc::add_tpcc_command(bench);
#endif
#ifdef PERDURE_WITH_LIBMEMCACHED
  memcached::add_memcached_command(bench);
#endif
  bench.callback([options, bench] {
    if (!bench.subcommand_given()) run(*options);
  });
}

}  // namespace perdure::bench
