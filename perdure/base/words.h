// SPDX-License-Identifier: BSD-3-Clause
// The units everything below is measured in, and arithmetic that cannot overflow unseen.
#pragma once

#if __cplusplus < 202002L
#error "perdure: these headers are C++20; compile with -std=c++20"
#endif

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "perdure/base/shared.h"

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

/// The one record that heap, engine, log and recovery exchange: "in the word at `offset`, the bits
/// of `mask` become those of `value`." On media and in memory its address is a byte offset from the
/// region base, a multiple of 8.
struct MaskedWrite {
  Offset offset;
  Word value;
  Word mask;
};
inline constexpr Word kWholeWord = ~Word{0};

/// Words of persistent memory are shared between threads; every access to one goes through these,
/// so that the compiler can neither tear nor invent an access, and the sanitizers see an intended
/// race. Acquire and release, because a reader that meets a committing writer's word must then also
/// see that writer's lock (free on x86).
inline Word load_word(const Word* word) {
  return SharedRef<Word>(*const_cast<Word*>(word)).load(std::memory_order_acquire);
}
inline void store_word(Word* word, Word value) {
  SharedRef<Word>(*word).store(value, std::memory_order_release);
}

/// The same for `bytes` (at most 8) bytes anywhere, touching no other byte: in naturally aligned
/// pieces.
inline Word load_exact(const std::byte* from, std::size_t bytes) {
  Word value = 0;
  for (std::size_t done = 0; done < bytes;) {
    const auto at = reinterpret_cast<std::uintptr_t>(from + done);
    Word piece = 0;
    std::size_t step = 1;
    if (at % 8 == 0 && bytes - done == 8) {
      return load_word(reinterpret_cast<const Word*>(from));
    } else if (at % 4 == 0 && bytes - done >= 4) {
      piece = __atomic_load_n(reinterpret_cast<const std::uint32_t*>(at), __ATOMIC_ACQUIRE);
      step = 4;
    } else if (at % 2 == 0 && bytes - done >= 2) {
      piece = __atomic_load_n(reinterpret_cast<const std::uint16_t*>(at), __ATOMIC_ACQUIRE);
      step = 2;
    } else {
      piece = __atomic_load_n(reinterpret_cast<const std::uint8_t*>(at), __ATOMIC_ACQUIRE);
    }
    value |= piece << (8 * done);
    done += step;
  }
  return value;
}
inline void store_exact(std::byte* to, Word value, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const auto at = reinterpret_cast<std::uintptr_t>(to + done);
    const Word piece = value >> (8 * done);
    if (at % 8 == 0 && bytes - done == 8) {
      __atomic_store_n(reinterpret_cast<Word*>(to), value, __ATOMIC_RELEASE);
      return;
    }
    if (at % 4 == 0 && bytes - done >= 4) {
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(at), static_cast<std::uint32_t>(piece),
                       __ATOMIC_RELEASE);
      done += 4;
    } else if (at % 2 == 0 && bytes - done >= 2) {
      __atomic_store_n(reinterpret_cast<std::uint16_t*>(at), static_cast<std::uint16_t>(piece),
                       __ATOMIC_RELEASE);
      done += 2;
    } else {
      __atomic_store_n(reinterpret_cast<std::uint8_t*>(at), static_cast<std::uint8_t>(piece),
                       __ATOMIC_RELEASE);
      done += 1;
    }
  }
}

/// Copies bytes that others may be writing. The caller looks afterwards whether anybody was, and if
/// so uses none of them.
inline void copy_in_doubt(void* to, const void* from, std::size_t bytes) {
  if constexpr (!kCopiesWords) {
    // Wide moves: what was put together by words, and is then moved on by vectors, waits for its
    // stores to leave the core's buffer.
    std::memcpy(to, from, bytes);
    // Orders: the bytes before the caller's look.
    std::atomic_thread_fence(std::memory_order_acquire);
    return;
  }
  // Atomically, so that this race is seen to be intended.
  auto* out = static_cast<std::byte*>(to);
  for (const auto* in = static_cast<const std::byte*>(from); bytes > 0;) {
    const std::size_t to_word_end = kWordBytes - reinterpret_cast<std::uintptr_t>(in) % kWordBytes;
    const std::size_t here = to_word_end < bytes ? to_word_end : bytes;
    const Word piece = load_exact(in, here);
    std::memcpy(out, &piece, here);
    in += here;
    out += here;
    bytes -= here;
  }
}
/// The mask of `bytes` bytes of a word from byte `skip` on.
constexpr Word byte_mask(std::size_t skip, std::size_t bytes) {
  return (bytes == kWordBytes ? ~Word{0} : (Word{1} << (8 * bytes)) - 1) << (8 * skip);
}

}  // namespace perdure
