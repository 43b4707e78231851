// SPDX-License-Identifier: BSD-3-Clause
// What a run of the benchmark found, and its two forms: a table for people, JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/contention.h"
#include "bench/log_rows.h"
#include "bench/system.h"

namespace perdure::bench {

struct Environment {
  std::string cpu;
  unsigned cpus = 0;
  std::string kernel;
  std::string compiler;
  std::string write_back;  // instruction
  std::string domain;
  std::string engine;
  std::string dir;
  std::vector<std::string> peers;
  double load_average = 0;  // of other work, when the run began
  std::uint64_t seed = 0;
  RaceRules rules;
};
Environment look_around();
/// What to think of the figures when others used the machine; empty when it was idle.
std::string load_warning(const Environment& environment);
/// Errors: throws Exception kIo.
void write_report(const std::string& path, const std::string& content);

/// Persistence traffic of one operation.
struct Traffic {
  double flushes = 0;
  double fences = 0;
  double bytes = 0;
};

struct FloorRow {
  std::string name;
  Timing timing;
};

struct TransactionRow {
  RowInfo info;
  unsigned threads = 1;
  bool pinned = false;
  Timing perdure;
  std::optional<Traffic> traffic;
  std::optional<double> instructions;  // of one operation
  std::optional<Timing> floor;
  std::vector<std::optional<Timing>> peers;  // in the order of Environment::peers
};

/// A commit on a block device, in wall time: it waits more than it works.
struct SyncRow {
  unsigned threads = 1;
  Timing perdure;
  Timing floor;
  Timing relaxed;  // the same with Durability::kRelaxed
  std::vector<std::optional<Timing>> peers;
};

struct Report {
  Environment environment;
  std::vector<FloorRow> floor;
  std::vector<TransactionRow> transactions;
  std::vector<LogRow> logs;
  std::vector<ContentionRow> contention;
  std::vector<SyncRow> sync;
};

std::string as_table(const Report& report);
/// The conditions of a measurement, as every report tells them.
nlohmann::ordered_json as_json(const Environment& environment);
std::string as_json(const Report& report);

}  // namespace perdure::bench
