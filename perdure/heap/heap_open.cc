// SPDX-License-Identifier: BSD-3-Clause
// Opening a heap: every word of its metadata is read and checked.
#include <algorithm>
#include <string>

#include "perdure/heap/heap.h"
#include "perdure/heap/segment.h"

namespace perdure {

using heap_layout::BlockKind;
using heap_layout::kBitsPerWord;
using heap_layout::SegmentKind;

Result<void> Heap::open(std::vector<std::string>* findings) {
  const std::lock_guard lock(blocks_mutex_);
  const std::uint64_t count = region_->segments();
  std::uint64_t huge_tail = 0;  // followers that the last kHuge segment still announces
  for (std::uint64_t i = 0; i < count; ++i) {
    const Offset at = region_->superblock().segment_table_offset + i * kWordBytes;
    const auto payload = unseal(load_word(region_->word(at)), kSaltSegment);
    std::string wrong;
    SegmentKind kind = SegmentKind::kFree;
    std::uint64_t argument = 0;
    if (!payload || heap_layout::kind_of(*payload) > 4) {
      wrong = "fails its check";
    } else {
      kind = static_cast<SegmentKind>(heap_layout::kind_of(*payload));
      argument = heap_layout::argument_of(*payload);
      const bool holds_tables = region_->holds_tables(i);
      if (kind == SegmentKind::kTables && !holds_tables) kind = SegmentKind::kFree;
      if (holds_tables && kind != SegmentKind::kTables)
        wrong = "does not say that tables lie in it";
      if ((kind == SegmentKind::kHugeTail) != (huge_tail > 0))
        wrong = "breaks the chain of a huge object";
      if (kind == SegmentKind::kHuge && (argument == 0 || argument > count - i))
        wrong = "names a huge object that ends outside";
    }
    if (!wrong.empty()) {
      std::string message =
          region_->path() + ": heap segment " + std::to_string(i) + "'s table word (byte " +
          std::to_string(at) + ") " + wrong +
          "; the segment's objects cannot be told apart, restore the pool from a backup";
      if (findings == nullptr) return Error{Code::kCorrupt, std::move(message)};
      findings->push_back(std::move(message));
      kind = SegmentKind::kHugeTail;  // never allocated from
    }
    add_segment(i, kind, argument);
    huge_tail = kind == SegmentKind::kHuge ? argument - 1 : (huge_tail > 0 ? huge_tail - 1 : 0);
    if (kind == SegmentKind::kBlocks) {
      if (auto opened = open_segment(i, findings); !opened) return opened;
    }
  }
  return {};
}

Result<void> Heap::open_segment(std::uint64_t index, std::vector<std::string>* findings) {
  Result<void> result;
  const auto report = [&](Offset at, const std::string& what) {
    std::string message = region_->path() + ": heap segment " + std::to_string(index) + ", byte " +
                          std::to_string(at) + ": " + what + "; restore the pool from a backup";
    if (findings == nullptr) {
      result = Error{Code::kCorrupt, std::move(message)};
      return false;
    }
    findings->push_back(std::move(message));
    return true;
  };
  const std::uint64_t first = index * blocks_per_segment_;
  std::uint64_t skip = 0;  // blocks inside the last extent
  for (std::uint64_t i = 0; i < blocks_per_segment_; ++i) {
    const std::uint64_t number = first + i;
    Block& block = block_at(number);
    const Offset at = class_word_offset(number);
    const auto payload = unseal(load_word(region_->word(at)), kSaltBlock);
    const std::uint8_t raw_kind = payload ? heap_layout::kind_of(*payload) : 0xff;
    const std::uint64_t argument = payload ? heap_layout::argument_of(*payload) : 0;
    const auto kind = static_cast<BlockKind>(raw_kind);
    const bool valid =
        payload && raw_kind <= 3 && (kind == BlockKind::kMeta) == (i < meta_blocks_) &&
        (kind != BlockKind::kSmall || argument < heap_layout::kClasses) &&
        (kind != BlockKind::kExtent || (argument >= 1 && argument <= blocks_per_segment_ - i)) &&
        (skip == 0 || kind == BlockKind::kFree);
    if (!valid) {
      if (!report(at, "the class word of block " + std::to_string(i) + " is damaged"))
        return result;
      block.kind = BlockKind::kMeta;  // never allocated from
      skip = 0;
      continue;
    }
    if (skip > 0) {
      --skip;
      block.kind = BlockKind::kExtent;
      continue;
    }
    block.kind = kind;
    if (kind == BlockKind::kExtent) {
      block.extent_blocks = static_cast<std::uint32_t>(argument);
      skip = argument - 1;
    }
    if (kind != BlockKind::kSmall) continue;

    block.size_class = static_cast<std::uint8_t>(argument);
    const std::size_t objects = heap_layout::objects_in_block(argument);
    std::uint32_t free_objects = 0;
    for (std::size_t w = 0; w * kBitsPerWord < objects; ++w) {
      const Offset bitmap_at = bitmap_offset(number) + w * kWordBytes;
      const Word word = load_word(region_->word(bitmap_at));
      const std::size_t here = std::min(kBitsPerWord, objects - w * kBitsPerWord);
      const std::uint32_t in_use = static_cast<std::uint32_t>(word);
      const std::uint32_t existing = here == 32 ? ~0u : (1u << here) - 1;
      if (!heap_layout::bitmap_word_valid(word) || (in_use & ~existing) != 0) {
        if (!report(bitmap_at, "a bitmap word of block " + std::to_string(i) + " is damaged"))
          return result;
        continue;  // its objects count as live
      }
      const std::uint64_t free_bits = ~in_use & existing;
      block.bits[w / 2].free.fetch_or(free_bits << (w % 2 * kBitsPerWord),
                                      std::memory_order_relaxed);
      free_objects += static_cast<std::uint32_t>(std::popcount(free_bits));
    }
    block.free_objects = free_objects;
    if (free_objects > 0) {
      block.listed = true;
      classes_[argument].partial.push_back(static_cast<std::uint32_t>(number + 1));
    }
  }
  for (std::uint64_t i = 0; i < blocks_per_segment_; ++i)
    set_free(first + i, block_at(first + i).kind == BlockKind::kFree);
  return result;
}

}  // namespace perdure
