// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/full_sizes.h"

#include <algorithm>
#include <fstream>

namespace perdure::bench::nvheaps {

Sizes full_sizes(std::uint64_t free_bytes) {
  constexpr std::uint64_t kPaperWords = std::uint64_t{1} << 30;  // 8 GB
  constexpr std::uint64_t kMostIntegers = 4'000'000;             // filled in a minute or two a way
  const std::uint64_t each = free_bytes / 5 / kStructuresOfRace;
  Sizes sizes;
  sizes.array_words = std::clamp<std::uint64_t>(each / 8, sizes.array_words, kPaperWords);
  sizes.keys = std::clamp<std::uint64_t>(each / kBytesOfKey, sizes.keys, kMostIntegers);
  sizes.vertices = 16'384;
  sizes.edges = 131'072;
  sizes.scale = 14;
  return sizes;
}

std::uint64_t free_memory_bytes() {
  std::ifstream told("/proc/meminfo");
  for (std::string name; told >> name;) {
    std::uint64_t kib = 0;
    if (name == "MemAvailable:" && told >> kib) return kib * 1024;
    told.ignore(200, '\n');
  }
  return std::uint64_t{2} << 30;
}

}  // namespace perdure::bench::nvheaps
