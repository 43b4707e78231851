// SPDX-License-Identifier: BSD-3-Clause
// Heap: a crash-consistent allocator after Hoard: 8 KiB superblocks of one size class with a
// persistent bitmap each, kept apart from the data; extents of blocks, and whole segments, for what
// is larger.
//
// Reserve, then publish. reserve() takes space in volatile memory only; the caller's transaction
// publishes it by committing the masked writes of publish_writes() together with the pointer that
// receives it. A cut before that commit leaves nothing to give back: the bitmap never knew. Free is
// the mirror image: the bits are cleared by the commit, and only then can the space be reserved
// again.
//
// All that is volatile here (free bits, lists, owners) is rebuilt by open(), which reads and checks
// every word of metadata. Source: Mnemosyne (ASPLOS 2011) §4.3. Deviation: extents instead of
// dlmalloc for large objects.
// Threads: any; each brings its own Cache.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "perdure/base/masked_write.h"
#include "perdure/error.h"
#include "perdure/heap/layout.h"
#include "perdure/region/region.h"

namespace perdure {

/// The superblocks that a thread allocates from. Give it back with Heap::release_cache().
struct HeapCache {
  std::array<std::uint32_t, heap_layout::kClasses> block{};  // 1 + global block number; 0: none
};

class Heap {
 public:
  /// What the heap needs from the floor above, called a few times per megabyte allocated.
  struct Services {
    /// Makes `writes` durable as one atomic record of its own; throws Exception when the storage
    /// fails.
    std::function<void(std::span<const MaskedWrite>)> publish;
    /// Called before free space becomes metadata; see Tx::outdate. May throw Conflict; nothing has
    /// changed then.
    std::function<void(Offset begin, std::uint64_t bytes)> outdate;
    /// Region::grow with the pool's domain.
    std::function<Result<void>(std::uint64_t segments)> grow;
  };

  using Cache = HeapCache;

  struct Usage {
    std::uint64_t objects = 0;
    std::uint64_t object_bytes = 0;  // rounded up to size classes and extents
    std::uint64_t segments = 0;
    std::uint64_t free_blocks = 0;
  };

  Heap(Region& region, Services services);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Rebuilds the volatile indexes from the metadata, checking every word of it.
  /// Errors: kCorrupt, naming the first bad word's file offset, or all of them in `findings` when
  ///         given.
  Result<void> open(std::vector<std::string>* findings = nullptr);

  /// Takes space for `bytes` (16-byte aligned), contents undefined. Volatile until published.
  /// Errors: throws Exception kNoSpace (pool unchanged), kInvalid (0 bytes), kPoisoned.
  Offset reserve(Cache& cache, std::uint64_t bytes);
  /// Gives a reservation back that was not published.
  void cancel(Offset object);
  /// Appends the writes that make a reservation permanent.
  void publish_writes(Offset object, std::vector<MaskedWrite>& out) const;

  /// Throws Exception kMisuse unless `object` is the start of a live object: catches double free
  /// and foreign offsets.
  void check_live(Offset object) const;
  /// Whether a live object starts at `object` and has room for `bytes`.
  bool holds(Offset object, std::uint64_t bytes) const;
  /// Appends the writes that free a live object. Requires: check_live(object).
  void free_writes(Offset object, std::vector<MaskedWrite>& out) const;
  /// Makes the space of a freed object reservable. Call once the free is durable.
  void release(Offset object);

  struct Extent {
    Offset begin;
    std::uint64_t bytes;
  };
  /// The object that `at` lies in, live or not; of one larger than kMostKept, and where there is none, an aligned part around `at`.
  /// Threads: any; where the heap changes meanwhile, either answer.
  Extent object_around(Offset at) const;
  static constexpr std::uint64_t kMostKept = 512;

  /// Bytes that belong to the live or reserved object at `object`.
  std::uint64_t usable_bytes(Offset object) const;
  void release_cache(Cache& cache);

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
  Offset class_word_offset(std::uint64_t block) const;
  Offset bitmap_offset(std::uint64_t block) const;
  Offset block_offset(std::uint64_t block) const;
  Block& block_at(std::uint64_t block) const;
  /// Requires: blocks_mutex_.
  void set_free(std::uint64_t block, bool free) const;
  struct Place;
  Place locate(Offset object) const;

  Offset take_bit(std::uint32_t block);
  std::uint32_t acquire_block(std::size_t size_class);
  std::uint32_t activate_block(std::size_t size_class);
  void disown(std::uint32_t block);
  Offset reserve_extent(std::uint64_t blocks);
  Offset reserve_huge(std::uint64_t segments);
  std::uint64_t find_blocks(std::uint64_t count);
  void format_segment(std::uint64_t index);
  void grow_by(std::uint64_t segments);
  std::uint32_t take_empty_block(std::size_t size_class, std::size_t& at);
  bool reclaim_empty_blocks();
  void add_segment(std::uint64_t index, heap_layout::SegmentKind kind, std::uint64_t argument);
  Result<void> open_segment(std::uint64_t index, std::vector<std::string>* findings);

  Region* region_;
  Services services_;
  std::uint64_t blocks_per_segment_;
  std::uint64_t meta_blocks_;
  std::unique_ptr<std::atomic<Segment*>[]> segments_;
  std::vector<std::unique_ptr<Segment>> replaced_;  // by add_segment()
  std::uint64_t segment_count_ = 0;                 // under blocks_mutex_
  std::uint64_t search_from_ = 0;                   // no free block in any segment before this one
  mutable std::mutex blocks_mutex_;                 // who is what: free blocks, extents, segments
  struct ClassList {
    std::mutex mutex;
    std::vector<std::uint32_t> partial;  // blocks with free objects that no thread owns
  };
  std::array<ClassList, heap_layout::kClasses> classes_;
};

}  // namespace perdure
