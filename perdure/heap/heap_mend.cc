// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/heap/heap_mend.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "perdure/base/crc32c.h"
#include "perdure/heap/layout.h"

namespace perdure {
namespace {

using heap_layout::argument_of;
using heap_layout::BlockKind;
using heap_layout::kBitmapWords;
using heap_layout::kBitsPerWord;
using heap_layout::kind_of;
using heap_layout::SegmentKind;

/// What the word says, or said before one of its bits changed, as far as that makes sense.
template <class MakesSense>
std::optional<std::uint64_t> payload_of(Word word, std::uint16_t salt, MakesSense makes_sense) {
  if (const auto payload = unseal(word, salt); payload && makes_sense(*payload)) return payload;
  std::optional<std::uint64_t> found;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const auto payload = unseal(word ^ (Word{1} << bit), salt);
    if (!payload || !makes_sense(*payload)) continue;
    if (found) return {};
    found = payload;
  }
  return found;
}

class HeapMender {
 public:
  explicit HeapMender(Region& region)
      : region_(&region),
        super_(region.superblock()),
        segments_(region.segments()),
        blocks_(heap_layout::blocks_per_segment(super_.geometry)),
        meta_blocks_(heap_layout::meta_blocks(super_.geometry)) {}

  MendedHeap run() {
    std::uint64_t tail = 0;  // followers that the last huge object still has
    for (std::uint64_t i = 0; i < segments_; ++i) {
      const std::uint64_t payload = mend_segment(i, tail);
      const auto kind = static_cast<SegmentKind>(kind_of(payload));
      tail = kind == SegmentKind::kHuge ? argument_of(payload) - 1 : (tail > 0 ? tail - 1 : 0);
      if (kind == SegmentKind::kBlocks) mend_blocks(i);
    }
    return std::move(done_);
  }

 private:
  Word* table_word(std::uint64_t segment) const {
    return region_->word(super_.segment_table_offset + segment * kWordBytes);
  }
  Offset begin_of(std::uint64_t segment) const {
    return super_.heap_offset + segment * super_.geometry.segment_bytes;
  }
  Word* class_word(std::uint64_t segment, std::uint64_t block) const {
    return region_->word(begin_of(segment) + block * kWordBytes);
  }
  Word* bitmap(std::uint64_t segment, std::uint64_t block) const {
    return region_->word(begin_of(segment) + (blocks_ + block * kBitmapWords) * kWordBytes);
  }
  std::string at(std::uint64_t segment, const Word* word) const {
    const auto offset = reinterpret_cast<const std::byte*>(word) - region_->base();
    return "heap segment " + std::to_string(segment) + ", byte " + std::to_string(offset) + ": ";
  }
  static std::uint64_t payload(SegmentKind kind, std::uint64_t argument) {
    return *unseal(heap_layout::segment_word(kind, argument), kSaltSegment);
  }

  std::uint64_t mend_segment(std::uint64_t i, std::uint64_t tail) {
    const bool holds_tables = region_->holds_tables(i);
    Word* const word = table_word(i);
    const auto makes_sense = [&](std::uint64_t said) {
      const auto kind = static_cast<SegmentKind>(kind_of(said));
      if (kind_of(said) > 4 || holds_tables != (kind == SegmentKind::kTables)) return false;
      if ((kind == SegmentKind::kHugeTail) != (tail > 0)) return false;
      return kind == SegmentKind::kHuge
                 ? argument_of(said) >= 1 && argument_of(said) <= segments_ - i
                 : argument_of(said) == 0;
    };
    const auto now = unseal(*word, kSaltSegment);
    // A segment that held tables once, and holds none any more, is free.
    if (now && !holds_tables && tail == 0 &&
        kind_of(*now) == static_cast<std::uint8_t>(SegmentKind::kTables))
      return payload(SegmentKind::kFree, 0);
    if (now && makes_sense(*now)) return *now;
    std::optional<std::uint64_t> said = payload_of(*word, kSaltSegment, makes_sense);
    if (!said && tail > 0) said = payload(SegmentKind::kHugeTail, 0);
    if (!said && holds_tables) said = payload(SegmentKind::kTables, 0);
    if (!said && seems_to_have_blocks(i)) said = payload(SegmentKind::kBlocks, 0);
    if (said) {
      done_.mended.push_back(at(i, word) + "the segment's table word");
    } else {
      std::uint64_t count = 1;
      while (i + count < segments_ && is_tail(i + count)) ++count;
      said = payload(SegmentKind::kHuge, count);
      done_.kept.push_back(at(i, word) + "what " + std::to_string(count) +
                           " segments hold is not known; they are kept as one object");
    }
    *word = seal(*said, kSaltSegment);
    return *said;
  }
  bool is_tail(std::uint64_t segment) const {
    const auto said = unseal(*table_word(segment), kSaltSegment);
    return said && kind_of(*said) == static_cast<std::uint8_t>(SegmentKind::kHugeTail);
  }
  /// Its first class words say that they are metadata, which data would not.
  bool seems_to_have_blocks(std::uint64_t segment) const {
    for (std::uint64_t b = 0; b < meta_blocks_; ++b) {
      const auto said = unseal(*class_word(segment, b), kSaltBlock);
      if (!said || kind_of(*said) != static_cast<std::uint8_t>(BlockKind::kMeta)) return false;
    }
    return true;
  }

  bool makes_sense(std::uint64_t said, std::uint64_t block) const {
    const auto kind = static_cast<BlockKind>(kind_of(said));
    const std::uint64_t argument = argument_of(said);
    if (kind_of(said) > 3 || (kind == BlockKind::kMeta) != (block < meta_blocks_)) return false;
    if (kind == BlockKind::kSmall) return argument < heap_layout::kClasses;
    if (kind == BlockKind::kExtent) return argument >= 1 && argument <= blocks_ - block;
    return true;
  }

  void mend_blocks(std::uint64_t segment) {
    std::uint64_t skip = 0;  // blocks inside the last extent
    for (std::uint64_t b = 0; b < blocks_; ++b) {
      Word* const word = class_word(segment, b);
      const auto now = unseal(*word, kSaltBlock);
      std::optional<std::uint64_t> said;
      if (now && makes_sense(*now, b) &&
          (skip == 0 || kind_of(*now) == static_cast<std::uint8_t>(BlockKind::kFree))) {
        said = now;
      } else if (b < meta_blocks_ || skip > 0) {
        said = unseal(heap_layout::block_word(skip > 0 ? BlockKind::kFree : BlockKind::kMeta),
                      kSaltBlock);
        done_.mended.push_back(at(segment, word) + "the class word of a block");
      } else {
        said = payload_of(*word, kSaltBlock, [&](std::uint64_t p) { return makes_sense(p, b); });
        if (said) done_.mended.push_back(at(segment, word) + "the class word of a block");
      }
      if (!said && (said = by_root(segment, b)))
        done_.mended.push_back(at(segment, word) + "the class word of a block, as a root tells");
      if (!said) {
        // Free words may follow because the blocks are free, or because they are inside an extent.
        std::uint64_t count = 1;
        while (b + count < blocks_ &&
               *class_word(segment, b + count) == heap_layout::block_word(BlockKind::kFree))
          ++count;
        said = unseal(heap_layout::block_word(BlockKind::kExtent, count), kSaltBlock);
        done_.kept.push_back(at(segment, word) + "what " + std::to_string(count) +
                             " blocks hold is not known; they are kept as one object");
      }
      *word = seal(*said, kSaltBlock);
      const auto kind = static_cast<BlockKind>(kind_of(*said));
      if (kind == BlockKind::kSmall) mend_bitmap(segment, b, argument_of(*said));
      skip = kind == BlockKind::kExtent ? argument_of(*said) - 1 : (skip > 0 ? skip - 1 : 0);
    }
  }

  /// What a root says of the block in which its object is.
  std::optional<std::uint64_t> by_root(std::uint64_t segment, std::uint64_t block) const {
    const Offset begin = begin_of(segment) + block * kBlockBytes;
    const auto* const roots =
        reinterpret_cast<const RootEntry*>(region_->base() + super_.root_offset);
    for (std::uint32_t i = 0; i < super_.geometry.root_entries; ++i) {
      const RootEntry& root = roots[i];
      if (root.bytes == 0 || !inside(root.object, 1, begin, begin + kBlockBytes) ||
          root.check != crc32c(&root, offsetof(RootEntry, check)))
        continue;
      const std::uint64_t blocks = round_up(root.bytes, kBlockBytes) / kBlockBytes;
      if (root.bytes > heap_layout::kMaxSmallBytes) {
        if (root.object != begin || blocks > blocks_ - block) continue;
        return unseal(heap_layout::block_word(BlockKind::kExtent, blocks), kSaltBlock);
      }
      const std::size_t size_class = heap_layout::class_of(root.bytes);
      if (is_aligned(root.object - begin, heap_layout::kClassBytes[size_class]))
        return unseal(heap_layout::block_word(BlockKind::kSmall, size_class), kSaltBlock);
    }
    return {};
  }

  void mend_bitmap(std::uint64_t segment, std::uint64_t block, std::uint64_t size_class) {
    const std::size_t objects = heap_layout::objects_in_block(size_class);
    for (std::size_t w = 0; w * kBitsPerWord < objects; ++w) {
      Word* const word = bitmap(segment, block) + w;
      const std::size_t here = std::min(kBitsPerWord, objects - w * kBitsPerWord);
      const std::uint32_t existing = here == 32 ? ~0u : (1u << here) - 1;
      const auto bits = static_cast<std::uint32_t>(*word);
      const auto again = static_cast<std::uint32_t>(~(*word >> 32));
      if (bits == again && (bits & ~existing) == 0) continue;
      // Every bit is there twice. Where one differs the others are as they were.
      const bool one = std::popcount(bits ^ again) == 1;
      const std::uint32_t in_use = (one ? bits | again : ~0u) & existing;
      const std::size_t unsure = one ? 1 : here;
      done_.kept.push_back(at(segment, word) + "which of " + std::to_string(unsure) +
                           " objects are in use is not known; all are kept");
      *word = heap_layout::bitmap_word(in_use);
    }
  }

  Region* region_;
  const Superblock& super_;
  std::uint64_t segments_;
  std::uint64_t blocks_;
  std::uint64_t meta_blocks_;
  MendedHeap done_;
};

}  // namespace

MendedHeap mend_heap(Region& region) { return HeapMender(region).run(); }

}  // namespace perdure
