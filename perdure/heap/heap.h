// SPDX-License-Identifier: BSD-3-Clause
// Heap: a crash-consistent allocator after Hoard: 8 KiB superblocks of one size class with a
// persistent bitmap each, kept apart from the data; extents of blocks, and whole segments, for what
// is larger.
//
// Reserve, then publish. reserve() takes space in volatile memory only; the caller's transaction
// publishes it by committing the masked writes of publish_writes() together with the pointer that
// receives it. A crash before that commit leaves nothing to give back, because the bitmap never
// knew. Free is the mirror image: the bits are cleared by the commit, and only then can the space
// be reserved again.
//
// All that is volatile here (free bits, lists, owners) is rebuilt by open(), which reads and checks
// every word of metadata. Source: Mnemosyne (ASPLOS 2011) §4.3. Deviation: extents instead of
// dlmalloc for large objects.
// Threads: any; each brings its own Cache.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "perdure/base/growing_array.h"
#include "perdure/base/waiting.h"
#include "perdure/error.h"
#include "perdure/heap/layout.h"
#include "perdure/heap/object.h"
#include "perdure/region/region.h"

namespace perdure {

/// What a thread allocates from.
struct HeapCache {
  /// Objects of one class that the thread freed last, and allocates again first: where allocations
  /// and frees are mixed, they seldom come to the blocks.
  struct Magazine {
    static constexpr std::size_t kMost = 32;
    /// At most half a block of them: nobody else can allocate them.
    static constexpr std::size_t capacity(std::size_t size_class) {
      return std::min(kMost,
                      std::max<std::size_t>(1, heap_layout::objects_in_block(size_class) / 2));
    }
    std::uint32_t count = 0;
    std::array<HeapObject, kMost> objects;
  };
  std::array<Magazine, heap_layout::kClasses> magazines{};
  /// Superblocks, until the pool is closed. 1 + global block number; 0: none.
  std::array<std::uint32_t, heap_layout::kClasses> block{};
};

class Heap {
 public:
  using Cache = HeapCache;

  struct Usage {
    std::uint64_t objects = 0;
    std::uint64_t object_bytes = 0;  // rounded up to size classes and extents
    std::uint64_t segments = 0;
    std::uint64_t free_blocks = 0;
  };

  explicit Heap(Region& region);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Rebuilds the volatile indexes from the metadata, checking every word of it.
  /// Errors: kCorrupt, naming the first bad word's file offset, or all of them in `findings` when
  ///         given.
  Result<void> open(std::vector<std::string>* findings = nullptr);

  /// Takes space for `bytes` (16-byte aligned), contents undefined. Volatile until published.
  /// Returns none when a Change has to be made first, and then it is to be called again
  /// (Tx::reserve does both).
  /// Errors: throws Exception kNoSpace (pool unchanged), kInvalid (0 bytes).
  HeapObject reserve(Cache& cache, std::uint64_t bytes);
  class Change;
  /// Gives a reservation back that was not published.
  void cancel(Offset object) { release(object); }
  /// Appends the writes that make a reservation permanent.
  void publish_writes(const HeapObject& object, MaskedWrites& out) const;

  /// Throws Exception kMisuse unless `object` is the start of a live object: catches double free
  /// and foreign offsets.
  HeapObject check_live(Offset object) const;
  /// Of an object, live or reserved. Throws Exception kMisuse unless one may start there.
  HeapObject describe(Offset object) const;
  /// Whether a live object starts at `object` and has room for `bytes`.
  bool holds(Offset object, std::uint64_t bytes) const;
  /// Whether an object may start there, live or not, that was allocated for so many bytes.
  bool fits(Offset object, std::uint64_t bytes) const;
  /// Appends the writes that free a live object. Requires: check_live(object).
  void free_writes(const HeapObject& object, MaskedWrites& out) const;
  /// Makes the space of a freed object reservable, by anyone. Call once the free is durable.
  void release(Offset object);
  /// The same, but a small one is kept for the thread whose `cache` it is.
  void release(const HeapObject& object, Cache& cache);
  /// Makes what is in its magazines reservable by anyone: when its thread ends, or memory is short.
  void give_back(Cache& cache);

  struct Extent {
    Offset begin;
    std::uint64_t bytes;
  };
  /// The object that `at` lies in, live or not; of one larger than kMostKept, and where there is
  /// none, an aligned part around `at`.
  /// Threads: any; where the heap changes meanwhile, either answer.
  Extent object_around(Offset at) const;
  static constexpr std::uint64_t kMostKept = 512;

  /// Bytes that belong to the live or reserved object at `object`.
  std::uint64_t usable_bytes(Offset object) const;

  Usage usage() const;
  /// Calls `visit(offset, bytes)` for every published object. Threads: none else may allocate or
  /// free.
  void for_each_object(const std::function<void(Offset, std::uint64_t)>& visit) const;

 private:
  struct Block;
  struct Segment;

  const Geometry& geometry() const { return region_->geometry(); }
  Segment& segment(std::uint64_t index) const {
    return *segments_[index].load(std::memory_order_acquire);
  }
  Offset segment_offset(std::uint64_t index) const {
    return region_->superblock().heap_offset + index * geometry().segment_bytes;
  }
  // Of a block, given by its global number. A segment has a power of two of them.
  std::uint64_t segment_of(std::uint64_t block) const {
    return block >> std::countr_zero(blocks_per_segment_);
  }
  std::uint64_t within_segment(std::uint64_t block) const {
    return block & (blocks_per_segment_ - 1);
  }
  Offset class_word_offset(std::uint64_t block) const;
  Offset bitmap_offset(std::uint64_t block) const;
  Offset block_offset(std::uint64_t block) const;
  Block& block_at(std::uint64_t block) const;
  /// Requires: blocks_mutex_.
  void set_free(std::uint64_t block, bool free) const;
  struct Place;
  /// Why no object starts there; null: one may.
  const char* look(Offset object, Place& place) const;
  Place locate(Offset object) const;
  std::uint64_t room_of(const Place& place) const;
  HeapObject small_object(Block& block, std::uint64_t number, std::size_t index) const;

  HeapObject take_bit(std::uint32_t block);
  void give_back(Cache::Magazine& magazine, std::uint32_t left);
  std::uint32_t acquire_block(std::size_t size_class);
  void disown(std::uint32_t block);
  Offset reserve_extent(std::uint64_t blocks);
  Offset reserve_huge(std::uint64_t segments);
  std::uint64_t huge_segments(std::uint64_t bytes) const;
  std::optional<std::uint64_t> find_blocks(std::uint64_t count);
  std::optional<std::uint64_t> find_free_segment() const;
  std::optional<std::uint64_t> find_segments(std::uint64_t count, std::uint64_t& missing) const;
  std::uint32_t take_empty_block(std::size_t size_class, std::size_t& at);
  void add_segment(std::uint64_t index, heap_layout::SegmentKind kind, std::uint64_t argument);
  Result<void> open_segment(std::uint64_t index, std::vector<std::string>* findings);

  Region* region_;
  std::uint64_t blocks_per_segment_;
  std::uint64_t meta_blocks_;
  std::unique_ptr<std::atomic<Segment*>[]> segments_;
  std::vector<std::unique_ptr<Segment>> replaced_;  // by add_segment()
  std::uint64_t segment_count_ = 0;                 // under blocks_mutex_
  std::uint64_t search_from_ = 0;                   // no free block in any segment before this one
  mutable Mutex blocks_mutex_;                      // who is what: free blocks, extents, segments
  struct ClassList {
    Mutex mutex;
    std::vector<std::uint32_t> partial;  // blocks with free objects that no thread owns
  };
  std::array<ClassList, heap_layout::kClasses> classes_;
};

/// Describes what has to become durable before a reservation can be made: a superblock, a segment
/// of blocks, a larger pool. The heap itself makes nothing durable; it says, step by step, what its
/// caller has to do:
///   Heap::Change change(heap, cache, bytes);
///   while (change.next()) { ... }
/// A step has happened when the next one is asked for. If an exception ends the change before then,
/// it ends with the previous step; the heap is consistent in either case, as it is after a crash
/// between two steps.
/// Threads: one. It holds the heap's lock: nobody else changes metadata meanwhile.
class Heap::Change {
 public:
  Change(Heap& heap, HeapCache& cache, std::uint64_t bytes);
  ~Change();
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  /// False: there is nothing more to do.
  bool next();

  // ---- the step: in this order, what of it is not empty -----------------------------------------
  /// Free space that becomes metadata: a transaction that still reads there must get a Conflict
  /// (Tx::outdate).
  Extent outdated{};
  /// To be made durable as one atomic record.
  MaskedWrites writes;
  /// How many segments are to be added to the pool; where there is no room for them,
  /// `least_segments`.
  std::uint64_t segments = 0;
  std::uint64_t least_segments = 0;

 private:
  enum class Kind : std::uint8_t {
    kNone,  // another thread was quicker
    kActivate,
    kFormat,
    kReclaim,  // or, where there is nothing to reclaim, kGrow
    kGrow,
  };
  void plan_for_blocks(std::size_t size_class, std::uint64_t blocks);
  void grow_by(std::uint64_t least);
  bool prepare();
  void activate();
  void format();
  bool reclaim();
  void done();
  void done_activating();
  void done_formatting();
  void put_back();

  Heap* heap_;
  HeapCache* cache_;
  std::unique_lock<Mutex> lock_;
  Kind kind_ = Kind::kNone;
  bool pending_ = false;         // a step was asked for, and has not happened
  bool last_ = false;            // no other follows it
  std::size_t size_class_ = 0;   // kActivate: of the superblock; kReclaim: whose list is looked at
  std::uint64_t at_ = 0;         // kActivate, kReclaim: the block; kFormat: the segment
  std::uint64_t formatted_ = 0;  // kFormat: so many of its blocks
  std::size_t looked_at_ = 0;    // kReclaim: so many of that list
};

}  // namespace perdure
