// SPDX-License-Identifier: BSD-3-Clause
// ArenaHeap: the allocator of an arena, and its roots. All of its state lies in the arena itself,
// so when a crash takes an epoch back, it takes that epoch's allocations back.
//
// After the head and a table of chunks the arena consists of chunks of 16 KiB. A chunk is free, or
// cut into objects of one size class, or part of a larger object. Free chunks are runs, linked by
// size; the first and the last chunk of a run know its length, so that neighbours become one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "perdure/error.h"

namespace perdure::checkpoint {

class ArenaHeap final {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{16} << 10;
  static constexpr std::uint64_t kLeastCapacity = 8 * kChunkBytes;
  static constexpr std::size_t kRoots = 64;
  static constexpr std::size_t kNameBytes = 40;

  /// The largest size class; larger objects take whole chunks.
  static constexpr std::array<std::uint32_t, 30> kSizes = {
      16,  32,  48,  64,  80,   96,   112,  128,  160,  192,  224,  256,  320,  384,  448,
      512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2304, 2720, 3264, 4096, 5456, 8192};

  /// Opens the heap in [base, base + capacity). If the memory is `fresh`, all zeros, the heap is
  /// made there; otherwise it is checked first.
  /// Requires: at least kLeastCapacity; base aligned to kChunkBytes, and the address that pointers
  ///           in it mean.
  /// Errors: kVersion, kCorrupt (or of another size).
  static Result<ArenaHeap*> open(std::byte* base, std::uint64_t capacity, bool fresh);
  /// Returns what is wrong with its tables, as memory of so many bytes that belongs at `address`;
  /// empty: nothing. It only loads.
  std::string find_fault(std::uint64_t capacity, std::uint64_t address) const;
  std::string find_fault(std::uint64_t capacity) const {
    return find_fault(capacity, reinterpret_cast<std::uintptr_t>(this));
  }

  /// Makes damaged tables consistent, in a copy of the arena that is mapped anywhere and belongs at
  /// `address`. What may be an object is never given out again: where it cannot be told what is
  /// free, it is kept. Returns what was done. What find_fault() still says cannot be mended.
  std::vector<std::string> mend(std::uint64_t capacity, std::uint64_t address);
  /// Whether it looks like the heap of an arena of that size. Requires: the first page.
  bool has_head(std::uint64_t capacity) const {
    return magic_ == kMagic && capacity_ == capacity && first_offset_ == first_offset(capacity);
  }
  /// The arena's address in the process that had it open last. Requires: has_head().
  std::uint64_t recorded_address() const {
    return reinterpret_cast<std::uintptr_t>(resource_.heap());
  }

  /// Errors: throws Exception kNoSpace, kInvalid (alignment above 16 KiB). Threads: any.
  void* allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t));
  /// Requires: an object of allocate() that was not deallocated. An address that is plainly no
  ///           object stops the program.
  void deallocate(void* object);
  /// Resizes the object, with default alignment: in its place, or elsewhere with its contents. Null
  /// allocates one.
  /// Requires: as deallocate(). Errors: throws Exception kNoSpace; the object is as it was.
  void* resize(void* object, std::size_t bytes);
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t capacity() const { return capacity_; }

  struct Root {
    char name[kNameBytes];
    std::uint64_t type;
    std::uint64_t address;  // 0: a free entry
  };
  /// Returns null if there is none. Errors: throws kTypeMismatch, kCorrupt.
  void* root(std::string_view name, std::uint64_t type);
  /// Null removes the root. Errors: throws kInvalid (name, or an address outside), kNoSpace.
  void set_root(std::string_view name, std::uint64_t type, void* object);
  /// Also the free ones.
  const std::array<Root, kRoots>& roots() const { return roots_; }
  /// How many objects there are. Requires: no fault.
  std::uint64_t count_objects() const;

  std::pmr::memory_resource* resource() { return &resource_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kBins = 32;
  enum class Kind : std::uint8_t { kFree, kFreeLast, kInside, kObjects, kLarge };
  struct Chunk {
    Kind kind;
    std::uint8_t size_class;
    std::uint16_t used;       // objects
    std::uint16_t free_head;  // the first object that was given back; kNoObject: none
    std::uint16_t carved;     // objects that were ever given out
    std::uint32_t count;      // chunks of this run or large object; in a run's last chunk, too
    std::uint32_t next, prev;
  };
  class Resource final : public std::pmr::memory_resource {
   public:
    explicit Resource(ArenaHeap& heap) : heap_(&heap) {}
    const ArenaHeap* heap() const { return heap_; }

   private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
      return heap_->allocate(bytes, alignment);
    }
    void do_deallocate(void* object, std::size_t, std::size_t) override {
      heap_->deallocate(object);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override {
      return this == &other;
    }
    ArenaHeap* heap_;
  };

  ArenaHeap(std::uint64_t capacity);
  Chunk* chunks() { return reinterpret_cast<Chunk*>(this + 1); }
  const Chunk* chunks() const { return reinterpret_cast<const Chunk*>(this + 1); }
  std::byte* address_of(std::uint32_t chunk);
  /// Finds an object. An address that is plainly no object stops the program.
  std::uint32_t chunk_of(const void* object) const;
  void* take_object(std::uint8_t size_class);
  std::uint32_t take_run(std::uint32_t count);
  void give_run(std::uint32_t first, std::uint32_t count);
  void link(std::uint32_t& head, std::uint32_t chunk);
  void unlink(std::uint32_t& head, std::uint32_t chunk);
  const std::byte* address_of(std::uint32_t chunk) const {
    return const_cast<ArenaHeap*>(this)->address_of(chunk);
  }
  Root* find_root(std::string_view name);
  bool has_sound_objects(std::uint32_t at) const;
  bool is_listed(std::uint32_t at, std::uint32_t head) const;

  static constexpr std::uint64_t kMagic = 0x0a50414548415250;  // "PRAHEAP\n"
  static constexpr std::uint64_t kVersion = 1;
  static constexpr std::uint16_t kNoObject = 0xffff;
  static std::uint64_t first_offset(std::uint64_t capacity);

  std::uint64_t magic_;
  std::uint64_t version_;
  std::uint64_t capacity_;
  std::uint64_t first_offset_;  // of chunk 0
  std::uint32_t chunk_count_;
  std::uint32_t reserved_;
  std::uint64_t used_bytes_;
  std::array<std::uint32_t, kSizes.size()> partial_;  // chunks with a free object, by class
  std::array<std::uint32_t, kBins> bins_;             // free runs, by the logarithm of their length
  std::array<Root, kRoots> roots_;
  // Of this process only: made anew by open().
  Resource resource_;
  std::mutex mutex_;
};

}  // namespace perdure::checkpoint
