// SPDX-License-Identifier: BSD-3-Clause
// What an engine is told by experts (perdure/expert.h), and by the pool.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "perdure/options.h"

namespace perdure {

/// Where transactions store what they have committed, until it is home.
enum class Placement : std::uint8_t {
  kShared,  // at home; on files in private pages that are written back in bulk
  kPrivatePages,  // in private pages on memory, too, from which records are brought home in the background (SoftWrAP)
};

constexpr std::string_view placement_name(Placement placement) {
  return placement == Placement::kShared ? "shared" : "private-pages";
}

/// Below it a log takes an object's words faster than the wait of its own that initialisation in place takes.
inline constexpr std::size_t kInPlaceBytes = 256;

/// What an engine is told besides where its parts are.
struct EngineTuning {
  /// How long a relaxed commit may stay volatile; zero: as long as nobody asks.
  std::chrono::nanoseconds relaxed_delay{0};
  /// Objects from this size on are initialised in place.
  std::size_t in_place_bytes = kInPlaceBytes;
  /// Logs are emptied when one holds this many bytes, so that recovery has no more to replay; 0: when it is full.
  std::uint64_t log_limit_bytes = 0;
};

}  // namespace perdure
