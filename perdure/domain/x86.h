// SPDX-License-Identifier: BSD-3-Clause
// The only machine instructions that the library uses directly: write-back and non-temporal stores
// of x86-64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "perdure/base/words.h"

namespace perdure::x86 {

// Each is a type with one static function, so that a domain built from it has no branch on the path
// of a flush. Written as assembly: the compiler then needs no target flags and cannot move other
// stores across.
struct Clwb {
  static constexpr const char* kName = "clwb";
  static void write_back(const void* line) {
    asm volatile("clwb %0" : : "m"(*static_cast<const volatile char*>(line)) : "memory");
  }
};
struct Clflushopt {
  static constexpr const char* kName = "clflushopt";
  static void write_back(const void* line) {
    asm volatile("clflushopt %0" : : "m"(*static_cast<const volatile char*>(line)) : "memory");
  }
};
struct Clflush {
  static constexpr const char* kName = "clflush";
  static void write_back(const void* line) {
    asm volatile("clflush %0" : : "m"(*static_cast<const volatile char*>(line)) : "memory");
  }
};

inline void sfence() { asm volatile("sfence" : : : "memory"); }

/// One word past the cache.
inline void movnti(Word* home, Word value) {
  asm volatile("movnti %1, %0" : "=m"(*home) : "r"(value) : "memory");
}

/// One whole, aligned line past the cache, as four 16-byte stores (SSE2 is part of x86-64).
inline void stream_line(Word* line, const Word* words) {
  asm volatile(
      "movdqu (%1), %%xmm0\n\tmovdqu 16(%1), %%xmm1\n\tmovdqu 32(%1), %%xmm2\n\tmovdqu 48(%1), "
      "%%xmm3\n\t"
      "movntdq %%xmm0, (%0)\n\tmovntdq %%xmm1, 16(%0)\n\tmovntdq %%xmm2, 32(%0)\n\tmovntdq %%xmm3, "
      "48(%0)"
      :
      : "r"(line), "r"(words)
      : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}

enum class WriteBack : std::uint8_t { kClwb, kClflushopt, kClflush };

/// The best write-back instruction of this CPU, by cpuid leaf 7.
WriteBack best_write_back() noexcept;

}  // namespace perdure::x86
