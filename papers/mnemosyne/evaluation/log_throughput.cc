// SPDX-License-Identifier: BSD-3-Clause
// Table 6: throughput of the commit-record log ("base") and the torn-bit log.
#include "bench/log_rows.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {
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
  paper::judge_logs(section);
  return section;
}

}  // namespace perdure::bench::reproduce
