// SPDX-License-Identifier: BSD-3-Clause
// One run of a program, with or without `perdure run`, and what it cost.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "papers/thynvm/evaluation/carried_programs.h"

namespace perdure::bench::thynvm {

/// How a program is run.
struct Mode {
  std::string_view name;
  std::vector<std::string> options;  // of `perdure run`; none: without it
};

/// What `perdure run --stats` tells.
struct RunStatistics {
  double epochs = 0;
  double first_write_ns = 0;
  double written_pages = 0, whole_pages = 0, blocks = 0;
  double log_bytes = 0;
  double pause_p50_ms = 0, pause_p99_ms = 0, pause_max_ms = 0, pause_total_ms = 0;

  /// Blocks of 64 bytes that were found to have changed, and pages that were taken whole.
  double changed_bytes() const { return blocks * 64 + whole_pages * 4096; }
};
/// Errors: Exception kIo when the file is not there, or not what is expected.
RunStatistics read_statistics(const std::string& file);

struct Ran {
  double wall_s = 0;  // from the start to the end, or of a server's client
  double cpu_s = 0;   // of the program and all that carried it
  RunStatistics statistics;
};

/// The words of a command line that runs the program in this mode. Its files are in the directory, by these names.
std::vector<std::string> command_line(const CarriedProgram& program, const Mode& mode,
                                      const std::string& directory);
inline constexpr std::string_view kStateName = "state", kStatisticsName = "statistics.json",
                                  kLogName = "log";

/// Runs the program to its end, with nothing to read and its output thrown away; its state directory is a new one in
/// `directory`, and is removed. Errors: Exception kIo when it did not end well, with what it said.
Ran run_carried(const CarriedProgram& program, const Mode& mode, const std::string& directory);

}  // namespace perdure::bench::thynvm
