// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/driver.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "bench/system.h"
#include "bench/tpcc/consistency.h"
#include "bench/tpcc/loader.h"
#include "bench/tpcc/terminal.h"
#include "measure/measure.h"

namespace perdure::bench::tpcc {
namespace {

std::uint64_t count(const Tally& tally, Kind kind) {
  return tally.ns[static_cast<std::size_t>(kind)].size();
}

std::vector<std::string> judge(Connection& connection, const Load& load, const std::string& when) {
  std::vector<std::string> found = violations(connection, load.size);
  for (std::string& violation : found) violation = when + ": " + violation;
  return found;
}

/// Whether the tables have grown and shrunk by what the terminals were told.
void judge_growth(const RowCounts& before, const RowCounts& after, const Tally& told,
                  std::vector<std::string>& found) {
  RowCounts expected = before;
  const auto grow = [&](std::string_view table, std::uint64_t by) {
    const auto at = std::find(kTables.begin(), kTables.end(), table) - kTables.begin();
    expected[static_cast<std::size_t>(at)] += static_cast<std::int64_t>(by);
  };
  grow("history", count(told, Kind::kPayment));
  grow("orders", told.new_orders());
  grow("order_line", told.lines);
  grow("new_order", told.new_orders() - told.delivered);
  for (std::size_t i = 0; i < kTables.size(); ++i) {
    if (after[i] != expected[i])
      found.push_back(fmt::format("reopened: {} has {} rows, the answers add up to {}", kTables[i],
                                  after[i], expected[i]));
  }
}

/// A new connection must find the same, and SQLite no fault in it.
void judge_reopened(const Load& load, const Mode& mode, const std::string& path,
                    const RowCounts& before, const Tally& told, Outcome& outcome) {
  Connection connection(path, mode.vfs, Connection::Access::kWrite, mode.parameters);
  outcome.rows = count_rows(connection);
  judge_growth(before, outcome.rows, told, outcome.violations);
  for (std::string& violation : judge(connection, load, "reopened"))
    outcome.violations.push_back(std::move(violation));
  const std::string integrity = connection.text("PRAGMA integrity_check");
  if (integrity != "ok") outcome.violations.push_back("reopened: integrity_check: " + integrity);
}

}  // namespace

std::uint64_t Tally::transactions() const {
  std::uint64_t sum = 0;
  for (const auto& kind : ns) sum += kind.size();
  return sum;
}
std::uint64_t Tally::new_orders() const { return count(*this, Kind::kNewOrder) - rollbacks; }

void Tally::add(const Tally& other) {
  for (std::size_t kind = 0; kind < ns.size(); ++kind)
    ns[kind].insert(ns[kind].end(), other.ns[kind].begin(), other.ns[kind].end());
  rollbacks += other.rollbacks;
  lines += other.lines;
  delivered += other.delivered;
  skipped += other.skipped;
}

Latency latency_of(std::vector<std::uint64_t> ns) {
  if (ns.empty()) return {};
  std::sort(ns.begin(), ns.end());
  const auto at = [&](double part) {
    return static_cast<double>(
        ns[static_cast<std::size_t>(part * static_cast<double>(ns.size() - 1))]);
  };
  return {at(0.5), at(0.99), at(1)};
}

double Outcome::transactions_per_s() const {
  return static_cast<double>(tally.transactions()) / wall_seconds;
}
double Outcome::new_orders_per_s() const {
  return static_cast<double>(tally.new_orders()) / wall_seconds;
}

void load_original(const std::string& path, const Load& load) {
  Connection connection(path, "unix", Connection::Access::kCreate);
  // Nothing to come back to: what a crash leaves of it is thrown away.
  connection.run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536");
  tpcc::load(connection, load.size, load.seed);
  const std::vector<std::string> found = violations(connection, load.size);
  if (!found.empty()) throw Exception(Code::kCorrupt, "tpcc: as loaded: " + found.front());
}

Outcome run_round(const Load& load, const Mode& mode, const std::string& original,
                  const std::string& dir, unsigned round) {
  const ScratchDirectory home(dir, "tpcc");
  const std::string path = home.path() + "/tpcc.sqlite";
  RowCounts before{};
  {
    Connection from(original, "unix", Connection::Access::kReadOnly);
    before = count_rows(from);
    Connection copy(path, mode.vfs, Connection::Access::kCreate, mode.parameters);
    copy.copy_from(from);
  }

  Outcome outcome;
  Tally told;
  {
    // A VFS whose waiters are woken keeps their order itself.
    std::vector<std::mutex> turns(wakes_waiters(mode) ? load.connections : 1);
    std::vector<std::unique_ptr<Terminals>> terminals;
    for (unsigned i = 0; i < load.connections; ++i) {
      const std::uint64_t seed =
          load.seed + (std::uint64_t{round} << 32) + (std::uint64_t{i} << 48);
      terminals.push_back(
          std::make_unique<Terminals>(load, mode, path, seed, turns[i % turns.size()]));
    }
    std::vector<Tally> warm_ups(load.connections);
    std::vector<Tally> timed(load.connections);
    Team team(load.connections, false);
    team.run([&](unsigned i) { terminals[i]->run(load.warm_up_seconds, 0, warm_ups[i]); });
    const Team::Spent spent = team.run([&](unsigned i) {
      // The first ones do what does not divide evenly.
      const std::uint64_t share =
          load.transactions / load.connections + (i < load.transactions % load.connections ? 1 : 0);
      if (load.transactions == 0 || share != 0) terminals[i]->run(load.seconds, share, timed[i]);
    });
    for (const Tally& tally : timed) outcome.tally.add(tally);
    for (const Tally& tally : warm_ups) told.add(tally);
    outcome.wall_seconds = spent.wall_ns / 1e9;
    outcome.cpu_ns = spent.cpu_ns / static_cast<double>(outcome.tally.transactions());
    told.add(outcome.tally);

    // On a connection that is open already: a VFS may be for one only.
    outcome.violations = judge(terminals.front()->connection(), load, "at the end");
  }
  judge_reopened(load, mode, path, before, told, outcome);
  return outcome;
}

}  // namespace perdure::bench::tpcc
