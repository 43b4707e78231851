// SPDX-License-Identifier: BSD-3-Clause
// What the choices of an engine are called: in options, on command lines, in reports.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace perdure {

/// When the home words of a commit become durable and its record leaves the log. Every choice is safe; they differ in
/// who waits for what, and for how long.
enum class Truncation : std::uint8_t {
  kAuto,  // kNextCommit on memory, kWhenFull on files; with private pages over memory, kBackground
  kEachCommit,  // Mnemosyne's synchronous truncation: at the end of the commit itself; three fences
  kNextCommit,  // home words under the fence of the thread's next commit; logs emptied together when one is full
  kWhenFull,  // both when a log is full
  kBackground,  // Mnemosyne's asynchronous truncation: by a thread of its own; commits wait only for a full log
};

constexpr std::string_view truncation_name(Truncation truncation) {
  switch (truncation) {
    case Truncation::kAuto: return "auto";
    case Truncation::kEachCommit: return "each-commit";
    case Truncation::kNextCommit: return "next-commit";
    case Truncation::kWhenFull: return "when-full";
    case Truncation::kBackground: return "background";
  }
  return "unknown";
}

/// When a commit returns. The order of commits is kept in either case: what survives is what was committed up to some
/// moment, and nothing later.
enum class Durability : std::uint8_t {
  kStrict,  // when it is durable, with all that was committed before it (at once, if it wrote nothing)
  kRelaxed,  // at once. On files it becomes durable with the next strict commit, Pool::sync() or checkpoint, at the
  // latest PoolOptions::relaxed_delay later; on memory, where a fence is no wait worth avoiding, as kStrict
};

constexpr std::string_view durability_name(Durability durability) {
  return durability == Durability::kStrict ? "strict" : "relaxed";
}

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
