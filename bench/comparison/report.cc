// SPDX-License-Identifier: BSD-3-Clause
#include "bench/comparison/report.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "measure/page.h"
#include "measure/table.h"

namespace perdure::bench::comparison {
namespace {

using Json = nlohmann::ordered_json;
using reproduce::short_number;

std::vector<std::size_t> rows_of(const PlaceResult& place, unsigned threads) {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < place.plan.rows.size(); ++row) {
    if (place.plan.rows[row].threads == threads) rows.push_back(row);
  }
  return rows;
}

std::vector<std::string> head_of(const PlaceResult& place, const std::vector<std::size_t>& rows,
                                 std::string first) {
  std::vector<std::string> head{std::move(first)};
  for (const std::size_t row : rows) head.emplace_back(place.plan.rows[row].info->title);
  return head;
}

std::string marked(const StoreKind& kind, Place place) {
  return std::string(kind.title) + (kind.terms(place)->weaker ? " *" : "");
}

std::string text_of(const std::vector<std::vector<std::string>>& lines) {
  Table table(lines.front());
  for (std::size_t i = 1; i < lines.size(); ++i) table.add(lines[i]);
  return table.text();
}

// ---- JSON ---------------------------------------------------------------------------------------

Json json_of(const Spread& spread) {
  return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

Json json_of(const StoreKind& kind, Place place) {
  const Terms& terms = *kind.terms(place);
  return {{"name", kind.name},       {"title", kind.title},      {"ours", kind.ours()},
          {"ordered", kind.ordered}, {"setting", terms.setting}, {"survives", terms.survives},
          {"weaker", terms.weaker}};
}

Json result_of(const PlaceResult& place, std::size_t row, std::size_t kind) {
  Json out{{"store", place.plan.kinds[kind]->name}};
  const std::optional<Cell>& cell = place.cells[row][kind];
  if (!cell) {
    out["missing"] = "a hash table has no order to scan in";
    return out;
  }
  out["ops_per_s"] = json_of(cell->ops_per_s);
  out["cpu_us"] = cell->cpu_us;
  out["operations"] = cell->operations;
  out["verified"] = cell->verified;
  out["ratios"] = Json::object();
  for (const Ratio& ratio : ratios_of(place, row, kind))
    out["ratios"][std::string(ratio.ours->name)] = json_of(ratio.spread);
  return out;
}

Json json_of(const PlaceResult& place) {
  Json out{{"place", place_name(place.plan.place)},
           {"dir", place.plan.dir},
           {"live", place.plan.live},
           {"file_system", place.file_system}};
  out["stores"] = Json::array();
  for (const StoreKind* kind : place.plan.kinds)
    out["stores"].push_back(json_of(*kind, place.plan.place));
  out["rows"] = Json::array();
  for (std::size_t row = 0; row < place.plan.rows.size(); ++row) {
    const RowPlan& plan = place.plan.rows[row];
    Json results = Json::array();
    for (std::size_t kind = 0; kind < place.plan.kinds.size(); ++kind)
      results.push_back(result_of(place, row, kind));
    out["rows"].push_back({{"name", plan.info->name},
                           {"title", plan.info->title},
                           {"value_bytes", plan.info->value_bytes},
                           {"threads", plan.threads},
                           {"results", std::move(results)}});
  }
  return out;
}

}  // namespace

std::vector<Ratio> ratios_of(const PlaceResult& place, std::size_t row, std::size_t kind) {
  std::vector<Ratio> ratios;
  const std::optional<Cell>& theirs = place.cells[row][kind];
  const StoreKind& peer = *place.plan.kinds[kind];
  if (peer.ours() || !theirs) return ratios;
  for (std::size_t i = 0; i < place.plan.kinds.size(); ++i) {
    const StoreKind& ours = *place.plan.kinds[i];
    const std::optional<Cell>& cell = place.cells[row][i];
    if (ours.ours() && ours.ordered == peer.ordered && cell)
      ratios.push_back({&ours, ratio_of(cell->ops_per_s, theirs->ops_per_s)});
  }
  return ratios;
}

std::vector<unsigned> threads_of(const PlaceResult& place) {
  std::vector<unsigned> threads;
  for (const RowPlan& row : place.plan.rows) threads.push_back(row.threads);
  std::sort(threads.begin(), threads.end());
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return threads;
}

std::vector<std::string> introduction_of(const Report& report) {
  const Environment& e = report.environment;
  std::vector<std::string> out{
      fmt::format("{}, {} CPUs, {}, compiler {}; load {:.1f} at the start; {} runs of {:g} s by "
                  "turns, 8-byte keys, seed {}; {:.0f} s in all.",
                  e.cpu, e.cpus, e.kernel, e.compiler, e.load_average, e.rules.repetitions,
                  e.rules.seconds, e.seed, report.seconds),
      "Every update is acknowledged when it is synced, as far as the store can. Rates are those of "
      "all threads together, by the wall clock: medians, with the least and the most. A ratio is "
      "ours over the peer's: the btree_map beside stores with an order, the hash_map beside the "
      "others. All stores were verified after each row, and whole after they were closed and "
      "opened again. *: survives less than the others there."};
  if (const std::string warning = load_warning(e); !warning.empty()) out.push_back(warning);
  if (!report.not_built.empty()) {
    std::string names;
    for (const StoreKind* kind : report.not_built)
      names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", kind->name, kind->package);
    out.push_back("Not built in for want of their libraries: " + names + ".");
  }
  for (const PlaceResult& place : report.places) {
    if (place.plan.place == Place::kDisk && place.file_system == "tmpfs")
      out.push_back(place.plan.dir +
                    " is in memory: the figures of the disk are none. Choose another with --disk.");
    if (place.plan.place == Place::kMemory && place.file_system != "tmpfs")
      out.push_back(place.plan.dir + " is not on tmpfs but on " + place.file_system +
                    ": stores that sync wait for its device. Choose another with --tmpfs.");
  }
  return out;
}

std::vector<std::vector<std::string>> rates_of(const PlaceResult& place, unsigned threads) {
  const std::vector<std::size_t> rows = rows_of(place, threads);
  std::vector<std::vector<std::string>> lines{head_of(place, rows, "operations/s")};
  for (std::size_t kind = 0; kind < place.plan.kinds.size(); ++kind) {
    auto& line = lines.emplace_back();
    line.push_back(marked(*place.plan.kinds[kind], place.plan.place));
    for (const std::size_t row : rows) {
      const std::optional<Cell>& cell = place.cells[row][kind];
      line.push_back(cell ? fmt::format("{} ({}..{})", short_number(cell->ops_per_s.median, 1000),
                                        short_number(cell->ops_per_s.min, 1000),
                                        short_number(cell->ops_per_s.max, 1000))
                          : "");
    }
  }
  return lines;
}

std::vector<std::vector<std::string>> ratio_table_of(const PlaceResult& place, unsigned threads) {
  const std::vector<std::size_t> rows = rows_of(place, threads);
  std::string what = "ours / peer";
  if (place.plan.place == Place::kMemory) what += " (dram | adr)";
  std::vector<std::vector<std::string>> lines{head_of(place, rows, what)};
  for (std::size_t kind = 0; kind < place.plan.kinds.size(); ++kind) {
    if (place.plan.kinds[kind]->ours()) continue;
    auto& line = lines.emplace_back();
    line.push_back(marked(*place.plan.kinds[kind], place.plan.place));
    for (const std::size_t row : rows) {
      std::string cell;
      for (const Ratio& ratio : ratios_of(place, row, kind))
        cell += fmt::format("{}{:.3g}", cell.empty() ? "" : " | ", ratio.spread.median);
      line.push_back(std::move(cell));
    }
  }
  return lines;
}

std::string text_of(const Report& report) {
  std::string out;
  for (const std::string& paragraph : introduction_of(report)) out += paragraph + "\n";
  for (const PlaceResult& place : report.places) {
    out += fmt::format("\n{}: {} ({}), {} records in each store\n", place_name(place.plan.place),
                       place.plan.dir, place.file_system, place.plan.live);
    for (const StoreKind* kind : place.plan.kinds) {
      const Terms& terms = *kind->terms(place.plan.place);
      out += fmt::format("  {}: {}. Survives {}.\n", marked(*kind, place.plan.place), terms.setting,
                         terms.survives);
    }
    for (const unsigned threads : threads_of(place)) {
      out += fmt::format("\n{}, {} thread{}\n", place_name(place.plan.place), threads,
                         threads == 1 ? "" : "s");
      out += text_of(rates_of(place, threads)) + "\n";
      if (const auto ratios = ratio_table_of(place, threads); ratios.size() > 1)
        out += text_of(ratios);
    }
  }
  return out;
}

std::string json_of(const Report& report) {
  const Environment& e = report.environment;
  Json out;
  out["version"] = PERDURE_VERSION;
  out["environment"] = {{"cpu", e.cpu},
                        {"cpus", e.cpus},
                        {"kernel", e.kernel},
                        {"compiler", e.compiler},
                        {"write_back", e.write_back},
                        {"load_average", e.load_average},
                        {"seed", e.seed},
                        {"repetitions", e.rules.repetitions},
                        {"seconds_per_repetition", e.rules.seconds},
                        {"seconds", report.seconds}};
  out["not_built"] = Json::array();
  for (const StoreKind* kind : report.not_built)
    out["not_built"].push_back({{"name", kind->name}, {"package", kind->package}});
  out["places"] = Json::array();
  for (const PlaceResult& place : report.places) out["places"].push_back(json_of(place));
  return out.dump(2) + "\n";
}

}  // namespace perdure::bench::comparison
