// SPDX-License-Identifier: BSD-3-Clause
#include "bench/memcached/memcached_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <thread>

#include <fmt/core.h>

#include "bench/memcached/load.h"
#include "bench/memcached/servers.h"
#include "bench/system.h"
#include "measure/measure.h"
#include "measure/table.h"
#include "perdure/error.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace perdure::bench::memcached {
namespace {

using tools::Report;

struct MemcachedOptions {
  std::string memory_dir = "/dev/shm";
  std::string disk_dir = ".";
  std::string memcached;  // where its package is unpacked
  std::vector<std::string> only;
  std::vector<std::string> mixes;
  std::vector<unsigned> connections;
  std::uint64_t keys = 10'000;
  std::size_t value_bytes = 512;
  unsigned threads = 2;
  unsigned repetitions = 5;
  double seconds = 1;
  std::uint64_t seed = 1;
  bool tcp = false;
  bool quick = false;
  bool offline = false;
  bool json = false;
};

constexpr std::uint16_t kFirstPort = 21811;

RunningServer start(const ServerKind& kind, const MemcachedOptions& options, unsigned connections,
                    std::uint16_t port) {
  LoadOptions load;
  load.keys = options.keys;
  load.value_bytes = options.value_bytes;
  load.seed = options.seed;
  load.connections = connections;
  return {kind, kind.on_disk ? options.disk_dir : options.memory_dir, options.threads,
          options.tcp ? port : std::uint16_t{0}, load};
}

struct Measured {
  Spread rate;
  double median_us = 0;
  double p99_us = 0;
  Spread cpu_us;  // of the server, for each operation
};

/// One run.
struct Turn {
  Loaded loaded;
  double server_cpu_seconds = 0;
};

struct Row {
  Mix mix;
  unsigned connections;
  std::vector<Measured> systems;
};

template <class Name>
bool wanted(const std::vector<std::string>& names, const Name& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

class Bench {
 public:
  explicit Bench(const MemcachedOptions& options) : options_(options) {
    if (options_.connections.empty())
      options_.connections =
          options_.quick ? std::vector<unsigned>{1} : std::vector<unsigned>{1, 4, 16};
    if (options_.quick) {
      options_.repetitions = 1;
      options_.seconds = 0.05;
      options_.keys = std::min<std::uint64_t>(options_.keys, 500);
    }
    for (const ServerKind& kind : server_kinds(options_.memcached, options_.offline)) {
      if (wanted(options_.only, kind.name)) kinds_.push_back(kind);
    }
    for (const std::string& name : options_.only) {
      const bool known = std::any_of(kinds_.begin(), kinds_.end(),
                                     [&](const ServerKind& kind) { return kind.name == name; });
      if (!known) throw Exception(Code::kInvalid, "bench memcached: no system '" + name + "' here");
    }
  }

  void run() {
    std::vector<Mix> mixes;
    for (const Mix mix : {Mix::kGet, Mix::kSet, Mix::kInsertDelete}) {
      if (wanted(options_.mixes, mix_name(mix))) mixes.push_back(mix);
    }
    const std::uint64_t turns =
        options_.connections.size() * mixes.size() * kinds_.size() * (options_.repetitions + 1);
    tools::Progress progress("measuring", turns);
    std::uint64_t done = 0;
    for (const unsigned connections : options_.connections) {
      // Servers of before are gone: those that are idle use memory, and some use time.
      std::vector<RunningServer> servers;
      std::uint16_t port = kFirstPort;
      for (const ServerKind& kind : kinds_)
        servers.push_back(start(kind, options_, connections, port++));
      note_memory(servers);
      for (const Mix mix : mixes) {
        std::vector<std::vector<Turn>> runs(servers.size());
        for (unsigned turn = 0; turn <= options_.repetitions; ++turn) {
          for (std::size_t i = 0; i < servers.size(); ++i) {
            servers[i].load.seed = options_.seed + turn;
            const double cpu = cpu_seconds(servers[i].id());
            const Loaded loaded =
                run_load(servers[i].load, mix, turn == 0 ? options_.seconds / 4 : options_.seconds);
            if (turn > 0)  // the first warms up
              runs[i].push_back({loaded, cpu_seconds(servers[i].id()) - cpu});
            progress.show(++done);
          }
        }
        add_row(mix, connections, runs);
      }
    }
  }

  std::string text() const {
    std::vector<std::string> head{"operations/s, median"};
    for (const ServerKind& kind : kinds_) head.push_back(kind.name);
    Table rates(head);
    head[0] = "microseconds, median / 99 %";
    Table waits(head);
    for (const Row& row : rows_) {
      const std::string name = name_of(row);
      std::vector<std::string> rate{name};
      std::vector<std::string> wait{name};
      for (const Measured& measured : row.systems) {
        rate.push_back(fmt::format("{:.0f}", measured.rate.median));
        wait.push_back(fmt::format("{:.0f} / {:.0f}", measured.median_us, measured.p99_us));
      }
      rates.add(rate);
      waits.add(wait);
    }
    head[0] = "server's CPU, microseconds per operation";
    Table cpu(head);
    for (const Row& row : rows_) {
      std::vector<std::string> line{name_of(row)};
      for (const Measured& measured : row.systems)
        line.push_back(fmt::format("{:.2f}", measured.cpu_us.median));
      cpu.add(line);
    }
    Table memory({"", "survives", "resident, empty", "resident, filled", "bytes per item"});
    for (const ServerKind& kind : kinds_) {
      const auto [empty, filled] = memory_.at(kind.name);
      memory.add({kind.name, kind.survives, tools::human_bytes(empty), tools::human_bytes(filled),
                  fmt::format("{:.0f}", per_item(empty, filled))});
    }
    return rates.text() + "\n" + cpu.text() + "\n" + waits.text() + "\n" + memory.text() +
           fmt::format(
               "\n{}-byte keys, {}-byte values, {} keys; {} server threads; {}; by turns, medians "
               "of {} runs of {} s\n",
               LoadOptions{}.key_bytes, options_.value_bytes, options_.keys, options_.threads,
               options_.tcp ? "TCP over loopback" : "Unix socket", options_.repetitions,
               options_.seconds);
  }

  Report json() const {
    Report report;
    report["keys"] = options_.keys;
    report["key_bytes"] = LoadOptions{}.key_bytes;
    report["value_bytes"] = options_.value_bytes;
    report["server_threads"] = options_.threads;
    report["transport"] = options_.tcp ? "tcp" : "unix";
    report["repetitions"] = options_.repetitions;
    report["seconds"] = options_.seconds;
    report["seed"] = options_.seed;
    report["cpus"] = std::thread::hardware_concurrency();
    report["memory_file_system"] = file_system_of(options_.memory_dir);
    report["disk_file_system"] = file_system_of(options_.disk_dir);
    for (const ServerKind& kind : kinds_) {
      const auto [empty, filled] = memory_.at(kind.name);
      report["systems"].push_back({{"name", kind.name},
                                   {"survives", kind.survives},
                                   {"on_disk", kind.on_disk},
                                   {"resident_empty_bytes", empty},
                                   {"resident_filled_bytes", filled},
                                   {"resident_per_item_bytes", per_item(empty, filled)}});
    }
    for (const Row& row : rows_) {
      Report systems;
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        const Measured& measured = row.systems[i];
        systems.push_back({{"name", kinds_[i].name},
                           {"per_second", measured.rate.median},
                           {"per_second_min", measured.rate.min},
                           {"per_second_max", measured.rate.max},
                           {"median_us", measured.median_us},
                           {"p99_us", measured.p99_us},
                           {"server_cpu_us", measured.cpu_us.median}});
      }
      report["rows"].push_back(
          {{"mix", mix_name(row.mix)}, {"connections", row.connections}, {"systems", systems}});
    }
    return report;
  }

 private:
  static std::string name_of(const Row& row) {
    return fmt::format("{}, {} connection{}", mix_name(row.mix), row.connections,
                       row.connections == 1 ? "" : "s");
  }
  void note_memory(const std::vector<RunningServer>& servers) {
    for (const RunningServer& server : servers)
      memory_.try_emplace(server.kind.name, server.empty_bytes, server.filled_bytes);
  }
  double per_item(std::uint64_t empty, std::uint64_t filled) const {
    return filled <= empty
               ? 0
               : static_cast<double>(filled - empty) / static_cast<double>(options_.keys);
  }
  void add_row(Mix mix, unsigned connections, const std::vector<std::vector<Turn>>& runs) {
    Row row{mix, connections, {}};
    for (const std::vector<Turn>& of_one : runs) {
      std::vector<double> rates;
      std::vector<double> medians;
      std::vector<double> ends;
      std::vector<double> cpu;
      for (const auto& [loaded, seconds] : of_one) {
        cpu.push_back(1e6 * seconds / static_cast<double>(loaded.operations));
        rates.push_back(loaded.per_second);
        medians.push_back(loaded.median_us);
        ends.push_back(loaded.p99_us);
      }
      row.systems.push_back(
          {spread_of(rates), spread_of(medians).median, spread_of(ends).median, spread_of(cpu)});
    }
    rows_.push_back(std::move(row));
  }

  MemcachedOptions options_;
  std::vector<ServerKind> kinds_;
  std::vector<Row> rows_;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> memory_;
};

void add_berkeley_command(tools::Command bench) {
  auto options = std::make_shared<BerkeleyOptions>();
  tools::Command command = bench.add_subcommand(
      "serve-berkeley",
      "Berkeley DB behind the front end of `perdure serve`, as `memcached` runs it");
  command.hide();  // not shown: a part of `bench memcached`
  command.add_option("DIRECTORY", options->directory, "Where its files are").required();
  command.add_option("--socket", options->address.socket, "A Unix socket");
  command.add_option("--port", options->address.port, "or TCP");
  command.add_option("--threads", options->threads, "Workers");
  command.add_flag("--safe", options->safe, "Sync every transaction");
  command.callback([options] { serve_berkeley(*options); });
}

void add_objects_command(tools::Command bench) {
  auto options = std::make_shared<ObjectServerOptions>();
  tools::Command command = bench.add_subcommand(
      "serve-objects",
      "A heap of objects behind the front end of `perdure serve`, as Figure 8 of NV-heaps runs it");
  command.hide();  // a part of `reproduce nvheaps --only figure8`
  command.add_option("DIRECTORY", options->directory, "Where its files are").required();
  command.add_option("--socket", options->address.socket, "A Unix socket");
  command.add_option("--port", options->address.port, "or TCP");
  command.add_option("--threads", options->threads, "Workers");
  command.add_option("--memory", options->memory, "DRAM, STTM or PCM");
  command.add_flag("--not-durable{false}", options->durable, "Volatile transactions");
  command.callback([options] { serve_objects(*options); });
}

}  // namespace

void add_memcached_command(tools::Command bench) {
  add_berkeley_command(bench);
  add_objects_command(bench);
  auto options = std::make_shared<MemcachedOptions>();
  tools::Command command = bench.add_subcommand(
      "memcached", "perdure serve beside memcached and Berkeley DB, through libmemcached");
  command.add_option("--only", options->only, "only these systems, as in 'memcached,perdure adr'")
      .separated_by_commas();
  command.add_option("--mixes", options->mixes, "get, set, insert/delete (default all)")
      .separated_by_commas()
      .one_of({"get", "set", "insert/delete"});
  command.add_option("--connections", options->connections, "as in 1,16 (default 1,4,16)")
      .separated_by_commas()
      .range(1, 64);
  command.add_option("--tmpfs", options->memory_dir, "where files in memory go")
      .show_default()
      .existing_directory();
  command.add_option("--disk", options->disk_dir, "where files on a disk go")
      .show_default()
      .existing_directory();
  command.add_option("--memcached", options->memcached,
                     "Where the package memcached is unpacked, or will be (default: the installed "
                     "one, else build/memcached)");
  tools::add_count(command, "--keys", options->keys, "that are got and set").show_default();
  tools::add_count(command, "--value-bytes", options->value_bytes, "of each value").show_default();
  command
      .add_option("--threads", options->threads,
                  "of each server, but Berkeley DB's, which has one for each connection")
      .show_default()
      .range(1, 32);
  command.add_option("--reps", options->repetitions, "runs of each row")
      .show_default()
      .range(1, 1000);
  command.add_option("--seconds", options->seconds, "length of one run")
      .show_default()
      .range(0.01, 60.0);
  tools::add_count(command, "--seed", options->seed, "of the keys");
  command.add_flag("--tcp", options->tcp, "TCP over loopback instead of a Unix socket");
  command.add_flag("--quick", options->quick, "one short run of each: a look, not a measurement");
  command.add_flag("--offline", options->offline, "do not fetch memcached");
  tools::add_json_flag(command, options->json);
  command.callback([options] {
    Bench measured(*options);
    measured.run();
    if (options->json) {
      tools::print(measured.json(), true);
    } else {
      std::fputs(measured.text().c_str(), stdout);
    }
  });
}

}  // namespace perdure::bench::memcached
