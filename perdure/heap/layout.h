// SPDX-License-Identifier: BSD-3-Clause
// What the heap keeps on media. Metadata stands apart from data and checks itself, word by word:
// every class and segment word is sealed, and every bitmap word holds its 32 bits twice, once
// inverted, so that a zeroed, flipped or overwritten word is found at open and by `perdure check`,
// never used.
//
//   segment table   one sealed word per segment (outside the heap, see region/layout.h)
//   a kBlocks segment: block 0 … meta_blocks-1 hold
//       class words  blocks × sealed word: what each 8 KiB block is
//       bitmaps      blocks × 16 words, 32 allocation bits each
//     and the other blocks hold data
//   a kHuge segment and its kHugeTail followers hold one object, no metadata
//   a kTables segment holds tables of the region; one in which none lies any more is free
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "perdure/region/layout.h"

namespace perdure::heap_layout {

enum class SegmentKind : std::uint8_t {
  kFree = 0,
  kBlocks = 1,
  kHuge = 2,
  kHugeTail = 3,
  kTables = 4,
};
enum class BlockKind : std::uint8_t {
  kFree = 0,
  kMeta = 1,
  kSmall = 2,   // argument: size class
  kExtent = 3,  // argument: blocks; the followers' class words stay kFree and are skipped
};

constexpr Word segment_word(SegmentKind kind, std::uint64_t argument = 0) {
  return seal((std::uint64_t{static_cast<std::uint8_t>(kind)} << 40) | argument, kSaltSegment);
}
constexpr Word block_word(BlockKind kind, std::uint64_t argument = 0) {
  return seal((std::uint64_t{static_cast<std::uint8_t>(kind)} << 40) | argument, kSaltBlock);
}
constexpr std::uint8_t kind_of(std::uint64_t payload) {
  return static_cast<std::uint8_t>(payload >> 40);
}
constexpr std::uint64_t argument_of(std::uint64_t payload) {
  return payload & ((std::uint64_t{1} << 40) - 1);
}

// Steps of 16 bytes up to 128, of at most 33 % up to 2720 (the last step, 50 %, halves a block);
// above: extents of blocks.
inline constexpr std::array<std::uint16_t, 25> kClassBytes = {
    16,  32,  48,  64,  80,  96,  112,  128,  160,  192,  224,  256, 320,
    384, 448, 512, 640, 768, 896, 1024, 1360, 1632, 2048, 2720, 4096};
inline constexpr std::size_t kClasses = kClassBytes.size();
inline constexpr std::size_t kMaxSmallBytes = kClassBytes.back();
inline constexpr std::size_t kBitsPerWord = 32;
inline constexpr std::size_t kBitmapWords = kBlockBytes / kClassBytes.front() / kBitsPerWord;

/// The smallest class that holds `bytes`. Requires: 1 <= bytes <= kMaxSmallBytes.
constexpr std::size_t class_of(std::size_t bytes) {
  constexpr auto kTable = [] {
    std::array<std::uint8_t, kMaxSmallBytes / 16> table{};
    std::size_t c = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
      while (kClassBytes[c] < (i + 1) * 16) ++c;
      table[i] = static_cast<std::uint8_t>(c);
    }
    return table;
  }();
  return kTable[(bytes - 1) / 16];
}
constexpr std::size_t objects_in_block(std::size_t size_class) {
  return kBlockBytes / kClassBytes[size_class];
}

constexpr Word bitmap_word(std::uint32_t bits) { return Word{bits} | (Word{~bits} << 32); }
constexpr bool bitmap_word_valid(Word word) {
  return static_cast<std::uint32_t>(word) == static_cast<std::uint32_t>(~(word >> 32));
}
constexpr Word bitmap_mask(unsigned bit) { return (Word{1} << bit) | (Word{1} << (bit + 32)); }

constexpr std::uint64_t blocks_per_segment(const Geometry& g) {
  return g.segment_bytes / kBlockBytes;
}
constexpr std::uint64_t meta_blocks(const Geometry& g) {
  const std::uint64_t bytes = blocks_per_segment(g) * (kWordBytes + kBitmapWords * kWordBytes);
  return round_up(bytes, kBlockBytes) / kBlockBytes;
}

/// The fewest bytes for which an object takes as many as `usable`.
constexpr std::uint64_t least_bytes(const Geometry& g, std::uint64_t usable) {
  if (usable <= kMaxSmallBytes) {
    const std::size_t size_class = class_of(usable);
    return size_class == 0 ? 1 : kClassBytes[size_class - 1] + 1u;
  }
  const std::uint64_t step = usable < g.segment_bytes ? kBlockBytes : g.segment_bytes;
  return std::max<std::uint64_t>(usable - step, kMaxSmallBytes) + 1;
}

}  // namespace perdure::heap_layout
