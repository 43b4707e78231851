// SPDX-License-Identifier: BSD-3-Clause
// What `perdure-lab bench tpcc` found, as a table for people and as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/report.h"
#include "bench/tpcc/driver.h"

namespace perdure::bench::tpcc {

struct ModeResult {
  Mode mode;
  std::vector<Outcome> rounds;
};

struct PlaceResult {
  std::string place;  // "tmpfs" or "disk"
  std::string dir;
  std::string file_system;
  std::uint64_t database_bytes = 0;  // when it was loaded
  std::vector<ModeResult> modes;
};

struct Report {
  Environment environment;
  std::string sqlite;  // its version
  std::string extension;
  Load load;
  unsigned rounds = 0;
  double seconds = 0;
  std::vector<PlaceResult> places;
};

std::string text_of(const Report& report);
std::string json_of(const Report& report);

/// Every violation, with where it was found; empty: all is well.
std::vector<std::string> violations_of(const Report& report);
/// Transactions per second over those of kBaseline in the same round; nothing where that was not
/// measured.
std::optional<Spread> ratio_of(const PlaceResult& place, const ModeResult& mode);

}  // namespace perdure::bench::tpcc
