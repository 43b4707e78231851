// SPDX-License-Identifier: BSD-3-Clause
// ExpertOptions: further options of a pool. The defaults are the fastest that were measured; these
// options are for those who measured something else, and for tools.
#pragma once

#include <cstddef>
#include <cstdint>

#include "perdure/engine/options.h"
#include "perdure/options.h"

namespace perdure {

struct ExpertOptions : PoolOptions {
  /// When home words are written back and logs emptied; Pool::set_truncation changes it later.
  Truncation truncation = Truncation::kAuto;
  /// kPrivatePages: on memory, too, transactions store in private copies of pages, from which
  /// records are brought home in the background. Loads cost nothing more; wraps (perdure/wraps.h)
  /// store in place. Not for address spaces.
  Placement placement = Placement::kShared;
  /// On memory, new objects of at least this size are initialised in place, at the price of a
  /// second fence; the largest number: none are. docs/adr/0012-large-new-objects-in-place.md
  std::size_t in_place_bytes = kInPlaceBytes;
  /// On memory, too, logs are Mnemosyne's torn-bit logs, as on files, and not line logs.
  bool tornbit_logs = false;
  /// A log is emptied when it holds this much, and on files it grows no longer; 0: as
  /// recovery_target says; otherwise at least 16 KiB.
  std::uint64_t log_limit_bytes = 0;
  /// The pool has 2^lock_bits ownership records, of 8 bytes each.
  unsigned lock_bits = 20;

  // At creation only:
  std::uint64_t segment_bytes = std::uint64_t{1} << 20;  // unit of growth
  /// The size of each thread's log. 0: 256 KiB on memory; on files, where all threads share one log
  /// and home pages are written when it is full, up to 4 MiB.
  std::uint64_t ring_bytes = 0;
  /// Also with raise_limits: how many named roots the pool can hold.
  std::uint32_t root_entries = 128;

  ExpertOptions() = default;
  ExpertOptions(const PoolOptions& options) : PoolOptions(options) {}  // NOLINT: they are that
};

}  // namespace perdure
