// SPDX-License-Identifier: BSD-3-Clause
// What opening a pool found in its logs and did.
#pragma once

#include <cstdint>

namespace perdure {

/// What recovery found and did.
struct RecoveryReport {
  std::uint64_t records_replayed = 0;
  std::uint64_t words_replayed = 0;
  std::uint64_t logs_erased = 0;
  std::uint64_t last_stamp = 0;
  std::uint64_t nanoseconds = 0;
};

}  // namespace perdure
