// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tpcc/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/tpcc/consistency.h"
#include "measure/page.h"
#include "measure/table.h"

namespace perdure::bench::tpcc {
namespace {

using Json = nlohmann::ordered_json;
using reproduce::short_number;

template <class Figure>
Spread over_rounds(const ModeResult& mode, const Figure& figure) {
  std::vector<double> runs;
  for (const Outcome& round : mode.rounds) runs.push_back(figure(round));
  return spread_of(std::move(runs));
}

/// Medians of the rounds; the longest of all.
Latency latency_over_rounds(const ModeResult& mode, std::optional<Kind> kind) {
  std::vector<double> p50, p99, longest;
  for (const Outcome& round : mode.rounds) {
    std::vector<std::uint64_t> ns;
    for (std::size_t i = 0; i < round.tally.ns.size(); ++i) {
      if (!kind || i == static_cast<std::size_t>(*kind))
        ns.insert(ns.end(), round.tally.ns[i].begin(), round.tally.ns[i].end());
    }
    const Latency latency = latency_of(std::move(ns));
    p50.push_back(latency.p50_ns);
    p99.push_back(latency.p99_ns);
    longest.push_back(latency.max_ns);
  }
  return {spread_of(p50).median, spread_of(p99).median, spread_of(longest).max};
}

std::uint64_t sum_over_rounds(const ModeResult& mode, std::uint64_t (*figure)(const Tally&)) {
  std::uint64_t sum = 0;
  for (const Outcome& round : mode.rounds) sum += figure(round.tally);
  return sum;
}
std::uint64_t transactions_of(const ModeResult& mode) {
  return sum_over_rounds(mode, [](const Tally& tally) { return tally.transactions(); });
}
std::uint64_t rollbacks_of(const ModeResult& mode) {
  return sum_over_rounds(mode, [](const Tally& tally) { return tally.rollbacks; });
}
std::uint64_t skipped_of(const ModeResult& mode) {
  return sum_over_rounds(mode, [](const Tally& tally) { return tally.skipped; });
}

bool consistent(const ModeResult& mode) {
  return std::all_of(mode.rounds.begin(), mode.rounds.end(),
                     [](const Outcome& round) { return round.violations.empty(); });
}

std::string scale_of(const Size& size) {
  return size.divisor == 1
             ? "full cardinalities"
             : fmt::format("scaled 1/{}: NOT the standard's cardinalities", size.divisor);
}

// ---- text ---------------------------------------------------------------------------------------

std::string introduction_of(const Report& report) {
  const Environment& e = report.environment;
  const Load& load = report.load;
  const std::string length = load.transactions != 0
                                 ? fmt::format("{} transactions", load.transactions)
                                 : fmt::format("{:g} s", load.seconds);
  const std::string rounds =
      fmt::format("{} round{}", report.rounds, report.rounds == 1 ? "" : "s by turns");
  std::string out = fmt::format(
      "TPC-C on SQLite {}: {} warehouse{}, {}; {} connection{}; {} of {} each, after {:g} s of "
      "warm-up; seed {}{}; {:.0f} s in all.\n",
      report.sqlite, load.size.warehouses, load.size.warehouses == 1 ? "" : "s",
      scale_of(load.size), load.connections, load.connections == 1 ? "" : "s", rounds, length,
      load.warm_up_seconds, load.seed,
      load.cache_mib == 0 ? ""
                          : fmt::format("; a cache of {} MiB for each connection", load.cache_mib),
      report.seconds);
  out += fmt::format("{}, {} CPUs, {}, compiler {}; load {:.1f} at the start.\n", e.cpu, e.cpus,
                     e.kernel, e.compiler, e.load_average);
  out +=
      "No keying and think times: these are not tpmC. Transactions/s are of all five kinds in the "
      "standard's mix, New-Orders/s those that committed; medians of the rounds, with the least "
      "and "
      "most. A ratio is transactions/s over those of ";
  out += kBaseline;
  out += " in the same round.\n";
  out += "A power cut leaves on a disk (of what is on tmpfs, nothing):\n";
  for (const ModeResult& mode : report.places.front().modes)
    out += fmt::format("  {}: {}.\n", mode.mode.name(), promise_of(mode.mode));
  if (const std::string warning = load_warning(e); !warning.empty()) out += warning + "\n";
  for (const PlaceResult& place : report.places) {
    if ((place.place == "tmpfs") == (place.file_system == "tmpfs")) continue;
    out += fmt::format("{} is on {}: these are not the figures of {}. Choose another with --{}.\n",
                       place.dir, place.file_system, place.place == "tmpfs" ? "memory" : "a disk",
                       place.place);
  }
  return out;
}

std::string text_of(const Spread& spread) {
  return fmt::format("{:.0f} ({:.0f}..{:.0f})", spread.median, spread.min, spread.max);
}
std::string text_of(const Latency& latency) {
  return fmt::format("{:.0f} / {:.0f} / {:.0f}", latency.p50_ns / 1e3, latency.p99_ns / 1e3,
                     latency.max_ns / 1e3);
}

std::string rates_of(const PlaceResult& place) {
  Table table({"mode", "transactions/s", "New-Orders/s", "ratio", "CPU us", "New-Order us*",
               "all five us*", "rollbacks", "conditions"});
  for (const ModeResult& mode : place.modes) {
    const std::optional<Spread> ratio = ratio_of(place, mode);
    table.add(
        {mode.mode.name(),
         text_of(over_rounds(mode, [](const Outcome& o) { return o.transactions_per_s(); })),
         text_of(over_rounds(mode, [](const Outcome& o) { return o.new_orders_per_s(); })),
         ratio ? fmt::format("{:.2f}", ratio->median) : "",
         fmt::format("{:.0f}",
                     over_rounds(mode, [](const Outcome& o) { return o.cpu_ns / 1e3; }).median),
         text_of(latency_over_rounds(mode, Kind::kNewOrder)),
         text_of(latency_over_rounds(mode, std::nullopt)), fmt::format("{}", rollbacks_of(mode)),
         consistent(mode) ? "hold" : "VIOLATED"});
  }
  return table.text() + "*: median / 99th percentile / longest\n";
}

std::string rows_of(const PlaceResult& place) {
  std::vector<std::string> head = {"rows at the end"};
  for (const std::string_view table : kTables) head.emplace_back(table);
  Table table(std::move(head));
  for (const ModeResult& mode : place.modes) {
    std::vector<std::string> line = {mode.mode.name()};
    for (const std::int64_t rows : mode.rounds.back().rows) line.push_back(fmt::format("{}", rows));
    table.add(std::move(line));
  }
  return table.text();
}

// ---- JSON ---------------------------------------------------------------------------------------

Json json_of(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}
Json json_of(const Latency& latency) {
  return {{"p50", latency.p50_ns}, {"p99", latency.p99_ns}, {"max", latency.max_ns}};
}

Json json_of(const PlaceResult& place, const ModeResult& mode) {
  Json out{{"name", mode.mode.name()},
           {"vfs", mode.mode.vfs},
           {"journal_mode", mode.mode.journal},
           {"synchronous", mode.mode.synchronous},
           {"promise", promise_of(mode.mode)}};
  out["transactions_per_s"] =
      json_of(over_rounds(mode, [](const Outcome& o) { return o.transactions_per_s(); }));
  out["new_orders_per_s"] =
      json_of(over_rounds(mode, [](const Outcome& o) { return o.new_orders_per_s(); }));
  if (const auto ratio = ratio_of(place, mode)) out["ratio"] = json_of(*ratio);
  out["cpu_ns"] = json_of(over_rounds(mode, [](const Outcome& o) { return o.cpu_ns; }));
  out["latency_ns"]["all"] = json_of(latency_over_rounds(mode, std::nullopt));
  for (std::size_t kind = 0; kind < kKindNames.size(); ++kind)
    out["latency_ns"][kKindNames[kind]] =
        json_of(latency_over_rounds(mode, static_cast<Kind>(kind)));
  out["transactions"] = transactions_of(mode);
  out["rollbacks"] = rollbacks_of(mode);
  out["skipped_deliveries"] = skipped_of(mode);
  for (std::size_t i = 0; i < kTables.size(); ++i)
    out["rows"][std::string(kTables[i])] = mode.rounds.back().rows[i];
  out["rounds"] = Json::array();
  for (const Outcome& round : mode.rounds)
    out["rounds"].push_back({{"transactions_per_s", round.transactions_per_s()},
                             {"new_orders_per_s", round.new_orders_per_s()},
                             {"seconds", round.wall_seconds},
                             {"violations", round.violations}});
  out["consistent"] = consistent(mode);
  return out;
}

}  // namespace

std::optional<Spread> ratio_of(const PlaceResult& place, const ModeResult& mode) {
  const auto baseline =
      std::find_if(place.modes.begin(), place.modes.end(),
                   [](const ModeResult& other) { return other.mode.name() == kBaseline; });
  if (baseline == place.modes.end()) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t round = 0; round < mode.rounds.size(); ++round)
    ratios.push_back(mode.rounds[round].transactions_per_s() /
                     baseline->rounds[round].transactions_per_s());
  return spread_of(std::move(ratios));
}

std::vector<std::string> violations_of(const Report& report) {
  std::vector<std::string> all;
  for (const PlaceResult& place : report.places) {
    for (const ModeResult& mode : place.modes) {
      for (std::size_t round = 0; round < mode.rounds.size(); ++round) {
        for (const std::string& violation : mode.rounds[round].violations)
          all.push_back(fmt::format("{}, {}, round {}, {}", place.place, mode.mode.name(),
                                    round + 1, violation));
      }
    }
  }
  return all;
}

std::string text_of(const Report& report) {
  std::string out = introduction_of(report);
  for (const PlaceResult& place : report.places) {
    out += fmt::format("\n{}: {} ({}), a database of {}B when loaded\n", place.place, place.dir,
                       place.file_system,
                       short_number(static_cast<double>(place.database_bytes), 1024));
    out += "\n" + rates_of(place) + "\n" + rows_of(place);
  }
  const std::vector<std::string> violations = violations_of(report);
  if (violations.empty())
    out += fmt::format(
        "\nIn every round all {} consistency conditions held, before closing and in a "
        "new connection, every table had the rows that were acknowledged, and "
        "SQLite's integrity_check found nothing.\n",
        conditions().size());
  for (const std::string& violation : violations) out += "\nVIOLATED: " + violation;
  return out + (violations.empty() ? "" : "\n");
}

std::string json_of(const Report& report) {
  const Environment& e = report.environment;
  const Load& load = report.load;
  Json out;
  out["version"] = PERDURE_VERSION;
  out["sqlite"] = report.sqlite;
  out["environment"] = {{"cpu", e.cpu},
                        {"cpus", e.cpus},
                        {"kernel", e.kernel},
                        {"compiler", e.compiler},
                        {"load_average", e.load_average}};
  out["warehouses"] = load.size.warehouses;
  out["scale"] = load.size.divisor;
  out["connections"] = load.connections;
  out["rounds"] = report.rounds;
  if (load.transactions != 0)
    out["transactions_per_round"] = load.transactions;
  else
    out["seconds_per_round"] = load.seconds;
  out["warm_up_seconds"] = load.warm_up_seconds;
  out["cache_mib"] = load.cache_mib;
  out["seed"] = load.seed;
  if (!report.extension.empty()) out["extension"] = report.extension;
  out["seconds"] = report.seconds;
  out["conditions"] = Json::array();
  for (const Condition& condition : conditions())
    out["conditions"].push_back({{"number", condition.number}, {"claim", condition.claim}});
  out["places"] = Json::array();
  for (const PlaceResult& place : report.places) {
    Json& told = out["places"].emplace_back(Json{{"place", place.place},
                                                 {"dir", place.dir},
                                                 {"file_system", place.file_system},
                                                 {"database_bytes", place.database_bytes}});
    told["modes"] = Json::array();
    for (const ModeResult& mode : place.modes) told["modes"].push_back(json_of(place, mode));
  }
  out["violations"] = violations_of(report);
  return out.dump(2) + "\n";
}

}  // namespace perdure::bench::tpcc
