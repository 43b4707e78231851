#include "perdure/heap/heap.h"

#include <algorithm>
#include <bit>
#include <string>

#include "perdure/base/check.h"

namespace perdure {

using heap_layout::BlockKind;
using heap_layout::kBitsPerWord;
using heap_layout::kClassBytes;
using heap_layout::SegmentKind;

/// The volatile side of a block. Free bits say what can be reserved: neither published nor reserved
/// nor being freed.
struct Heap::Block {
  std::atomic<BlockKind> kind{BlockKind::kFree};
  std::atomic<std::uint8_t> size_class{0};
  std::atomic<bool> listed{false};  // owned by a thread's cache or in its class's partial list
  std::atomic<std::uint32_t> extent_blocks{0};
  std::atomic<std::uint32_t> free_objects{0};
  std::array<std::atomic<std::uint64_t>, heap_layout::kBitmapWords / 2> free_bits{};
};

struct Heap::Segment {
  Segment(std::uint64_t count, SegmentKind of_kind, std::uint64_t with)
      : kind(of_kind),
        argument(with),
        blocks(of_kind == SegmentKind::kBlocks ? count : 0),
        free_bits((blocks.size() + 63) / 64) {
    for (std::uint64_t b = 0; b < blocks.size(); ++b) set_free(b, true);
  }
  bool is_free(std::uint64_t block) const {
    return (free_bits[block / 64] >> (block % 64) & 1) != 0;
  }
  void set_free(std::uint64_t block, bool free) {
    const std::uint64_t bit = std::uint64_t{1} << (block % 64);
    if (free) {
      free_bits[block / 64] |= bit;
    } else {
      free_bits[block / 64] &= ~bit;
    }
  }
  // Written under blocks_mutex_, and fixed while objects live in it; read also by transactions that
  // another has overtaken.
  std::atomic<SegmentKind> kind;
  std::atomic<std::uint64_t> argument;  // kHuge: segments
  std::vector<Block> blocks;
  /// Which of them are kFree, for a search that need not look at each. Under blocks_mutex_.
  std::vector<std::uint64_t> free_bits;
};

/// What an offset points at.
struct Heap::Place {
  SegmentKind segment_kind;
  std::uint64_t segment;
  std::uint64_t block;  // global number
  unsigned object;      // index in a small block
};

Heap::Heap(Region& region, Services services)
    : region_(&region),
      services_(std::move(services)),
      blocks_per_segment_(heap_layout::blocks_per_segment(region.geometry())),
      meta_blocks_(heap_layout::meta_blocks(region.geometry())),
      segments_(std::make_unique<std::atomic<Segment*>[]>(region.max_segments())) {}

Heap::~Heap() {
  for (std::uint64_t i = 0; i < segment_count_; ++i)
    delete segments_[i].load(std::memory_order_relaxed);
}

Offset Heap::block_offset(std::uint64_t block) const {
  return segment_offset(block / blocks_per_segment_) + block % blocks_per_segment_ * kBlockBytes;
}
Offset Heap::class_word_offset(std::uint64_t block) const {
  return segment_offset(block / blocks_per_segment_) + block % blocks_per_segment_ * kWordBytes;
}
Offset Heap::bitmap_offset(std::uint64_t block) const {
  return segment_offset(block / blocks_per_segment_) +
         (blocks_per_segment_ + block % blocks_per_segment_ * heap_layout::kBitmapWords) *
             kWordBytes;
}
void Heap::set_free(std::uint64_t block, bool free) const {
  segment(block / blocks_per_segment_).set_free(block % blocks_per_segment_, free);
}
Heap::Block& Heap::block_at(std::uint64_t block) const {
  return segment(block / blocks_per_segment_).blocks[block % blocks_per_segment_];
}

// ---- opening ------------------------------------------------------------------------------------

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
    if (!payload || heap_layout::kind_of(*payload) > 3) {
      wrong = "fails its check";
    } else {
      kind = static_cast<SegmentKind>(heap_layout::kind_of(*payload));
      argument = heap_layout::argument_of(*payload);
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
      block.free_bits[w / 2].fetch_or(free_bits << (w % 2 * kBitsPerWord),
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

// ---- reserving ----------------------------------------------------------------------------------

Offset Heap::reserve(Cache& cache, std::uint64_t bytes) {
  if (bytes == 0) throw Exception(Code::kInvalid, "an allocation of 0 bytes");
  if (bytes > heap_layout::kMaxSmallBytes) {
    const std::uint64_t in_segment = (blocks_per_segment_ - meta_blocks_) * kBlockBytes;
    if (bytes <= in_segment) return reserve_extent((bytes + kBlockBytes - 1) / kBlockBytes);
    if (bytes > geometry().capacity_bytes)
      throw Exception(Code::kNoSpace,
                      region_->path() + ": an object of " + std::to_string(bytes) +
                          " bytes is larger than the pool's capacity; create a larger pool");
    return reserve_huge((bytes + geometry().segment_bytes - 1) / geometry().segment_bytes);
  }
  const std::size_t size_class = heap_layout::class_of(bytes);
  std::uint32_t& mine = cache.block[size_class];
  for (;;) {
    if (mine != 0) {
      if (const Offset object = take_bit(mine - 1); object != 0) return object;
      disown(std::exchange(mine, 0));
    }
    mine = acquire_block(size_class);
  }
}

/// Reserves any free object of a block that this thread owns; 0 when it is full.
Offset Heap::take_bit(std::uint32_t number) {
  Block& block = block_at(number);
  for (std::size_t w = 0; w < block.free_bits.size(); ++w) {
    // Other threads only add bits (release), so a bit seen here stays until this thread takes it.
    // Acquire: pairs with release(), after which the freeing transaction has no more to do with the
    // object.
    const std::uint64_t bits = block.free_bits[w].load(std::memory_order_acquire);
    if (bits == 0) continue;
    const auto bit = static_cast<unsigned>(std::countr_zero(bits));
    block.free_bits[w].fetch_and(~(std::uint64_t{1} << bit), std::memory_order_relaxed);
    block.free_objects.fetch_sub(1, std::memory_order_relaxed);
    return block_offset(number) +
           (w * 64 + bit) * kClassBytes[block.size_class.load(std::memory_order_relaxed)];
  }
  return 0;
}

/// A block of the class with free objects, owned by the caller; 1 + its number.
std::uint32_t Heap::acquire_block(std::size_t size_class) {
  {
    ClassList& list = classes_[size_class];
    const std::lock_guard lock(list.mutex);
    if (!list.partial.empty()) {
      const std::uint32_t block = list.partial.back();
      list.partial.pop_back();
      return block;  // stays `listed`: owned from here on
    }
  }
  return activate_block(size_class);
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

/// Turns a free block into an empty superblock. Its own record, ahead of the caller's transaction:
/// a cut afterwards leaves an empty superblock, which is no leak.
std::uint32_t Heap::activate_block(std::size_t size_class) {
  const std::lock_guard lock(blocks_mutex_);
  const std::uint64_t number = find_blocks(1);
  const std::size_t objects = heap_layout::objects_in_block(size_class);
  std::vector<MaskedWrite> writes;
  writes.push_back({class_word_offset(number),
                    heap_layout::block_word(BlockKind::kSmall, size_class), kWholeWord});
  for (std::size_t w = 0; w * kBitsPerWord < objects; ++w) {
    writes.push_back(
        {bitmap_offset(number) + w * kWordBytes, heap_layout::bitmap_word(0), kWholeWord});
  }
  services_.publish(writes);
  Block& block = block_at(number);
  block.size_class.store(static_cast<std::uint8_t>(size_class), std::memory_order_relaxed);
  block.listed.store(true, std::memory_order_relaxed);
  block.free_objects.store(static_cast<std::uint32_t>(objects), std::memory_order_relaxed);
  for (std::size_t w = 0; w < block.free_bits.size(); ++w) {
    const std::size_t here = objects > w * 64 ? std::min<std::size_t>(64, objects - w * 64) : 0;
    block.free_bits[w].store(here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1,
                             std::memory_order_relaxed);
  }
  block.kind.store(BlockKind::kSmall, std::memory_order_release);
  set_free(number, false);
  return static_cast<std::uint32_t>(number + 1);
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
      std::uint64_t run = 0;
      for (std::uint64_t b = 0; b < blocks_per_segment_; ++b) {
        if (!candidate.is_free(b)) {
          run = 0;
          if (candidate.free_bits[b / 64] == 0) b |= 63;  // none of these either
          continue;
        }
        seen_free = true;
        if (++run == count) return s * blocks_per_segment_ + b + 1 - count;
      }
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

// ---- publishing, freeing ------------------------------------------------------------------------

Heap::Place Heap::locate(Offset object) const {
  const Superblock& super = region_->superblock();
  const auto misuse = [&](const char* why) {
    return Exception(Code::kMisuse, region_->path() + ": offset " + std::to_string(object) + " " +
                                        why + "; nothing was freed");
  };
  if (!inside(object, 1, super.heap_offset, region_->grown_bytes()))
    throw misuse("is outside the heap");
  Place place{};
  place.segment = (object - super.heap_offset) / geometry().segment_bytes;
  const Segment* in = segments_[place.segment].load(std::memory_order_acquire);
  if (in == nullptr) throw misuse("is in a segment that holds nothing");
  place.segment_kind = in->kind;
  if (place.segment_kind == SegmentKind::kHuge) {
    if (object != segment_offset(place.segment))
      throw misuse("is inside a large object, not its start");
    return place;
  }
  if (place.segment_kind != SegmentKind::kBlocks) throw misuse("is not the start of an object");
  place.block = (object - super.heap_offset) / kBlockBytes;
  const Block& block = block_at(place.block);
  const std::uint64_t within = object - block_offset(place.block);
  switch (block.kind.load(std::memory_order_acquire)) {
    case BlockKind::kExtent:
      if (within != 0 || block.extent_blocks.load(std::memory_order_relaxed) == 0)
        throw misuse("is inside a large object, not its start");
      return place;
    case BlockKind::kSmall: {
      const std::size_t size = kClassBytes[block.size_class.load(std::memory_order_relaxed)];
      place.object = static_cast<unsigned>(within / size);
      if (within % size != 0 || place.object >= kBlockBytes / size)
        throw misuse("is inside an object, not its start");
      return place;
    }
    default: throw misuse("is not the start of an object");
  }
}

void Heap::check_live(Offset object) const {
  const Place place = locate(object);
  if (place.segment_kind == SegmentKind::kHuge) return;
  const Block& block = block_at(place.block);
  if (block.kind.load(std::memory_order_relaxed) == BlockKind::kExtent) return;
  const std::uint64_t bits = block.free_bits[place.object / 64].load(std::memory_order_acquire);
  if ((bits >> (place.object % 64) & 1) != 0)
    throw Exception(Code::kMisuse, region_->path() + ": double free: the object at offset " +
                                       std::to_string(object) +
                                       " is free already; nothing was freed");
}

bool Heap::holds(Offset object, std::uint64_t bytes) const {
  try {
    check_live(object);
    return usable_bytes(object) >= bytes;
  } catch (const Exception&) {
    return false;
  }
}

void Heap::publish_writes(Offset object, std::vector<MaskedWrite>& out) const {
  const Place place = locate(object);
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
  const Block& block = block_at(place.block);
  if (block.kind.load(std::memory_order_relaxed) == BlockKind::kExtent) {
    out.push_back({class_word_offset(place.block),
                   heap_layout::block_word(BlockKind::kExtent,
                                           block.extent_blocks.load(std::memory_order_relaxed)),
                   kWholeWord});
    return;
  }
  const unsigned bit = place.object % kBitsPerWord;
  out.push_back({bitmap_offset(place.block) + place.object / kBitsPerWord * kWordBytes,
                 Word{1} << bit, heap_layout::bitmap_mask(bit)});
}

void Heap::free_writes(Offset object, std::vector<MaskedWrite>& out) const {
  const Place place = locate(object);
  if (place.segment_kind == SegmentKind::kHuge) {
    const std::uint64_t count = segment(place.segment).argument;
    const Offset table = region_->superblock().segment_table_offset;
    for (std::uint64_t i = 0; i < count; ++i) {
      out.push_back({table + (place.segment + i) * kWordBytes,
                     heap_layout::segment_word(SegmentKind::kFree), kWholeWord});
    }
    return;
  }
  if (block_at(place.block).kind.load(std::memory_order_relaxed) == BlockKind::kExtent) {
    out.push_back(
        {class_word_offset(place.block), heap_layout::block_word(BlockKind::kFree), kWholeWord});
    return;
  }
  const unsigned bit = place.object % kBitsPerWord;
  out.push_back({bitmap_offset(place.block) + place.object / kBitsPerWord * kWordBytes,
                 Word{1} << (bit + 32), heap_layout::bitmap_mask(bit)});
}

void Heap::cancel(Offset object) { release(object); }

void Heap::release(Offset object) {
  const Place place = locate(object);
  if (place.segment_kind == SegmentKind::kHuge) {
    const std::lock_guard lock(blocks_mutex_);
    const std::uint64_t count = segment(place.segment).argument;
    for (std::uint64_t i = 0; i < count; ++i) segment(place.segment + i).kind = SegmentKind::kFree;
    search_from_ = std::min(search_from_, place.segment);
    return;
  }
  Block& block = block_at(place.block);
  if (block.kind.load(std::memory_order_relaxed) == BlockKind::kExtent) {
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
  const std::uint64_t before =
      block.free_bits[place.object / 64].fetch_or(bit, std::memory_order_release);
  PERDURE_CHECK((before & bit) == 0, "two transactions freed the same object");
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

std::uint64_t Heap::usable_bytes(Offset object) const {
  const Place place = locate(object);
  if (place.segment_kind == SegmentKind::kHuge)
    return segment(place.segment).argument * geometry().segment_bytes;
  const Block& block = block_at(place.block);
  if (block.kind.load(std::memory_order_relaxed) == BlockKind::kExtent)
    return block.extent_blocks.load(std::memory_order_relaxed) * kBlockBytes;
  return kClassBytes[block.size_class.load(std::memory_order_relaxed)];
}

void Heap::release_cache(Cache& cache) {
  for (std::uint32_t& block : cache.block) {
    if (block != 0) disown(std::exchange(block, 0));
  }
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
        if ((block.free_bits[i / 64] >> (i % 64) & 1) == 0)
          visit(block_offset(number) + i * size, size);
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
