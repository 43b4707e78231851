// The units everything below is measured in, and arithmetic that cannot overflow unseen.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace perdure {

static_assert(std::endian::native == std::endian::little, "the media format is little-endian");

using Word = std::uint64_t;
using Offset = std::uint64_t;  // bytes from the region base

inline constexpr std::size_t kWordBytes = 8;
inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kSectorBytes = 512;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value / unit * unit;
}
constexpr bool is_aligned(std::uint64_t value, std::uint64_t unit) { return value % unit == 0; }

/// [offset, offset + bytes) lies inside [begin, end), without overflow.
constexpr bool inside(Offset offset, std::uint64_t bytes, Offset begin, Offset end) {
  return offset >= begin && offset <= end && bytes <= end - offset;
}

/// Words of persistent memory are shared between threads; every access to one goes through these,
/// so that the compiler can neither tear nor invent an access, and the sanitizers see an intended
/// race. Acquire and release, because a reader that meets a committing writer's word must then also
/// see that writer's lock (free on x86).
inline Word load_word(const Word* word) {
  return std::atomic_ref<Word>(*const_cast<Word*>(word)).load(std::memory_order_acquire);
}
inline void store_word(Word* word, Word value) {
  std::atomic_ref<Word>(*word).store(value, std::memory_order_release);
}

}  // namespace perdure
