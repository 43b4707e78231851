// The two logs side by side: the tornbit log, which needs one wait, and the commit-record log,
// which needs two (the shape of Mnemosyne's Table 6).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/measure.h"

namespace perdure::bench {

struct LogRow {
  std::uint64_t bytes;  // of one append
  Timing tornbit;
  Timing commit_record;
};

/// Appends of 8 to 4096 bytes, each made durable, on a file in `dir` used as persistent memory.
std::vector<LogRow> measure_logs(const std::string& dir, const RaceRules& rules);

}  // namespace perdure::bench
