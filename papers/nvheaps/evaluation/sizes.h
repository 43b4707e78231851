// SPDX-License-Identifier: BSD-3-Clause
// How large the structures of the evaluation of NV-heaps are, and what goes wrong in them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/workload.h"
#include "perdure/error.h"

namespace perdure::bench::nvheaps {

/// The paper's take 3 MB to 24 GB (Table 2).
struct Sizes {
  std::uint64_t array_words = std::uint64_t{1} << 20;  // SPS
  std::uint64_t keys = 100'000;   // live in each set of integers, of twice as many
  std::uint64_t vertices = 4096;  // SixDegs
  std::uint64_t edges = 16'384;   // the same, half of them there at a time
  unsigned scale = 10;            // SSCA: 2^scale vertices
  unsigned edges_per_vertex = 8;
};

/// A structure is not what it has to be.
inline void require(bool holds, const char* invariant) {
  if (!holds) throw Exception(Code::kCorrupt, std::string("nvheaps: ") + invariant);
}

/// Operations that fill a structure come in transactions of so many.
inline constexpr std::uint64_t kFillAtOnce = 32;

/// `live` of the keys below 2 * live, in an order of their own.
inline std::vector<std::uint64_t> shuffled_keys(std::uint64_t live) {
  std::vector<std::uint64_t> keys(live);
  for (std::uint64_t i = 0; i < live; ++i) keys[i] = 2 * i;
  Random random(live);
  for (std::uint64_t i = live; i > 1; --i) std::swap(keys[i - 1], keys[random.below(i)]);
  return keys;
}

/// Runs fill(root, i) for each i below `count`, some in one transaction.
template <class Heap, class Fill>
void fill_up(Heap& heap, std::uint64_t count, const Fill& fill) {
  for (std::uint64_t from = 0; from < count; from += kFillAtOnce) {
    heap.run([&](auto root) {
      for (std::uint64_t i = from; i < count && i < from + kFillAtOnce; ++i) fill(root, i);
    });
  }
}

}  // namespace perdure::bench::nvheaps
