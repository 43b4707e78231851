// SPDX-License-Identifier: BSD-3-Clause
// The paper's three micro-benchmarks as sources of records that need no emulator: an array of
// 64-byte blocks, of each of which one word is read or written, as many reads as writes.
//
//   random     32 f windows of 16 MB, one after the other; in each, 49,152 times: read a random
//              block, write a random block
//   streaming  96 f MB, once from begin to end: read a random block, write the next one
//   sliding    a window of 16 MB whose parts of 2,048 blocks are first visited one after the other
//              (4,096 pairs each); then 3 f steps: it moves on by 2,048 blocks, and 524,288 times a
//              random block of it is read and a random block written
//
// The sizes and the order are those of the authors' programs (array_rand, array_strm, array_slid);
// the paper says only what random, streaming and sliding mean.
//
// Instructions between two accesses are counted in the code that gcc 12 -O2 makes of the plain loop
//   for (...) { if (array[draw()].word == 'R') ++found;  array[draw()].word = 'R'; }
// with rand() of glibc 2.36, as in the authors' programs: 117 a pair, counted by running it, in the
// streaming loop 61. Of them 30 loads and 20 stores (15 and 10) are rand()'s own and always hit the
// first cache. Which blocks are drawn is xorshift's choice.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "papers/thynvm/memory/access.h"

namespace perdure::memory {

enum class Pattern : std::uint8_t { kRandom, kStreaming, kSliding };
inline constexpr Pattern kPatterns[] = {Pattern::kRandom, Pattern::kStreaming, Pattern::kSliding};
constexpr std::string_view pattern_name(Pattern pattern) {
  switch (pattern) {
    case Pattern::kRandom: return "random";
    case Pattern::kStreaming: return "streaming";
    case Pattern::kSliding: return "sliding";
  }
  return "unknown";
}

class MicroBenchmark final : public AccessSource {
 public:
  static constexpr std::uint64_t kArray = 0x10000000;  // its address
  static constexpr std::uint64_t kCode = 0x400000;     // of the loop, which is one line
  static constexpr std::uint64_t kState = 0x600000;    // of rand(): four lines

  /// Requires: factor >= 1 (the f above).
  MicroBenchmark(Pattern pattern, unsigned factor, std::uint64_t seed);

  std::span<const Access> next() override;

  std::uint64_t array_bytes() const { return array_bytes_; }
  /// Of a read and a write each.
  std::uint64_t pairs() const;

 private:
  /// So many pairs in one window of blocks.
  struct Phase {
    std::uint64_t first_block;
    std::uint64_t blocks;
    std::uint64_t pairs;
  };

  std::uint64_t random_block(const Phase& phase);
  void call_rand();

  bool sequential_writes_;
  unsigned load_gap_;
  unsigned store_gap_;
  std::uint64_t random_;
  std::uint64_t array_bytes_ = 0;
  std::vector<Phase> phases_;
  std::size_t phase_ = 0;
  std::uint64_t pair_ = 0;  // within the phase
  bool begun_ = false;
  std::vector<Access> batch_;
};

}  // namespace perdure::memory
