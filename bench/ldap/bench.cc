// SPDX-License-Identifier: BSD-3-Clause
// ldap bench: one slapd over our server, one over its own database, the same load on both.
#include <sys/statfs.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include <fmt/core.h>

#include "bench/ldap/ldap_commands.h"
#include "bench/ldap/load.h"
#include "bench/ldap/slapd.h"
#include "tools/command.h"
#include "tools/progress.h"

namespace perdure::ldap {
namespace {

namespace fs = std::filesystem;
using bench::LdapLoad;
using bench::LdapLoaded;
using tools::Report;

struct BenchOptions {
  std::string dir = ".";
  std::string slapd;
  std::uint64_t entries = 100000;
  std::uint64_t threads = 32;
  unsigned in_flight = 1;
  bool json = false;
  bool keep = false;
};

/// A directory that goes when its owner does.
class Scratch {
 public:
  Scratch(const std::string& parent, bool keep) : keep_(keep) {
    path_ = fs::absolute(parent) / fmt::format("perdure-ldap-bench-{}", ::getpid());
    fs::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    if (!keep_) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string at(const std::string& name) const { return path_ / name; }

 private:
  bool keep_;
  fs::path path_;
};

double percentile(std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

struct Row {
  const char* operation;
  LdapLoad::Kind kind;
  unsigned clients;
  std::uint64_t first;
  std::uint64_t count;
};

/// Adds first, on an empty directory; then fewer clients, who wait longer; then the persons of the
/// first row are looked up.
std::vector<Row> rows(std::uint64_t entries) {
  const std::uint64_t part = std::max<std::uint64_t>(1, entries / 10);
  using Kind = LdapLoad::Kind;
  return {{"add", Kind::kAdd, 16, 0, entries},
          {"add", Kind::kAdd, 4, entries, part},
          {"add", Kind::kAdd, 1, entries + part, part},
          {"search uid", Kind::kSearch, 16, 0, entries},
          {"search uid", Kind::kSearch, 1, 0, part}};
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options)
      : options_(&options), files_(find_slapd(options.slapd)), scratch_(options.dir, options.keep) {
    // On memory a sync costs nothing, and the comparison would say nothing.
    constexpr long kTmpfs = 0x01021994;
    struct statfs status{};
    if (::statfs(options.dir.c_str(), &status) == 0 && status.f_type == kTmpfs)
      throw Exception(Code::kInvalid, options.dir + ": lies in memory; name a directory on a disk");
  }

  /// Measures the rows, on both sides.
  void measure(const std::vector<Row>& all) {
    Process server =
        start_server(scratch_.at("ldap.pool"), scratch_.at("sock"), scratch_.at("serve.log"),
                     {"--threads", std::to_string(options_->threads)});
    Slapd ours_slapd(files_, scratch_.at("."), "ours", "back_sock",
                     sock_database(scratch_.at("sock")));
    fs::create_directories(scratch_.at("mdb"));
    Slapd mdb_slapd(files_, scratch_.at("."), "mdb", "back_mdb", mdb_database(scratch_.at("mdb")));
    for (const Slapd* slapd : {&ours_slapd, &mdb_slapd}) bench::add_ldap_frame(load_of(*slapd));
    ours.resize(all.size());
    theirs.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      tools::Progress progress(fmt::format("{}, {} clients", all[i].operation, all[i].clients),
                               2 * all[i].count);
      std::uint64_t done = 0;
      // By turns: a drift of the machine then meets both.
      for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
        measure("perdure", load_of(ours_slapd), all[i], turn, ours[i], progress, done);
        measure("back-mdb", load_of(mdb_slapd), all[i], turn, theirs[i], progress, done);
      }
      std::sort(ours[i].latencies_ns.begin(), ours[i].latencies_ns.end());
      std::sort(theirs[i].latencies_ns.begin(), theirs[i].latencies_ns.end());
    }
    mdb_slapd.process().stop();
    ours_slapd.process().stop();
    if (const int code = server.stop(); code != 0)
      throw Exception(Code::kIo, "the server ended with code " + std::to_string(code));
  }

  Report run() {
    const std::vector<Row> all = rows(options_->entries);
    measure(all);
    Report table = Report::array();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double mine = rate(ours[i]);
      const double other = rate(theirs[i]);
      table.push_back({{"operation", all[i].operation},
                       {"clients", all[i].clients},
                       {"operations", all[i].count},
                       {"perdure_per_second", static_cast<std::uint64_t>(mine)},
                       {"back_mdb_per_second", static_cast<std::uint64_t>(other)},
                       {"ratio", other > 0 ? std::round(mine / other * 100) / 100 : 0},
                       {"perdure_p50_ns", percentile(ours[i].latencies_ns, 0.5)},
                       {"perdure_p99_ns", percentile(ours[i].latencies_ns, 0.99)},
                       {"back_mdb_p50_ns", percentile(theirs[i].latencies_ns, 0.5)},
                       {"back_mdb_p99_ns", percentile(theirs[i].latencies_ns, 0.99)}});
    }
    return {{"directory", fs::absolute(options_->dir).lexically_normal().string()},
            {"server_threads", options_->threads},
            {"in_flight_per_client", options_->in_flight},
            {"cpus", std::thread::hardware_concurrency()},
            {"both_are",
             "slapd over a Unix socket, every update synced, the same indexes, lastmod off"},
            {"rows", table}};
  }

  /// A row as it was measured: of all its turns, and the rate of each.
  struct Measured : LdapLoaded {
    std::vector<double> rates;
  };
  std::vector<Measured> ours;
  std::vector<Measured> theirs;

 private:
  static double rate(const LdapLoaded& loaded) {
    return loaded.seconds > 0 ? static_cast<double>(loaded.operations) / loaded.seconds : 0;
  }

  LdapLoad load_of(const Slapd& slapd) const {
    LdapLoad load = slapd.load();
    load.in_flight = options_->in_flight;
    return load;
  }

  /// One of a row's turns, added to `sum`.
  static void measure(const char* label, LdapLoad load, const Row& row, std::uint64_t turn,
                      Measured& sum, tools::Progress& progress, std::uint64_t& done) {
    load.kind = row.kind;
    load.connections = row.clients;
    const std::uint64_t begin = row.count * turn / kTurns;
    load.first = row.first + begin;
    load.count = row.count * (turn + 1) / kTurns - begin;
    load.acknowledged = [&](std::uint64_t) {
      progress.show(++done);
      return true;
    };
    const LdapLoaded loaded = bench::run_ldap_load(load);
    if (!loaded.failure.empty())
      throw Exception(Code::kIo, fmt::format("{}: {}: {}", label, row.operation, loaded.failure));
    sum.operations += loaded.operations;
    sum.seconds += loaded.seconds;
    sum.rates.push_back(rate(loaded));
    sum.latencies_ns.insert(sum.latencies_ns.end(), loaded.latencies_ns.begin(),
                            loaded.latencies_ns.end());
  }

  static constexpr std::uint64_t kTurns = 10;

  const BenchOptions* options_;
  SlapdFiles files_;
  Scratch scratch_;
};

}  // namespace

AddRates measure_adds(const std::string& dir, std::uint64_t entries, unsigned clients) {
  BenchOptions options;
  options.dir = dir;
  Bench bench(options);
  bench.measure({{"add", LdapLoad::Kind::kAdd, clients, 0, entries}});
  return {std::move(bench.ours[0].rates), std::move(bench.theirs[0].rates)};
}

void add_bench_command(tools::Command ldap) {
  auto options = std::make_shared<BenchOptions>();
  tools::Command command = ldap.add_subcommand(
      "bench", "Add and look up entries through slapd, here and in slapd's own database");
  command
      .add_option("--dir", options->dir,
                  "A directory on a disk; a new one is made and removed in it")
      .show_default()
      .existing_directory();
  command.add_option("--slapd", options->slapd,
                     "Where the package slapd is unpacked, or will be (default: the installed "
                     "one, else build/slapd)");
  tools::add_count(command, "--entries", options->entries, "Entries that 16 clients add")
      .show_default();
  command.add_option("--threads", options->threads, "Of our server").show_default().range(1, 60);
  command.add_option("--in-flight", options->in_flight, "Operations under way on each connection")
      .show_default()
      .range(1, 64);
  command.add_flag("--keep", options->keep, "Leave the files, to look at them");
  tools::add_json_flag(command, options->json);
  command.callback([options] {
    std::signal(SIGPIPE, SIG_IGN);  // a server that has gone is told as an error
    tools::print(Bench(*options).run(), options->json);
  });
}

}  // namespace perdure::ldap
