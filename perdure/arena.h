// SPDX-License-Identifier: BSD-3-Clause
// Arena: ordinary memory that survives crashes. It is a heap at a fixed address, in which std::
// containers, C structures and pointers between them live as they are. The whole of it is saved
// every few milliseconds, or when the program asks.
//
//   auto arena = perdure::Arena::open_or_create("words.arena").value();
//   using Words = std::vector<int, perdure::arena_allocator<int>>;
//   Words& words = arena.make_root<Words>("words");  // there from the second run on
//   words.push_back(7);
//   arena.persist().value();
//
// After a crash the whole arena is as it was at the end of one epoch, the last that was committed.
// There are no transactions: what belongs together must be consistent when an epoch ends.
//   - Without a timer (epoch zero) epochs end in persist() only. The program calls it where its
//     structures are consistent and no other thread is changing them.
//   - With a timer, or with several threads, each thread that changes the arena holds a Guard from
//     before the first store of a change to after the last; no epoch ends meanwhile. Reading needs
//     no Guard. persist() must not be called inside one.
//
// C programs meet arenas through perdure/arena_c.h.
//
// Not for: changes that must each be durable when they return (use a Pool); objects that point out
// of the arena, to functions or virtual tables, or to things of this process only (locks, files,
// threads): the next run has others; files from strangers: what is in an arena is pointers, and
// only the tables of the heap are checked.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "perdure/checkpoint/arena_heap.h"
#include "perdure/checkpoint/dirty_pages.h"
#include "perdure/checkpoint/epochs.h"
#include "perdure/checkpoint/gate.h"
#include "perdure/error.h"
#include "perdure/type_id.h"

namespace perdure {

/// What a committed epoch survives. kProcess: the end of the process for any reason; a power cut
/// then takes back some of the newest epochs, each as a whole. kPower: a power cut as well; each
/// commit waits for the device.
enum class ArenaDurable : std::uint8_t { kProcess, kPower };
using ArenaTracking = checkpoint::Tracking;
using ArenaStats = checkpoint::EpochStats;

struct ArenaOptions {
  /// The length of an epoch. Zero: epochs end by persist() only.
  std::chrono::milliseconds epoch{0};
  ArenaDurable durable = ArenaDurable::kPower;
  /// How written pages are found. kAuto: as the kernel allows; see Arena::tracking().
  ArenaTracking tracking = ArenaTracking::kAuto;
  /// How much log is written before it is brought home; it bounds what an opening reads. 0: a
  /// quarter of the capacity, 256 KiB to 64 MiB.
  std::uint64_t log_bytes = 0;
  /// Opens an arena also if epochs that survived are lost by damage, with the newest one that can be
  /// proved; see lost_epochs().
  bool accept_older = false;

  // At creation only:
  std::uint64_t capacity_bytes = std::uint64_t{256} << 20;  // it does not grow
  /// Its address in every process that opens it, a multiple of 2 MiB. 0: a free place is drawn.
  std::uintptr_t address = 0;
  unsigned mode = 0600;
};

/// The allocator of containers in an arena. Two are equal when they belong to the same arena.
template <class T>
class arena_allocator {
 public:
  using value_type = T;
  explicit arena_allocator(checkpoint::ArenaHeap& heap) noexcept : heap_(&heap) {}
  template <class U>
  arena_allocator(const arena_allocator<U>& other) noexcept : heap_(other.heap()) {}  // NOLINT

  /// Errors: throws Exception kNoSpace.
  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw Exception(Code::kNoSpace, "more objects than there are bytes");
    return static_cast<T*>(heap_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* objects, std::size_t) noexcept { heap_->deallocate(objects); }
  checkpoint::ArenaHeap* heap() const noexcept { return heap_; }
  template <class U>
  bool operator==(const arena_allocator<U>& other) const noexcept {
    return heap_ == other.heap();
  }

 private:
  checkpoint::ArenaHeap* heap_;  // in the arena: the same address in every run
};

class Arena {
 public:
  /// Creates the file, whole or not at all, and opens it. It takes capacity_bytes and the log's
  /// bytes on disk.
  /// Errors: kExists, kInvalid, kBusy (the address is taken), kIo, kNoSpace.
  static Result<Arena> create(const std::string& path, const ArenaOptions& options = {});
  /// Opens, validates and recovers. With kPower an epoch that is missing although a later one was
  /// begun is damage, and refused.
  /// Errors: kNotFound, kBusy (in use, with the holder's pid; or its addresses are taken in this
  ///         process), kForeign, kVersion, kTruncated, kCorrupt, kIo, kPoisoned (the storage
  ///         refuses what recovery writes).
  static Result<Arena> open(const std::string& path, const ArenaOptions& options = {});
  static Result<Arena> open_or_create(const std::string& path, const ArenaOptions& options = {});

  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  /// Closes the arena without ending an epoch: what was changed since the last one is not saved,
  /// because nobody knows whether it is consistent. Call persist() first. Pointers into the arena
  /// mean nothing any more.
  ~Arena();

  /// Ends an epoch and waits until it is committed.
  /// Errors: kMisuse (inside a Guard of this thread, or in a forked child), kPoisoned: a write or
  ///         sync failed, now or before, and nothing is saved any more. The memory can still be
  ///         used.
  /// Threads: any, outside of guards. Calls at the same time share an epoch.
  Result<void> persist();

  /// Keeps epochs from ending. Guards nest, and begin and end on one thread.
  class [[nodiscard]] Guard {
   public:
    explicit Guard(Arena& arena) : gate_(arena.gate_) { gate_->enter(); }
    ~Guard() { gate_->leave(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    checkpoint::Gate* gate_;
  };
  Guard pause() { return Guard(*this); }
  /// The same, where a change does not begin and end in one scope.
  void enter() { gate_->enter(); }
  void leave() { gate_->leave(); }
  bool entered_here() const { return gate_->entered_here(); }

  /// Errors: throws Exception kNoSpace, kInvalid (alignment above 16 KiB). Threads: any, inside a
  ///         Guard as any change.
  void* allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
    return heap_->allocate(bytes, alignment);
  }
  /// An object that allocate() gave; what is plainly none stops the program.
  void deallocate(void* object) { heap_->deallocate(object); }
  /// Gives the object so many bytes, in its place or moved, as realloc() does. Errors: throws
  /// Exception kNoSpace.
  void* resize(void* object, std::size_t bytes) { return heap_->resize(object, bytes); }
  template <class T = std::byte>
  arena_allocator<T> allocator() const {
    return arena_allocator<T>(*heap_);
  }
  /// The same for std::pmr containers.
  std::pmr::memory_resource* resource() const { return heap_->resource(); }

  /// The object that was set as root `name`; null: none was.
  /// Errors: throws Exception kTypeMismatch, kInvalid (a name has 1 to 39 bytes).
  template <class T>
  T* root(std::string_view name) const {
    return static_cast<T*>(root_of(name, type_id<T>()));
  }
  /// Null takes the root away; the object stays. Errors: throws Exception kInvalid (an object
  /// outside), kNoSpace.
  template <class T>
  void set_root(std::string_view name, T* object) {
    set_root_of(name, type_id<T>(), object);
  }
  /// The same for a type that only the caller knows; `type` is type_id_of(its name, its size).
  void* root_of(std::string_view name, std::uint64_t type) const { return heap_->root(name, type); }
  void set_root_of(std::string_view name, std::uint64_t type, void* object) {
    heap_->set_root(name, type, object);
  }
  /// Returns the root, made of `arguments` if there is none; a container of arena_allocator gets
  /// the allocator, too.
  template <class T, class... Arguments>
  T& make_root(std::string_view name, Arguments&&... arguments) {
    const auto guard = pause();
    if (T* object = root<T>(name)) return *object;
    T* object = make<T>(std::forward<Arguments>(arguments)...);
    set_root(name, object);
    return *object;
  }
  template <class T, class... Arguments>
  T* make(Arguments&&... arguments) {
    const auto guard = pause();
    void* memory = allocate(sizeof(T), alignof(T));
    try {
      return new (memory) T(std::make_obj_using_allocator<T>(
          allocator<std::byte>(), std::forward<Arguments>(arguments)...));
    } catch (...) {
      deallocate(memory);
      throw;
    }
  }

  ArenaStats epoch() const;
  /// How many epochs were committed and then lost, as opening found it: by damage, if accept_older
  /// allowed that, or with kProcess by a power cut. At least so many: of what is gone, nobody knows.
  std::uint64_t lost_epochs() const;
  ArenaTracking tracking() const;
  std::byte* address() const;
  std::uint64_t capacity() const { return heap_->capacity(); }
  std::uint64_t used_bytes() const { return heap_->used_bytes(); }

 private:
  struct Core;
  explicit Arena(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
  checkpoint::ArenaHeap* heap_;
  checkpoint::Gate* gate_;
};

}  // namespace perdure
