// SPDX-License-Identifier: BSD-3-Clause
#include "measure/report.h"

#include <sys/utsname.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "measure/table.h"
#include "perdure/domain/x86.h"

namespace perdure::bench {
namespace {

using json = nlohmann::ordered_json;

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string write_back_name() {
  switch (x86::best_write_back()) {
    case x86::WriteBack::kClwb: return x86::Clwb::kName;
    case x86::WriteBack::kClflushopt: return x86::Clflushopt::kName;
    case x86::WriteBack::kClflush: return x86::Clflush::kName;
  }
  return "unknown";
}

// ---- JSON ---------------------------------------------------------------------------------------

json json_of(const Quartiles& q) {
  return {{"low", q.low}, {"median", q.median}, {"high", q.high}};
}

json json_of(const Timing& timing) {
  return {{"cpu_ns", json_of(timing.cpu_ns)},
          {"wall_ns", json_of(timing.wall_ns)},
          {"operations", timing.operations}};
}

json json_of(const Traffic& traffic) {
  return {{"flushes", traffic.flushes}, {"fences", traffic.fences}, {"bytes", traffic.bytes}};
}

template <class T>
json json_of(const std::optional<T>& maybe) {
  return maybe ? json_of(*maybe) : json(nullptr);
}

json json_of_peers(const std::vector<std::optional<Timing>>& peers,
                   const Environment& environment) {
  json all = json::object();
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (peers[i]) all[environment.peers[i]] = json_of(*peers[i]);
  }
  return all;
}

// ---- table --------------------------------------------------------------------------------------

/// Half the distance between the quartiles, in per cent of the median.
std::string spread(const Quartiles& q) {
  return q.median == 0 ? std::string("±0%")
                       : fmt::format("±{:.0f}%", (q.high - q.low) / 2 / q.median * 100);
}

std::string time_cell(const std::optional<Timing>& timing) {
  return timing ? fmt::format("{:.0f} {}", timing->cpu_ns.median, spread(timing->cpu_ns)) : "";
}
std::string ratio_cell(const std::optional<Timing>& peer, const Timing& ours) {
  return peer ? fmt::format("{:.1f}", peer->cpu_ns.median / ours.cpu_ns.median) : "";
}

std::string table_of(const std::vector<TransactionRow>& rows, const Environment& environment) {
  const bool counted = std::any_of(rows.begin(), rows.end(),
                                   [](const auto& row) { return row.instructions.has_value(); });
  std::vector<std::string> head = {"transaction", "threads", "ns",       "k/s",    "flushes",
                                   "fences",      "bytes",   "floor ns", "x floor"};
  if (counted) head.push_back("instructions");
  for (const std::string& peer : environment.peers) {
    head.push_back(peer + " ns");
    head.push_back("ratio");
  }
  Table table(head);
  for (const TransactionRow& row : rows) {
    std::vector<std::string> cells = {std::string(row.info.title), std::to_string(row.threads),
                                      time_cell(row.perdure),
                                      fmt::format("{:.0f}", 1e6 / row.perdure.wall_ns.median)};
    if (row.traffic) {
      for (const double value : {row.traffic->flushes, row.traffic->fences, row.traffic->bytes})
        cells.push_back(fmt::format("{:.4g}", value));
    } else {
      cells.insert(cells.end(), 3, "");
    }
    cells.push_back(row.floor ? fmt::format("{:.0f}", row.floor->cpu_ns.median) : "");
    cells.push_back(
        row.floor ? fmt::format("{:.1f}", row.perdure.cpu_ns.median / row.floor->cpu_ns.median)
                  : "");
    if (counted) cells.push_back(row.instructions ? fmt::format("{:.0f}", *row.instructions) : "");
    for (const auto& peer : row.peers) {
      cells.push_back(time_cell(peer));
      cells.push_back(ratio_cell(peer, row.perdure));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string table_of(const std::vector<ContentionRow>& rows) {
  Table table({"threads that meet", "readers", "writers", "had CPU", "reads/s", "retries",
               "writes/s", "retries", "longest ms", "least share"});
  for (const ContentionRow& row : rows) {
    const auto rate = [](unsigned threads, const Quartiles& per_s) {
      return threads == 0 ? "" : fmt::format("{:.0f} {}", per_s.median, spread(per_s));
    };
    const auto retries = [](unsigned threads, double each) {
      return threads == 0 ? "" : fmt::format("{:.3g}", each);
    };
    table.add({row.name, std::to_string(row.readers), std::to_string(row.writers),
               fmt::format("{:.0f} %", 100 * row.cpu_part), rate(row.readers, row.reads_per_s),
               retries(row.readers, row.read_retries), rate(row.writers, row.writes_per_s),
               retries(row.writers, row.write_retries),
               fmt::format("{:.3g}", row.longest_ns * 1e-6),
               row.writers > 1 ? fmt::format("{:.2f}", row.least_share) : ""});
  }
  return table.text();
}

std::string table_of(const std::vector<SyncRow>& rows, const Environment& environment) {
  std::vector<std::string> head = {"1-store commits", "us each",  "k/s",
                                   "floor k/s",       "of floor", "relaxed k/s"};
  for (const std::string& peer : environment.peers) {
    head.push_back(peer + " k/s");
    head.push_back("ratio");
  }
  Table table(head);
  for (const SyncRow& row : rows) {
    const double ours = row.perdure.wall_ns.median;
    std::vector<std::string> cells = {
        fmt::format("{} thread{}", row.threads, row.threads == 1 ? "" : "s"),
        fmt::format("{:.1f} {}", ours * row.threads / 1e3, spread(row.perdure.wall_ns)),
        fmt::format("{:.1f}", 1e6 / ours),
        fmt::format("{:.1f}", 1e6 / row.floor.wall_ns.median),
        fmt::format("{:.2f}", row.floor.wall_ns.median / ours),
        fmt::format("{:.0f}", 1e6 / row.relaxed.wall_ns.median)};
    for (const auto& peer : row.peers) {
      cells.push_back(peer ? fmt::format("{:.1f}", 1e6 / peer->wall_ns.median) : "");
      cells.push_back(peer ? fmt::format("{:.1f}", peer->wall_ns.median / ours) : "");
    }
    table.add(std::move(cells));
  }
  return table.text();
}

}  // namespace

Environment look_around() {
  Environment environment;
  environment.cpu = cpu_model();
  environment.cpus = std::thread::hardware_concurrency();
  utsname system{};
  ::uname(&system);
  environment.kernel = std::string(system.sysname) + " " + system.release;
  environment.compiler = __VERSION__;
  environment.write_back = write_back_name();
  ::getloadavg(&environment.load_average, 1);
  return environment;
}

nlohmann::ordered_json as_json(const Environment& e) {
  return {{"cpu", e.cpu},
          {"cpus", e.cpus},
          {"kernel", e.kernel},
          {"compiler", e.compiler},
          {"write_back", e.write_back},
          {"domain", e.domain},
          {"engine", e.engine},
          {"dir", e.dir},
          {"peers", e.peers},
          {"load_average", e.load_average},
          {"seed", e.seed},
          {"repetitions", e.rules.repetitions},
          {"seconds_per_repetition", e.rules.seconds}};
}

std::string load_warning(const Environment& e) {
  if (e.load_average < 0.5 * e.cpus) return {};
  return fmt::format(
      "Other work kept {:.1f} of {} CPUs busy when this began: latencies include waiting for it, "
      "most of all with several threads. Repeat on an idle machine.",
      e.load_average, e.cpus);
}

void write_report(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file)
    throw Exception(Code::kIo, path + ": the report cannot be written: " + std::strerror(errno));
}

std::string as_json(const Report& report) {
  const Environment& e = report.environment;
  json out;
  out["environment"] = as_json(e);
  out["floor"] = json::array();
  for (const FloorRow& row : report.floor)
    out["floor"].push_back({{"name", row.name}, {"timing", json_of(row.timing)}});
  out["transactions"] = json::array();
  for (const TransactionRow& row : report.transactions) {
    out["transactions"].push_back(
        {{"name", row.info.name},
         {"title", row.info.title},
         {"threads", row.threads},
         {"pinned", row.pinned},
         {"perdure", json_of(row.perdure)},
         {"traffic", json_of(row.traffic)},
         {"instructions", row.instructions ? json(*row.instructions) : json()},
         {"floor_lines", row.info.floor_lines},
         {"floor", json_of(row.floor)},
         {"peers", json_of_peers(row.peers, e)}});
  }
  out["logs"] = json::array();
  for (const LogRow& row : report.logs) {
    out["logs"].push_back({{"bytes", row.bytes},
                           {"tornbit", json_of(row.tornbit)},
                           {"line", json_of(row.line)},
                           {"commit_record", json_of(row.commit_record)}});
  }
  out["contention"] = json::array();
  for (const ContentionRow& row : report.contention) {
    out["contention"].push_back({{"name", row.name},
                                 {"readers", row.readers},
                                 {"writers", row.writers},
                                 {"pinned", row.pinned},
                                 {"cpu_part", row.cpu_part},
                                 {"reads_per_s", json_of(row.reads_per_s)},
                                 {"writes_per_s", json_of(row.writes_per_s)},
                                 {"read_retries", row.read_retries},
                                 {"write_retries", row.write_retries},
                                 {"longest_ns", row.longest_ns},
                                 {"least_share", row.least_share}});
  }
  out["sync"] = json::array();
  for (const SyncRow& row : report.sync) {
    out["sync"].push_back({{"threads", row.threads},
                           {"perdure", json_of(row.perdure)},
                           {"floor", json_of(row.floor)},
                           {"relaxed", json_of(row.relaxed)},
                           {"peers", json_of_peers(row.peers, e)}});
  }
  return out.dump(2) + "\n";
}

std::string as_table(const Report& report) {
  const Environment& e = report.environment;
  std::string out = fmt::format(
      "{}, {} CPUs, {}, {}; load {:.1f} at the start\nengine {}, domain {} in {}, {}; {} "
      "repetitions of {:g} s by "
      "turns, seed {}\nns: CPU time of one operation, median ± half the distance of the quartiles; "
      "ratio: peer / perdure\n",
      e.cpu, e.cpus, e.kernel, e.compiler, e.load_average, e.engine, e.domain, e.dir, e.write_back,
      e.rules.repetitions, e.rules.seconds, e.seed);
  if (e.peers.empty()) out += "no peer: none was built, or none has a mode for this domain\n";
  if (!report.floor.empty()) {
    Table table({"hardware floor", "ns"});
    for (const FloorRow& row : report.floor) table.add({row.name, time_cell(row.timing)});
    out += "\n" + table.text();
  }
  if (!report.transactions.empty()) out += "\n" + table_of(report.transactions, e);
  if (!report.logs.empty()) {
    Table table({"durable append", "tornbit ns", "MB/s", "line ns", "MB/s", "commit record ns",
                 "MB/s", "over tornbit", "over line"});
    for (const LogRow& row : report.logs) {
      const auto rate = [&](const Timing& timing) {
        return fmt::format("{:.0f}", static_cast<double>(row.bytes) / timing.cpu_ns.median * 1e3);
      };
      table.add({fmt::format("{} B", row.bytes), time_cell(row.tornbit), rate(row.tornbit),
                 time_cell(row.line), rate(row.line), time_cell(row.commit_record),
                 rate(row.commit_record), ratio_cell(row.commit_record, row.tornbit),
                 ratio_cell(row.commit_record, row.line)});
    }
    out += "\n" + table.text();
  }
  if (!report.contention.empty()) out += "\n" + table_of(report.contention);
  if (!report.sync.empty()) out += "\n" + table_of(report.sync, e);
  return out;
}

}  // namespace perdure::bench
