// SPDX-License-Identifier: BSD-3-Clause
// How large the structures are with `--full`: by the memory that the machine has left.
#pragma once

#include <cstdint>

#include "papers/nvheaps/evaluation/sizes.h"

namespace perdure::bench::nvheaps {

/// An integer in the largest set of them, SAFE's red-black tree: a node of 48 bytes, and what its memory leaves unused.
inline constexpr std::uint64_t kBytesOfKey = 96;
/// A race of all layers has so many times the bytes of one structure: one for each of eleven ways (races.cc), three and a half for
/// each of the four that are check-pointed (memory, the image before, the file and its log), and three for what pools keep beside it.
inline constexpr std::uint64_t kStructuresOfRace = 28;

/// `--full`: structures of which a race takes a fifth of the memory that is free, and no more than in the paper. What takes long is
/// smaller: to fill a set of integers, and the lists that SixDegs searches for each edge. SSCA has the paper's 3 MB.
Sizes full_sizes(std::uint64_t free_bytes);
/// What the machine has left, caches that it can drop included; 2 GiB where it does not tell.
std::uint64_t free_memory_bytes();

}  // namespace perdure::bench::nvheaps
