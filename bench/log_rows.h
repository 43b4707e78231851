// SPDX-License-Identifier: BSD-3-Clause
// The logs side by side: the torn-bit log and the line log, which need one wait, and the
// commit-record log, which needs two (the shape of Mnemosyne's Table 6).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/measure.h"
#include "perdure/domain/latency.h"

namespace perdure::bench {

struct LogRow {
  std::uint64_t bytes;  // of one append
  Timing tornbit;
  Timing line;
  Timing commit_record;
};

/// Appends of `sizes` bytes (multiples of 8), each made durable, on a file in `dir` used as
/// persistent memory; `latency` makes it slower.
std::vector<LogRow> measure_logs(const std::string& dir, const RaceRules& rules,
                                 const std::vector<std::uint64_t>& sizes,
                                 const std::optional<LatencyModel>& latency = {});

}  // namespace perdure::bench
