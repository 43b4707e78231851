// SPDX-License-Identifier: BSD-3-Clause
// Finds which blocks of a page changed. The end of an epoch does this to each written page, while
// the program waits.
//
// Pages of the second-level cache take 0.10 us with AVX2, 0.14 us with SSE2; from memory it is the
// first lines of each page that take long (the processor fetches ahead only within a page), so the
// caller names the page that comes next: 0.62 us become 0.50. (Xeon of 2023; a loop over words took
// 0.19 and 0.75 us.)
//
// This is also compiled into code that runs inside other programs, so it uses no library but the
// compiler's own.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace perdure::checkpoint {

/// Compares two pages of 4096 bytes. Bit k of the result: their blocks k, of 64 bytes, differ.
using PageDifference = std::uint64_t (*)(const std::byte* a, const std::byte* b);

#if defined(__x86_64__)

inline std::uint64_t page_difference_sse2(const std::byte* a, const std::byte* b) {
  std::uint64_t mask = 0;
  for (unsigned block = 0; block < 64; ++block) {
    __m128i difference = _mm_setzero_si128();
    for (unsigned part = 0; part < 4; ++part, a += sizeof(__m128i), b += sizeof(__m128i)) {
      const __m128i left = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
      const __m128i right = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
      difference = _mm_or_si128(difference, _mm_xor_si128(left, right));
    }
    const __m128i equal = _mm_cmpeq_epi8(difference, _mm_setzero_si128());
    mask |= std::uint64_t{_mm_movemask_epi8(equal) != 0xffff} << block;
  }
  return mask;
}

__attribute__((target("avx2"))) inline std::uint64_t page_difference_avx2(const std::byte* a,
                                                                          const std::byte* b) {
  std::uint64_t mask = 0;
  for (unsigned block = 0; block < 64; ++block) {
    __m256i difference = _mm256_setzero_si256();
    for (unsigned part = 0; part < 2; ++part, a += sizeof(__m256i), b += sizeof(__m256i)) {
      const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a));
      const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
      difference = _mm256_or_si256(difference, _mm256_xor_si256(left, right));
    }
    mask |= std::uint64_t{_mm256_testz_si256(difference, difference) == 0} << block;
  }
  return mask;
}

/// Returns the fastest implementation for this processor.
inline PageDifference best_page_difference() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") != 0 ? page_difference_avx2 : page_difference_sse2;
}

#else

inline std::uint64_t page_difference_words(const std::byte* a, const std::byte* b) {
  std::uint64_t mask = 0;
  for (unsigned block = 0; block < 64; ++block) {
    std::uint64_t difference = 0;
    for (unsigned part = 0; part < 8; ++part, a += 8, b += 8) {
      std::uint64_t left = 0;
      std::uint64_t right = 0;
      __builtin_memcpy(&left, a, 8);
      __builtin_memcpy(&right, b, 8);
      difference |= left ^ right;
    }
    mask |= std::uint64_t{difference != 0} << block;
  }
  return mask;
}

inline PageDifference best_page_difference() { return page_difference_words; }

#endif

/// Prefetches a page that is compared or copied soon. Any address is allowed.
inline void fetch_page_early(const std::byte* page) {
  for (unsigned line = 0; line < 8; ++line) __builtin_prefetch(page + 64 * line);
}

}  // namespace perdure::checkpoint
