// SPDX-License-Identifier: BSD-3-Clause
// The layer BASE of NV-heaps (§5.4): relative pointers and plain fields in a mapped file, or in memory that is check-pointed. Memory
// is managed by hand, nothing is counted, checked or atomic; durable is what a checkpoint saved. The other layers are those of
// perdure/object.h (safe_layer.h); the workloads are templates over either.
//
// RawLayer<true> also remembers which lines of 64 bytes are read: see TouchedLines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_set>

#include "bench/system.h"
#include "papers/nvheaps/evaluation/checkpointed_memory.h"
#include "papers/nvheaps/evaluation/heap_setting.h"
#include "perdure/base/words.h"

namespace perdure::bench::nvheaps {

/// The lines that the thread's counted layer has read: what an operation could miss in a cache at most.
class TouchedLines {
 public:
  static void note(const void* at) {
    lines().insert(reinterpret_cast<std::uintptr_t>(at) / kLineBytes);
  }
  /// How many since the last call.
  static std::size_t take() {
    const std::size_t count = lines().size();
    lines().clear();
    return count;
  }

 private:
  static std::unordered_set<std::uintptr_t>& lines() {
    static thread_local std::unordered_set<std::uintptr_t> touched;
    return touched;
  }
};

/// A mapped file or check-pointed memory, given out front to back; what is freed is given out again by its size. What is free, too, is
/// told in the memory itself, by distances from its begin.
class RawMemory {
 public:
  explicit RawMemory(const HeapSetting& setting);
  /// Memory that was read back.
  explicit RawMemory(std::unique_ptr<CheckpointedMemory> saved);
  ~RawMemory();
  RawMemory(const RawMemory&) = delete;
  RawMemory& operator=(const RawMemory&) = delete;

  /// All zero. Errors: throws Exception kNoSpace.
  void* allocate(std::uint64_t bytes);
  /// Requires: allocated with as many bytes.
  void free(void* at, std::uint64_t bytes);
  void* root() { return begin_ + head().root; }
  void set_root(void* root) { head().root = distance_of(root); }
  /// Null unless HeapSetting::checkpoints.
  CheckpointedMemory* saved() const { return saved_.get(); }

  static inline thread_local constinit RawMemory* current = nullptr;

 private:
  static constexpr std::uint64_t kUnit = 16;
  static constexpr std::size_t kSizes = 128;  // above, nothing is used again

  struct Head {
    std::uint64_t used;
    std::uint64_t root;
    std::array<std::uint64_t, kSizes> free;  // by units; each holds the next one, 0: none
  };
  Head& head() { return *reinterpret_cast<Head*>(begin_); }
  std::uint64_t distance_of(const void* at) const {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - begin_);
  }

  std::optional<ScratchFile> file_;
  std::unique_ptr<CheckpointedMemory> saved_;
  std::byte* begin_ = nullptr;
  std::uint64_t bytes_;
};

template <class T>
class RawLocal {
 public:
  RawLocal(std::nullptr_t) {}  // NOLINT: null is null
  explicit RawLocal(T* at) : at_(at) {}
  T* operator->() const { return at_; }
  template <class Index>
  decltype(auto) operator[](Index index) const {
    return (*at_)[index];
  }
  explicit operator bool() const { return at_ != nullptr; }
  friend bool operator==(const RawLocal&, const RawLocal&) = default;
  T* raw() const { return at_; }

 private:
  T* at_ = nullptr;
};

template <class T, bool kCounted>
class RawField {
 public:
  RawField(const RawField&) = delete;
  operator T() const { return get(); }  // NOLINT: read like a T
  T get() const {
    if constexpr (kCounted) TouchedLines::note(this);
    return value_;
  }
  RawField& operator=(const T& value) {
    if constexpr (kCounted) TouchedLines::note(this);
    value_ = value;
    return *this;
  }
  RawField& operator=(const RawField& other) { return *this = other.get(); }
  RawField& operator+=(const T& by) { return *this = static_cast<T>(get() + by); }

 private:
  T value_;
};

/// As far from itself as its target is.
template <class T, bool kCounted>
class RawRef {
 public:
  RawRef(const RawRef&) = delete;
  RawLocal<T> get() const {
    if constexpr (kCounted) TouchedLines::note(this);
    if (distance_ == 0) return nullptr;
    return RawLocal<T>(reinterpret_cast<T*>(reinterpret_cast<std::intptr_t>(this) + distance_));
  }
  operator RawLocal<T>() const { return get(); }  // NOLINT: read like a pointer
  RawLocal<T> operator->() const { return get(); }
  explicit operator bool() const { return static_cast<bool>(get()); }
  friend bool operator==(const RawRef& a, const RawLocal<T>& b) { return a.get() == b; }
  friend bool operator==(const RawRef& a, std::nullptr_t) { return !a; }
  RawRef& operator=(const RawLocal<T>& to) {
    if constexpr (kCounted) TouchedLines::note(this);
    distance_ =
        to ? reinterpret_cast<std::intptr_t>(to.raw()) - reinterpret_cast<std::intptr_t>(this) : 0;
    return *this;
  }
  RawRef& operator=(const RawRef& to) { return *this = to.get(); }
  RawRef& operator=(std::nullptr_t) {
    distance_ = 0;
    return *this;
  }

 private:
  std::intptr_t distance_;
};

template <class E>
class RawArray {
 public:
  std::uint64_t size() const { return size_; }
  E& operator[](std::uint64_t index) { return reinterpret_cast<E*>(this + 1)[index]; }

 private:
  template <bool>
  friend struct RawLayer;
  std::uint64_t size_ = 0;
};

template <class Root>
class RawHeap {
 public:
  explicit RawHeap(const HeapSetting& setting) : memory_(setting) {
    root_ = static_cast<Root*>(memory_.allocate(sizeof(Root)));
    memory_.set_root(root_);
  }
  /// As the last checkpoint of another one has it.
  RawHeap(std::unique_ptr<CheckpointedMemory> saved, const HeapSetting&)
      : memory_(std::move(saved)), root_(static_cast<Root*>(memory_.root())) {}
  template <class Body>
  auto run(Body&& body) {
    RawMemory::current = &memory_;
    return body(RawLocal<Root>(root_));
  }
  template <class Body>
  auto read(Body&& body) {
    return run(body);
  }
  DomainCounts counts() const { return {}; }
  /// Null unless HeapSetting::checkpoints.
  CheckpointedMemory* saved() const { return memory_.saved(); }
  /// Requires: HeapSetting::checkpoints. As CheckpointedMemory::take().
  void save() { memory_.saved()->take(); }

 private:
  RawMemory memory_;
  Root* root_;
};

template <bool kCounted>
struct RawLayer {
  template <class T>
  struct Object {
    RawLocal<T> self() { return RawLocal<T>(static_cast<T*>(this)); }
  };
  template <class T>
  using Field = RawField<T, kCounted>;
  template <class T>
  using Ref = RawRef<T, kCounted>;
  template <class T>
  using WeakRef = RawRef<T, kCounted>;
  template <class T>
  using Local = RawLocal<T>;
  template <class T>
  using Handle = RawLocal<T>;
  template <class E>
  using Array = RawArray<E>;
  template <class Root>
  using Heap = RawHeap<Root>;

  template <class T>
  static RawLocal<T> make() {
    return RawLocal<T>(static_cast<T*>(RawMemory::current->allocate(sizeof(T))));
  }
  template <class E>
  static RawLocal<RawArray<E>> make_array(std::uint64_t size) {
    auto* const made = static_cast<RawArray<E>*>(
        RawMemory::current->allocate(sizeof(RawArray<E>) + size * sizeof(E)));
    made->size_ = size;
    return RawLocal<RawArray<E>>(made);
  }
  /// Nothing leads there any more: by hand here, by counting in the other layers.
  template <class T>
  static void end(const RawLocal<T>& object) {
    RawMemory::current->free(object.raw(), sizeof(T));
  }
};
using BaseLayer = RawLayer<false>;
using CountedLayer = RawLayer<true>;

}  // namespace perdure::bench::nvheaps
