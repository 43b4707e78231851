// SPDX-License-Identifier: BSD-3-Clause
// Where blocks come from: segments that are formatted, grown or reclaimed; and objects as large as
// blocks and segments. Everything but reservations requires that blocks_mutex_ is held.
#include <algorithm>

#include "perdure/heap/heap.h"
#include "perdure/heap/segment.h"

namespace perdure {

using heap_layout::BlockKind;
using heap_layout::kBitsPerWord;
using heap_layout::SegmentKind;

void Heap::add_segment(std::uint64_t index, SegmentKind kind, std::uint64_t argument) {
  auto fresh = std::make_unique<Segment>(blocks_per_segment_, kind, argument);
  if (Segment* old = segments_[index].load(std::memory_order_relaxed)) {
    // It is kept, because a transaction with an older snapshot may still look at it. This happens
    // once per segment.
    replaced_.reserve(replaced_.size() + 1);
    replaced_.emplace_back(old);
  }
  segments_[index].store(fresh.release(), std::memory_order_release);
  segment_count_ = std::max(segment_count_, index + 1);
}

// ---- looking ------------------------------------------------------------------------------------

/// First of `count` consecutive free blocks of one segment.
std::optional<std::uint64_t> Heap::find_blocks(std::uint64_t count) {
  bool passed_free = false;
  for (std::uint64_t s = search_from_; s < segment_count_; ++s) {
    Segment& candidate = segment(s);
    passed_free = passed_free || candidate.kind == SegmentKind::kFree;
    if (candidate.kind != SegmentKind::kBlocks) continue;
    const std::uint64_t block = candidate.find_run(count);
    if (block < blocks_per_segment_) return s * blocks_per_segment_ + block;
    passed_free = passed_free || !candidate.is_full();
    if (!passed_free && s == search_from_) ++search_from_;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Heap::find_free_segment() const {
  for (std::uint64_t s = search_from_; s < segment_count_; ++s) {
    if (segment(s).kind == SegmentKind::kFree) return s;
  }
  return std::nullopt;
}

/// First of `count` consecutive free segments; else how many are missing at the end.
std::optional<std::uint64_t> Heap::find_segments(std::uint64_t count,
                                                 std::uint64_t& missing) const {
  std::uint64_t run = 0;
  for (std::uint64_t s = 0; s < segment_count_; ++s) {
    run = segment(s).kind == SegmentKind::kFree ? run + 1 : 0;
    if (run == count) return s + 1 - count;
  }
  missing = count - run;
  return std::nullopt;
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

// ---- large objects ------------------------------------------------------------------------------

Offset Heap::reserve_extent(std::uint64_t blocks) {
  const std::lock_guard lock(blocks_mutex_);
  const auto first = find_blocks(blocks);
  if (!first) return 0;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    block_at(*first + b).kind = BlockKind::kExtent;
    set_free(*first + b, false);
  }
  block_at(*first).extent_blocks = static_cast<std::uint32_t>(blocks);
  return block_offset(*first);
}

std::uint64_t Heap::huge_segments(std::uint64_t bytes) const {
  return (bytes + geometry().segment_bytes - 1) / geometry().segment_bytes;
}

Offset Heap::reserve_huge(std::uint64_t segments) {
  const std::lock_guard lock(blocks_mutex_);
  std::uint64_t missing = 0;
  const auto first = find_segments(segments, missing);
  if (!first) return 0;
  for (std::uint64_t i = 1; i < segments; ++i) segment(*first + i).kind = SegmentKind::kHugeTail;
  segment(*first).kind = SegmentKind::kHuge;
  segment(*first).argument = segments;
  return segment_offset(*first);
}

// ---- changes ------------------------------------------------------------------------------------

Heap::Change::Change(Heap& heap, HeapCache& cache, std::uint64_t bytes)
    : heap_(&heap), cache_(&cache), lock_(heap.blocks_mutex_) {
  const std::uint64_t in_segment = (heap.blocks_per_segment_ - heap.meta_blocks_) * kBlockBytes;
  if (bytes <= heap_layout::kMaxSmallBytes) {
    plan_for_blocks(heap_layout::class_of(bytes), 1);
    if (kind_ == Kind::kNone) kind_ = Kind::kActivate;
  } else if (bytes <= in_segment) {
    plan_for_blocks(0, (bytes + kBlockBytes - 1) / kBlockBytes);
  } else {
    std::uint64_t missing = 0;
    if (!heap.find_segments(heap.huge_segments(bytes), missing)) grow_by(missing);
  }
}

Heap::Change::~Change() {
  if (pending_ && kind_ == Kind::kReclaim) put_back();
}

/// What it takes until there are so many free blocks in a row; nothing, if there are some, at_.
void Heap::Change::plan_for_blocks(std::size_t size_class, std::uint64_t blocks) {
  if (const auto free = heap_->find_blocks(blocks)) {
    at_ = *free;
    size_class_ = size_class;
  } else if (const auto segment = heap_->find_free_segment()) {
    at_ = *segment;
    kind_ = Kind::kFormat;
  } else {
    kind_ = Kind::kReclaim;
  }
}

/// Grows by an eighth of the pool rather than by `least`, so that a pool that is being filled does
/// not sync the file's size all the time.
void Heap::Change::grow_by(std::uint64_t least) {
  kind_ = Kind::kGrow;
  least_segments = least;
  segments = std::min<std::uint64_t>(std::max(least, heap_->segment_count_ / 8), 64 + least);
}

bool Heap::Change::next() {
  if (pending_) done();
  pending_ = !last_ && prepare();
  return pending_;
}

/// The next step. False: there is none.
bool Heap::Change::prepare() {
  switch (kind_) {
    case Kind::kActivate: activate(); return true;
    case Kind::kFormat: format(); return true;
    case Kind::kReclaim:
      if (reclaim()) return true;
      if (!writes.empty()) return false;  // all that there were
      grow_by(1);
      return last_ = true;
    case Kind::kGrow: return last_ = true;
    case Kind::kNone: break;
  }
  return false;
}

void Heap::Change::done() {
  pending_ = false;
  switch (kind_) {
    case Kind::kActivate: return done_activating();
    case Kind::kFormat: return done_formatting();
    case Kind::kReclaim:
      heap_->block_at(at_).kind.store(BlockKind::kFree, std::memory_order_relaxed);
      heap_->set_free(at_, true);
      heap_->search_from_ =
          std::min<std::uint64_t>(heap_->search_from_, at_ / heap_->blocks_per_segment_);
      return;
    case Kind::kGrow:
      for (std::uint64_t i = heap_->segment_count_; i < heap_->region_->segments(); ++i)
        heap_->add_segment(i, SegmentKind::kFree, 0);
      return;
    case Kind::kNone: return;
  }
}

/// A free block becomes an empty superblock. Its own record, ahead of the caller's transaction: a
/// crash afterwards leaves an empty superblock, which is no leak.
void Heap::Change::activate() {
  last_ = true;
  const std::size_t objects = heap_layout::objects_in_block(size_class_);
  writes.push_back({heap_->class_word_offset(at_),
                    heap_layout::block_word(BlockKind::kSmall, size_class_), kWholeWord});
  for (std::size_t w = 0; w * kBitsPerWord < objects; ++w)
    writes.push_back(
        {heap_->bitmap_offset(at_) + w * kWordBytes, heap_layout::bitmap_word(0), kWholeWord});
}
void Heap::Change::done_activating() {
  const std::size_t objects = heap_layout::objects_in_block(size_class_);
  Block& block = heap_->block_at(at_);
  block.size_class.store(static_cast<std::uint8_t>(size_class_), std::memory_order_relaxed);
  block.listed.store(true, std::memory_order_relaxed);
  block.free_objects.store(static_cast<std::uint32_t>(objects), std::memory_order_relaxed);
  for (std::size_t w = 0; w < block.bits.size(); ++w) {
    const std::size_t here = objects > w * 64 ? std::min<std::size_t>(64, objects - w * 64) : 0;
    block.bits[w].free.store(here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1,
                             std::memory_order_relaxed);
  }
  block.kind.store(BlockKind::kSmall, std::memory_order_release);
  heap_->set_free(at_, false);
  cache_->block[size_class_] = static_cast<std::uint32_t>(at_ + 1);
}

/// A free segment gets class words, in records that the smallest ring can hold. A crash between
/// them leaves class words in a segment that is still free. Bitmaps come with activate().
void Heap::Change::format() {
  constexpr std::uint64_t kWordsPerRecord = 128;
  const std::uint64_t blocks = heap_->blocks_per_segment_;
  outdated = {};
  if (formatted_ == 0) outdated = {heap_->segment_offset(at_), heap_->meta_blocks_ * kBlockBytes};
  writes.clear();
  for (; formatted_ < blocks && writes.size() < kWordsPerRecord; ++formatted_) {
    const BlockKind kind = formatted_ < heap_->meta_blocks_ ? BlockKind::kMeta : BlockKind::kFree;
    writes.push_back({heap_->class_word_offset(at_ * blocks + formatted_),
                      heap_layout::block_word(kind), kWholeWord});
  }
  last_ = writes.size() < kWordsPerRecord;
  if (last_)
    writes.push_back({heap_->region_->superblock().segment_table_offset + at_ * kWordBytes,
                      heap_layout::segment_word(SegmentKind::kBlocks), kWholeWord});
}
void Heap::Change::done_formatting() {
  if (!last_) return;
  heap_->add_segment(at_, SegmentKind::kBlocks, 0);
  Segment& formatted = heap_->segment(at_);
  for (std::uint64_t b = 0; b < heap_->meta_blocks_; ++b) {
    formatted.blocks[b].kind = BlockKind::kMeta;
    formatted.set_free(b, false);
  }
  heap_->search_from_ = std::min(heap_->search_from_, at_);
}

/// An empty superblock that nobody owns becomes a free block. False: there is none.
bool Heap::Change::reclaim() {
  writes.reserve(1);  // first: what is taken and cannot be said would be lost
  for (; size_class_ < heap_layout::kClasses; ++size_class_, looked_at_ = 0) {
    const std::uint32_t taken = heap_->take_empty_block(size_class_, looked_at_);
    if (taken == 0) continue;
    at_ = taken - 1;
    writes.assign(
        1, {heap_->class_word_offset(at_), heap_layout::block_word(BlockKind::kFree), kWholeWord});
    return true;
  }
  return false;
}
/// It stays a superblock, where it was.
void Heap::Change::put_back() {
  Block& block = heap_->block_at(at_);
  ClassList& list = heap_->classes_[size_class_];
  const std::lock_guard lock(list.mutex);
  block.kind.store(BlockKind::kSmall, std::memory_order_release);
  try {
    list.partial.push_back(static_cast<std::uint32_t>(at_ + 1));
  } catch (const std::bad_alloc&) {
    return;  // nobody allocates from it until the pool is opened again
  }
  block.listed.store(true, std::memory_order_relaxed);
}

}  // namespace perdure
