// SPDX-License-Identifier: BSD-3-Clause
// Where blocks come from: segments that are formatted, grown or reclaimed; and what is as large as blocks and segments
// themselves. Requires: blocks_mutex_ held, of all that is not a reservation.
#include <algorithm>
#include <string>

#include "perdure/heap/heap.h"
#include "perdure/heap/segment.h"

namespace perdure {

using heap_layout::BlockKind;
using heap_layout::SegmentKind;

void Heap::add_segment(std::uint64_t index, SegmentKind kind, std::uint64_t argument) {
  auto fresh = std::make_unique<Segment>(blocks_per_segment_, kind, argument);
  if (Segment* old = segments_[index].load(std::memory_order_relaxed)) {
    // A transaction that another has overtaken may still look at it. It happens once per segment.
    replaced_.reserve(replaced_.size() + 1);
    replaced_.emplace_back(old);
  }
  segments_[index].store(fresh.release(), std::memory_order_release);
  segment_count_ = std::max(segment_count_, index + 1);
}

/// First of `count` consecutive free blocks of one segment. Requires: blocks_mutex_.
std::uint64_t Heap::find_blocks(std::uint64_t count) {
  for (int attempt = 0;; ++attempt) {
    std::uint64_t free_segment = segment_count_;
    bool seen_free = false;
    for (std::uint64_t s = search_from_; s < segment_count_; ++s) {
      Segment& candidate = segment(s);
      if (candidate.kind == SegmentKind::kFree) free_segment = std::min(free_segment, s);
      if (candidate.kind != SegmentKind::kBlocks) continue;
      const std::uint64_t block = candidate.find_run(count);
      if (block < blocks_per_segment_) return s * blocks_per_segment_ + block;
      seen_free = seen_free || !candidate.is_full();
      if (!seen_free && s == search_from_ && free_segment == segment_count_) ++search_from_;
    }
    if (free_segment < segment_count_) {
      format_segment(free_segment);
    } else if (attempt > 0 || !reclaim_empty_blocks()) {
      grow_by(1);
    }
  }
}

/// Gives a free segment class words. Bitmaps come with activate_block(). Requires: blocks_mutex_.
void Heap::format_segment(std::uint64_t index) {
  services_.outdate(segment_offset(index), meta_blocks_ * kBlockBytes);
  // In records that the smallest ring can hold. A cut between them leaves class words in a segment
  // that is still free.
  constexpr std::uint64_t kWordsPerRecord = 128;
  std::vector<MaskedWrite> writes;
  for (std::uint64_t b = 0; b < blocks_per_segment_; ++b) {
    const BlockKind kind = b < meta_blocks_ ? BlockKind::kMeta : BlockKind::kFree;
    writes.push_back({class_word_offset(index * blocks_per_segment_ + b),
                      heap_layout::block_word(kind), kWholeWord});
    if (writes.size() < kWordsPerRecord) continue;
    services_.publish(writes);
    writes.clear();
  }
  writes.push_back({region_->superblock().segment_table_offset + index * kWordBytes,
                    heap_layout::segment_word(SegmentKind::kBlocks), kWholeWord});
  services_.publish(writes);
  add_segment(index, SegmentKind::kBlocks, 0);
  for (std::uint64_t b = 0; b < meta_blocks_; ++b) {
    segment(index).blocks[b].kind = BlockKind::kMeta;
    segment(index).set_free(b, false);
  }
  search_from_ = std::min(search_from_, index);
}

/// Requires: blocks_mutex_. Grows by at least `segments`, and by an eighth of the pool, so that a
/// loading pool does not sync the file's size all the time.
void Heap::grow_by(std::uint64_t segments) {
  const std::uint64_t generous =
      std::min<std::uint64_t>(std::max(segments, segment_count_ / 8), 64 + segments);
  auto grown = services_.grow(generous);
  if (!grown && grown.error().code == Code::kNoSpace && generous > segments)
    grown = services_.grow(segments);
  grown.value();
  for (std::uint64_t i = segment_count_; i < region_->segments(); ++i)
    add_segment(i, SegmentKind::kFree, 0);
}

/// Takes an empty superblock that nobody owns out of its class, from position `at` of its list on:
/// 1 + its number; 0: there is none. Until it is published as free it is nothing.
std::uint32_t Heap::take_empty_block(std::size_t size_class, std::size_t& at) {
  ClassList& list = classes_[size_class];
  const std::lock_guard lock(list.mutex);
  for (; at < list.partial.size(); ++at) {
    const std::uint32_t number = list.partial[at];
    Block& block = block_at(number - 1);
    if (block.free_objects.load(std::memory_order_relaxed) !=
        heap_layout::objects_in_block(size_class))
      continue;
    // Under the list's mutex, where a release() that is still under way looks at both.
    block.kind.store(BlockKind::kMeta, std::memory_order_relaxed);
    block.listed.store(false, std::memory_order_relaxed);
    list.partial[at] = list.partial.back();
    list.partial.pop_back();
    return number;
  }
  return 0;
}

/// Turns empty superblocks that nobody owns back into free blocks. Requires: blocks_mutex_.
bool Heap::reclaim_empty_blocks() {
  bool any = false;
  for (std::size_t c = 0; c < heap_layout::kClasses; ++c) {
    std::size_t at = 0;
    while (const std::uint32_t taken = take_empty_block(c, at)) {
      const std::uint64_t number = taken - 1;
      Block& block = block_at(number);
      const MaskedWrite write{class_word_offset(number), heap_layout::block_word(BlockKind::kFree),
                              kWholeWord};
      try {
        services_.publish({&write, 1});
      } catch (...) {  // it stays a superblock, where it was
        const std::lock_guard lock(classes_[c].mutex);
        block.listed.store(true, std::memory_order_relaxed);
        block.kind.store(BlockKind::kSmall, std::memory_order_release);
        classes_[c].partial.push_back(taken);
        throw;
      }
      block.kind.store(BlockKind::kFree, std::memory_order_relaxed);
      set_free(number, true);
      search_from_ = std::min<std::uint64_t>(search_from_, number / blocks_per_segment_);
      any = true;
    }
  }
  return any;
}

Offset Heap::reserve_extent(std::uint64_t blocks) {
  const std::lock_guard lock(blocks_mutex_);
  const std::uint64_t first = find_blocks(blocks);
  for (std::uint64_t b = 0; b < blocks; ++b) {
    block_at(first + b).kind = BlockKind::kExtent;
    set_free(first + b, false);
  }
  block_at(first).extent_blocks = static_cast<std::uint32_t>(blocks);
  return block_offset(first);
}

Offset Heap::reserve_huge(std::uint64_t segments) {
  const std::lock_guard lock(blocks_mutex_);
  for (;;) {
    std::uint64_t run = 0;
    for (std::uint64_t s = 0; s < segment_count_; ++s) {
      run = segment(s).kind == SegmentKind::kFree ? run + 1 : 0;
      if (run < segments) continue;
      const std::uint64_t first = s + 1 - segments;
      for (std::uint64_t i = first; i <= s; ++i) segment(i).kind = SegmentKind::kHugeTail;
      segment(first).kind = SegmentKind::kHuge;
      segment(first).argument = segments;
      return segment_offset(first);
    }
    grow_by(segments - run);
  }
}

}  // namespace perdure
