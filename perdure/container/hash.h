// SPDX-License-Identifier: BSD-3-Clause
// The keyed hash of hash_map. The seed is secret and differs from map to map, so that nobody can
// prepare keys that fall into one bucket. It is part of the media format of every map: never change
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace perdure::detail {

/// Both halves of the 128-bit product, folded into one: every bit of the result depends on every
/// bit of a and b.
constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Hashes `size` bytes that `read(to, at, count)` copies out piecewise, so that a key in persistent
/// memory needs no buffer. Both factors of each product depend on the seed: a factor that an
/// attacker could make zero would wipe out everything before it.
template <class Read>
std::uint64_t hash_read(std::size_t size, std::uint64_t seed, Read&& read) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  const std::uint64_t left = seed ^ 0xd1b54a32d192ed03u;
  std::uint64_t state = fold(left, kOdd);
  std::uint64_t words[2];
  std::size_t at = 0;
  for (; size - at > sizeof(words); at += sizeof(words)) {
    read(words, at, sizeof(words));
    state = fold(words[0] ^ left, words[1] ^ state);
  }
  words[0] = words[1] = 0;
  read(words, at, size - at);
  state = fold(words[0] ^ left, words[1] ^ state);
  return fold(state ^ size, kOdd);  // the size tells a key from one with zeros appended
}

inline std::uint64_t hash_memory(const void* data, std::size_t size, std::uint64_t seed) {
  return hash_read(size, seed, [data](void* to, std::size_t at, std::size_t count) {
    if (count != 0) std::memcpy(to, static_cast<const char*>(data) + at, count);
  });
}

}  // namespace perdure::detail
