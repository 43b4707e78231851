// SPDX-License-Identifier: BSD-3-Clause
// Options of an engine, set by experts (perdure/expert.h) and by the pool.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "perdure/options.h"

namespace perdure {

/// Where committed words stand until they are home.
enum class Placement : std::uint8_t {
  /// At home; on files in private pages that are written back in bulk.
  kShared,
  /// In private pages on memory, too, and brought home from records in the background (SoftWrAP).
  kPrivatePages,
};

constexpr std::string_view placement_name(Placement placement) {
  return placement == Placement::kShared ? "shared" : "private-pages";
}

/// Below this size it is faster to log an object's words than to initialise it in place, which
/// costs a fence.
inline constexpr std::size_t kInPlaceBytes = 256;

/// Settings of an engine besides its parts.
struct EngineTuning {
  /// How long a relaxed commit may stay volatile; zero: until the next strict commit or sync().
  std::chrono::nanoseconds relaxed_delay{0};
  /// Objects from this size on are initialised in place.
  std::size_t in_place_bytes = kInPlaceBytes;
  /// Writes of at least so many bytes are kept as runs, not word by word; 0: as suits the engine.
  std::size_t bulk_bytes = 0;
  /// Logs are emptied when one holds this many bytes, which limits what recovery replays; 0: when
  /// it is full. The log that all threads share on files may become so long.
  std::uint64_t log_limit_bytes = 0;
  /// On memory, too, records stand in torn-bit logs.
  bool tornbit_logs = false;
};

}  // namespace perdure
