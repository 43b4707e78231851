// SPDX-License-Identifier: BSD-3-Clause
// Scale-free graphs: edges drawn by R-MAT, as in SSCA 2.2 (a = 0.55, b = c = 0.1, d = 0.25).
#pragma once

#include <cstdint>
#include <utility>

#include "bench/workload.h"

namespace perdure::bench::nvheaps {

/// An edge between two different ones of 2^scale vertices.
inline std::pair<std::uint64_t, std::uint64_t> r_mat_edge(unsigned scale, Random& random) {
  for (;;) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    for (unsigned bit = 0; bit < scale; ++bit) {
      const std::uint64_t draw = random.below(100);
      from = 2 * from + (draw >= 65 ? 1 : 0);
      to = 2 * to + ((draw >= 55 && draw < 65) || draw >= 75 ? 1 : 0);
    }
    if (from != to) return {from, to};
  }
}

}  // namespace perdure::bench::nvheaps
