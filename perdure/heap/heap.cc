// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/heap/heap.h"

#include <algorithm>
#include <bit>
#include <string>

#include "perdure/base/check.h"
#include "perdure/heap/segment.h"

namespace perdure {

using heap_layout::BlockKind;
using heap_layout::kBitsPerWord;
using heap_layout::kClassBytes;
using heap_layout::SegmentKind;

Heap::Heap(Region& region)
    : region_(&region),
      blocks_per_segment_(heap_layout::blocks_per_segment(region.geometry())),
      meta_blocks_(heap_layout::meta_blocks(region.geometry())),
      segments_(std::make_unique<std::atomic<Segment*>[]>(region.max_segments())) {}

Heap::~Heap() {
  for (std::uint64_t i = 0; i < segment_count_; ++i)
    delete segments_[i].load(std::memory_order_relaxed);
}

Offset Heap::block_offset(std::uint64_t block) const {
  return region_->superblock().heap_offset + block * kBlockBytes;
}
Offset Heap::class_word_offset(std::uint64_t block) const {
  return segment_offset(segment_of(block)) + within_segment(block) * kWordBytes;
}
Offset Heap::bitmap_offset(std::uint64_t block) const {
  return segment_offset(segment_of(block)) +
         (blocks_per_segment_ + within_segment(block) * heap_layout::kBitmapWords) * kWordBytes;
}
void Heap::set_free(std::uint64_t block, bool free) const {
  segment(segment_of(block)).set_free(within_segment(block), free);
}
Heap::Block& Heap::block_at(std::uint64_t block) const {
  return segment(segment_of(block)).blocks[within_segment(block)];
}

// ---- reserving ----------------------------------------------------------------------------------

HeapObject Heap::reserve(Cache& cache, std::uint64_t bytes) {
  if (bytes == 0) throw Exception(Code::kInvalid, "an allocation of 0 bytes");
  if (bytes > heap_layout::kMaxSmallBytes) {
    const std::uint64_t in_segment = (blocks_per_segment_ - meta_blocks_) * kBlockBytes;
    if (bytes > geometry().capacity_bytes)
      throw Exception(Code::kNoSpace,
                      region_->path() + ": an object of " + std::to_string(bytes) +
                          " bytes is larger than the pool's capacity; create a larger pool");
    const Offset object = bytes <= in_segment
                              ? reserve_extent((bytes + kBlockBytes - 1) / kBlockBytes)
                              : reserve_huge(huge_segments(bytes));
    if (object == 0) give_back(cache);  // the superblocks of these may be reclaimed
    return {.offset = object};
  }
  const std::size_t size_class = heap_layout::class_of(bytes);
  if (Cache::Magazine& magazine = cache.magazines[size_class]; magazine.count != 0) {
    const HeapObject& object = magazine.objects[--magazine.count];
    object.bits->kept.fetch_and(~(std::uint64_t{1} << object.bit), std::memory_order_relaxed);
    return object;
  }
  std::uint32_t& mine = cache.block[size_class];
  for (;;) {
    if (mine != 0) {
      if (const HeapObject object = take_bit(mine - 1); object.offset != 0) return object;
      disown(std::exchange(mine, 0));
    }
    mine = acquire_block(size_class);
    if (mine != 0) continue;
    give_back(cache);  // as above
    return {};
  }
}

HeapObject Heap::small_object(Block& block, std::uint64_t number, std::size_t index) const {
  const std::uint8_t size_class = block.size_class.load(std::memory_order_relaxed);
  return {.offset = block_offset(number) + index * kClassBytes[size_class],
          .word = bitmap_offset(number) + index / kBitsPerWord * kWordBytes,
          .bits = &block.bits[index / 64],
          .bit = static_cast<std::uint8_t>(index % 64),
          .size_class = size_class};
}

/// Reserves any free object of a block that this thread owns; none when it is full.
HeapObject Heap::take_bit(std::uint32_t number) {
  Block& block = block_at(number);
  for (std::size_t w = 0; w < block.bits.size(); ++w) {
    // Other threads only add bits (release), so a bit seen here stays until this thread takes it.
    // Acquire: pairs with release(), after which the freeing transaction has no more to do with the
    // object.
    const std::uint64_t bits = block.bits[w].free.load(std::memory_order_acquire);
    if (bits == 0) continue;
    const auto bit = static_cast<unsigned>(std::countr_zero(bits));
    block.bits[w].free.fetch_and(~(std::uint64_t{1} << bit), std::memory_order_relaxed);
    block.free_objects.fetch_sub(1, std::memory_order_relaxed);
    return small_object(block, number, w * 64 + bit);
  }
  return {};
}

/// A block of the class with free objects, owned by the caller; 1 + its number. 0: there is none.
std::uint32_t Heap::acquire_block(std::size_t size_class) {
  ClassList& list = classes_[size_class];
  const std::lock_guard lock(list.mutex);
  if (list.partial.empty()) return 0;
  const std::uint32_t block = list.partial.back();
  list.partial.pop_back();
  return block;  // stays `listed`: owned from here on
}

void Heap::disown(std::uint32_t block_plus_one) {
  Block& block = block_at(block_plus_one - 1);
  ClassList& list = classes_[block.size_class.load(std::memory_order_relaxed)];
  const std::lock_guard lock(list.mutex);
  // Sequentially consistent against release(), which counts first and looks at `listed` second:
  // either that one sees false and lists the block, or this one sees the object that it gave back.
  // Weaker, the block could be lost.
  block.listed.store(false, std::memory_order_seq_cst);
  if (block.free_objects.load(std::memory_order_seq_cst) == 0) return;
  block.listed.store(true, std::memory_order_relaxed);
  list.partial.push_back(block_plus_one);
}

/// What two have freed would be handed out twice. `free_already`: not 0 if it was.
static void refuse_second_free(std::uint64_t free_already) {
  PERDURE_CHECK(free_already == 0, "two transactions freed the same object");
}

// ---- publishing, freeing ------------------------------------------------------------------------

const char* Heap::look(Offset object, Place& place) const {
  const Superblock& super = region_->superblock();
  if (!inside(object, 1, super.heap_offset, region_->grown_bytes())) return "is outside the heap";
  place.block = (object - super.heap_offset) / kBlockBytes;
  place.segment = segment_of(place.block);
  Segment* const in = segments_[place.segment].load(std::memory_order_acquire);
  if (in == nullptr) return "is in a segment that holds nothing";
  place.segment_kind = in->kind;
  if (place.segment_kind == SegmentKind::kHuge)
    return object == segment_offset(place.segment) ? nullptr
                                                   : "is inside a large object, not its start";
  if (place.segment_kind != SegmentKind::kBlocks) return "is not the start of an object";
  Block& block = in->blocks[within_segment(place.block)];
  place.in = &block;
  const std::uint64_t within = (object - super.heap_offset) % kBlockBytes;
  switch (block.kind.load(std::memory_order_acquire)) {
    case BlockKind::kExtent:
      return within == 0 && block.extent_blocks.load(std::memory_order_relaxed) != 0
                 ? nullptr
                 : "is inside a large object, not its start";
    case BlockKind::kSmall: {
      const std::size_t size_class = block.size_class.load(std::memory_order_relaxed);
      const auto in_block = static_cast<std::uint32_t>(within);
      place.object = in_block / kClassBytes[size_class];
      return in_block % kClassBytes[size_class] == 0 &&
                     place.object < heap_layout::objects_in_block(size_class)
                 ? nullptr
                 : "is inside an object, not its start";
    }
    default: return "is not the start of an object";
  }
}

Heap::Place Heap::locate(Offset object) const {
  Place place{};
  if (const char* const why = look(object, place))
    throw Exception(Code::kMisuse, region_->path() + ": offset " + std::to_string(object) + " " +
                                       why + "; nothing was freed");
  return place;
}

HeapObject Heap::describe(Offset object) const {
  const Place place = locate(object);
  if (!place.is_small()) return {.offset = object};
  return small_object(*place.in, place.block, place.object);
}

HeapObject Heap::check_live(Offset object) const {
  const Place place = locate(object);
  if (!place.is_small()) return {.offset = object};
  if (!place.in->holds_object(place.object))
    throw Exception(Code::kMisuse, region_->path() + ": double free: the object at offset " +
                                       std::to_string(object) +
                                       " is free already; nothing was freed");
  return small_object(*place.in, place.block, place.object);
}

bool Heap::holds(Offset object, std::uint64_t bytes) const {
  try {
    check_live(object);
    return usable_bytes(object) >= bytes;
  } catch (const Exception&) {
    return false;
  }
}

void Heap::publish_writes(const HeapObject& object, MaskedWrites& out) const {
  if (object.is_small()) {
    const unsigned bit = object.bit % kBitsPerWord;
    out.push_back({object.word, Word{1} << bit, heap_layout::bitmap_mask(bit)});
    return;
  }
  const Place place = locate(object.offset);
  if (place.segment_kind == SegmentKind::kHuge) {
    const std::uint64_t count = segment(place.segment).argument;
    const Offset table = region_->superblock().segment_table_offset;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Word word = i == 0 ? heap_layout::segment_word(SegmentKind::kHuge, count)
                               : heap_layout::segment_word(SegmentKind::kHugeTail, i);
      out.push_back({table + (place.segment + i) * kWordBytes, word, kWholeWord});
    }
    return;
  }
  out.push_back({class_word_offset(place.block),
                 heap_layout::block_word(BlockKind::kExtent,
                                         place.in->extent_blocks.load(std::memory_order_relaxed)),
                 kWholeWord});
}

void Heap::free_writes(const HeapObject& object, MaskedWrites& out) const {
  if (object.is_small()) {
    const unsigned bit = object.bit % kBitsPerWord;
    out.push_back({object.word, Word{1} << (bit + 32), heap_layout::bitmap_mask(bit)});
    return;
  }
  const Place place = locate(object.offset);
  if (place.segment_kind == SegmentKind::kHuge) {
    const std::uint64_t count = segment(place.segment).argument;
    const Offset table = region_->superblock().segment_table_offset;
    for (std::uint64_t i = 0; i < count; ++i) {
      out.push_back({table + (place.segment + i) * kWordBytes,
                     heap_layout::segment_word(SegmentKind::kFree), kWholeWord});
    }
    return;
  }
  out.push_back(
      {class_word_offset(place.block), heap_layout::block_word(BlockKind::kFree), kWholeWord});
}

void Heap::release(const HeapObject& object, Cache& cache) {
  if (!object.is_small()) return release(object.offset);
  Cache::Magazine& magazine = cache.magazines[object.size_class];
  const std::size_t capacity = Cache::Magazine::capacity(object.size_class);
  if (magazine.count == capacity) give_back(magazine, static_cast<std::uint32_t>(capacity / 2));
  const std::uint64_t bit = std::uint64_t{1} << object.bit;
  const std::uint64_t before = object.bits->kept.fetch_or(bit, std::memory_order_relaxed);
  refuse_second_free((before | object.bits->free.load(std::memory_order_relaxed)) & bit);
  magazine.objects[magazine.count++] = object;
}

void Heap::give_back(Cache& cache) {
  for (Cache::Magazine& magazine : cache.magazines) give_back(magazine, 0);
}
/// All but the `left` that came last.
void Heap::give_back(Cache::Magazine& magazine, std::uint32_t left) {
  const auto first = magazine.objects.begin();
  const auto stays = first + (magazine.count - left);
  for (auto object = first; object != stays; ++object) {
    object->bits->kept.fetch_and(~(std::uint64_t{1} << object->bit), std::memory_order_relaxed);
    release(object->offset);
  }
  std::copy(stays, first + magazine.count, first);
  magazine.count = left;
}

void Heap::release(Offset object) {
  const Place place = locate(object);
  if (place.segment_kind == SegmentKind::kHuge) {
    const std::lock_guard lock(blocks_mutex_);
    const std::uint64_t count = segment(place.segment).argument;
    for (std::uint64_t i = 0; i < count; ++i) segment(place.segment + i).kind = SegmentKind::kFree;
    search_from_ = std::min(search_from_, place.segment);
    return;
  }
  Block& block = *place.in;
  if (!place.is_small()) {
    const std::lock_guard lock(blocks_mutex_);
    const std::uint32_t count = block.extent_blocks.exchange(0);
    for (std::uint32_t b = 0; b < count; ++b) {
      block_at(place.block + b).kind = BlockKind::kFree;
      set_free(place.block + b, true);
    }
    search_from_ = std::min(search_from_, place.segment);
    return;
  }
  const std::uint8_t size_class = block.size_class.load(std::memory_order_relaxed);
  const std::uint64_t bit = std::uint64_t{1} << (place.object % 64);
  ObjectBits& bits = block.bits[place.object / 64];
  // Whether it is kept comes first: as soon as it is free another thread may take it, and keep it
  // when it frees it in turn.
  const std::uint64_t kept = bits.kept.load(std::memory_order_relaxed);
  const std::uint64_t before = bits.free.fetch_or(bit, std::memory_order_release);
  refuse_second_free((before | kept) & bit);
  // The count last: once it says that every object is free, the block may be reclaimed and become
  // anything.
  block.free_objects.fetch_add(1, std::memory_order_seq_cst);
  if (block.listed.load(std::memory_order_seq_cst)) return;  // see disown()
  ClassList& list = classes_[size_class];
  const std::lock_guard lock(list.mutex);
  // The kind first (acquire): a block that was reclaimed and activated again is listed before it is
  // kSmall.
  if (block.kind.load(std::memory_order_acquire) != BlockKind::kSmall ||
      block.size_class.load(std::memory_order_relaxed) != size_class ||
      block.listed.load(std::memory_order_relaxed))
    return;
  try {
    list.partial.push_back(static_cast<std::uint32_t>(place.block + 1));
  } catch (const std::bad_alloc&) {
    return;  // the next release() into this block lists it
  }
  block.listed.store(true, std::memory_order_relaxed);
}

std::uint64_t Heap::usable_bytes(Offset object) const { return room_of(locate(object)); }

bool Heap::fits(Offset object, std::uint64_t bytes) const {
  Place place{};
  if (look(object, place) != nullptr) return false;
  const std::uint64_t room = room_of(place);
  return bytes <= room && bytes >= heap_layout::least_bytes(geometry(), room);
}

std::uint64_t Heap::room_of(const Place& place) const {
  if (place.segment_kind == SegmentKind::kHuge)
    return segment(place.segment).argument * geometry().segment_bytes;
  if (!place.is_small())
    return place.in->extent_blocks.load(std::memory_order_relaxed) * kBlockBytes;
  return kClassBytes[place.in->size_class.load(std::memory_order_relaxed)];
}

Heap::Extent Heap::object_around(Offset at) const {
  const Offset heap = region_->superblock().heap_offset;
  if (!inside(at, 1, heap, region_->grown_bytes())) return {round_down(at, kLineBytes), kLineBytes};
  Extent part{round_down(at, kMostKept), kMostKept};
  const std::uint64_t in_segment = (at - heap) / geometry().segment_bytes;
  const Segment* in = segments_[in_segment].load(std::memory_order_acquire);
  if (in == nullptr || in->kind != SegmentKind::kBlocks) return part;
  const std::uint64_t number = (at - heap) / kBlockBytes;
  const Block& block = block_at(number);
  if (block.kind.load(std::memory_order_acquire) != BlockKind::kSmall) return part;
  const std::uint64_t bytes = kClassBytes[block.size_class.load(std::memory_order_relaxed)];
  const Offset first = block_offset(number);
  const Offset begin = first + (at - first) / bytes * bytes;
  // A block's last bytes may be too few for an object.
  const Offset end_of_object = std::min(begin + bytes, first + kBlockBytes);
  if (bytes <= kMostKept) return {begin, end_of_object - begin};
  const Offset end = std::min(part.begin + part.bytes, end_of_object);
  part.begin = std::max(part.begin, begin);
  part.bytes = end - part.begin;
  return part;
}

// ---- looking ------------------------------------------------------------------------------------

void Heap::for_each_object(const std::function<void(Offset, std::uint64_t)>& visit) const {
  const std::lock_guard lock(blocks_mutex_);
  for (std::uint64_t s = 0; s < segment_count_; ++s) {
    const Segment& in = segment(s);
    if (in.kind == SegmentKind::kHuge)
      visit(segment_offset(s), in.argument * geometry().segment_bytes);
    if (in.kind != SegmentKind::kBlocks) continue;
    for (std::uint64_t b = meta_blocks_; b < blocks_per_segment_; ++b) {
      const Block& block = in.blocks[b];
      const std::uint64_t number = s * blocks_per_segment_ + b;
      if (block.kind == BlockKind::kExtent && block.extent_blocks != 0)
        visit(block_offset(number), block.extent_blocks * kBlockBytes);
      if (block.kind != BlockKind::kSmall) continue;
      const std::size_t size = kClassBytes[block.size_class];
      for (std::size_t i = 0; i < kBlockBytes / size; ++i) {
        if (block.holds_object(i)) visit(block_offset(number) + i * size, size);
      }
    }
  }
}

Heap::Usage Heap::usage() const {
  Usage usage;
  for_each_object([&](Offset, std::uint64_t bytes) {
    ++usage.objects;
    usage.object_bytes += bytes;
  });
  const std::lock_guard lock(blocks_mutex_);
  usage.segments = segment_count_;
  for (std::uint64_t s = 0; s < segment_count_; ++s) {
    const Segment& in = segment(s);
    if (in.kind == SegmentKind::kFree) usage.free_blocks += blocks_per_segment_;
    for (const Block& block : in.blocks)
      usage.free_blocks += block.kind == BlockKind::kFree ? 1 : 0;
  }
  return usage;
}

}  // namespace perdure
