// SPDX-License-Identifier: BSD-3-Clause
// Table 6: throughput of the commit-record log ("base") and the torn-bit log.
#include "bench/log_rows.h"
#include "measure/judge.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {
namespace {

void judge(Section& section, const Settings& settings) {
  const Series& gain = *section.find("tornbit / base");
  std::vector<double> small;
  std::vector<double> large;
  for (std::size_t i = 0; i < section.x.size(); ++i)
    (section.x[i] < paper::kSmallValueBytes ? small : large).push_back(gain.at(i));
  const auto append_ns = [&](const char* log, std::size_t place) {
    return section.x[place] / section.find(log)->at(place) * 1e3;
  };
  const std::size_t last = section.x.size() - 1;
  // An append is one run written through and one wait; the base's commit record is one more of
  // each. What is left besides them and the bandwidth is software.
  const auto costs = [&](std::size_t place) {
    const double latency = settings.memory.latency_ns;
    const double on_the_way = section.x[place] / settings.memory.gb_per_s;
    const double base = append_ns("base", place);
    const double tornbit = append_ns("tornbit", place);
    return fmt::format(
        "At {:.0f} B an append takes the base {:.0f} ns and the torn-bit log {:.0f} ns. The "
        "bandwidth accounts for {:.0f} ns of each; the commit record's own latencies are {:.0f} "
        "ns, and packing torn bits takes {:.0f} ns more than plain copying.",
        section.x[place], base, tornbit, on_the_way, 2 * latency,
        (tornbit - on_the_way - 2 * latency) - (base - on_the_way - 4 * latency));
  };
  if (!small.empty()) {
    const Seen found = seen(small);
    const bool agrees = found.low > 1 && found.high <= 2 * kTolerance;
    section.judgements.push_back({std::string(paper::kTornbitSmall),
                                  range_text(found, " times the base"), agrees,
                                  agrees ? "" : costs(0)});
  }
  if (!large.empty()) {
    const Seen found = seen(large);
    const bool agrees = found.high < 1;
    section.judgements.push_back({std::string(paper::kTornbitLarge),
                                  range_text(found, " times the base"), agrees,
                                  agrees ? "" : costs(last)});
  }
}

}  // namespace

Section measure_log_throughput(const Settings& settings) {
  Section section;
  section.id = "table6";
  section.title = "Table 6: throughput of the base and the torn-bit log";
  section.method =
      "Records appended one by one, each durable on return, on emulated memory; the log is emptied "
      "when it is full. Base: a commit record after a fence of its own.";
  section.x_name = "record (bytes)";
  section.log_y = true;
  for (const std::uint64_t bytes : settings.record_bytes)
    section.x.push_back(static_cast<double>(bytes));
  tell_progress("table 6", 0, 1);
  const std::vector<LogRow> rows =
      measure_logs(settings.dir, settings.rules, settings.record_bytes, settings.memory.model());
  const auto rate = [](std::uint64_t bytes, const Timing& timing) {
    const auto megabytes = [&](double ns) { return static_cast<double>(bytes) / ns * 1e3; };
    return Spread{megabytes(timing.cpu_ns.median), megabytes(timing.slowest_cpu_ns),
                  megabytes(timing.fastest_cpu_ns)};
  };
  Series& base = section.add("base", "MB/s", Origin::kPerdure);
  for (std::size_t i = 0; i < rows.size(); ++i)
    base.values[i] = rate(rows[i].bytes, rows[i].commit_record);
  Series& tornbit = section.add("tornbit", "MB/s", Origin::kPerdure);
  for (std::size_t i = 0; i < rows.size(); ++i)
    tornbit.values[i] = rate(rows[i].bytes, rows[i].tornbit);
  section.add_ratio("tornbit / base", "tornbit", "base");
  const auto add_paper = [&](const std::string& name, auto value) {
    std::vector<std::optional<double>> values(section.x.size());
    for (std::size_t i = 0; i < section.x.size(); ++i) {
      for (const paper::LogThroughput& row : paper::kTable6) {
        if (row.record_bytes == settings.record_bytes[i]) values[i] = value(row);
      }
    }
    section.add_values("paper: " + name, "MB/s", Origin::kPaper, values);
  };
  add_paper("base", [](const paper::LogThroughput& row) { return row.base; });
  add_paper("tornbit", [](const paper::LogThroughput& row) { return row.tornbit; });
  judge(section, settings);
  return section;
}

}  // namespace perdure::bench::reproduce
