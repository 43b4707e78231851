// SPDX-License-Identifier: BSD-3-Clause
// vector<T>: a growing array in persistent memory. Elements never move: memory comes in segments,
// each twice the size of the one before. Every push and pop writes the one size word, so concurrent
// ones conflict; concurrent set() of different elements do not.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "perdure/container/bytes.h"
#include "perdure/container/support.h"
#include "perdure/error.h"
#include "perdure/persistable.h"
#include "perdure/pptr.h"
#include "perdure/tx.h"

namespace perdure {

/// Lives in persistent memory (a root, a field, an element); all-zero bytes are the empty vector.
/// It owns its elements, not what links inside of them refer to; only clear() gives memory back.
/// Requires: the elements handed in do not lie in persistent memory.
/// Durable:  with the transaction.
/// Threads:  as the transaction.
template <class T>
class vector {
  static_assert(!std::is_same_v<T, bytes>,
                "perdure: a vector's elements have one size; take vector<perdure::string>");

 public:
  /// Errors: those of the transaction (kNoSpace; std::bad_alloc under PlainTx); then the vector is
  /// unchanged.
  template <Transaction Tx>
  void push_back(Tx& tx, const T& value) {
    const std::uint64_t size = tx.load(size_);
    Directory& directory = directory_or_new(tx);
    const Segment segment = segment_of(size);
    const std::uint64_t segments = tx.load(directory.count);
    if (segment.index >= kSegments || segments > kSegments) [[unlikely]]
      refuse();
    if (segment.index == segments) {
      void* memory = tx.allocate(segment.length * sizeof(T));
      tx.store(directory.segments[segment.index], tx.link_to(static_cast<T*>(memory)));
      tx.store(directory.count, segments + 1);
    }
    tx.store(size_, size + 1);
    Item::store(tx, place(tx, directory, segment, size), value);
  }

  /// Removes the last element and returns it. Errors: kInvalid when there is none.
  template <Transaction Tx>
  T pop_back(Tx& tx) {
    const std::uint64_t size = tx.load(size_);
    if (size == 0) throw Exception(Code::kInvalid, "vector: pop_back() of an empty vector");
    const T last = at(tx, size - 1);
    tx.store(size_, size - 1);
    return last;
  }

  /// Errors: kInvalid beyond the end, as all that take an index.
  template <Transaction Tx>
  T at(Tx& tx, std::uint64_t index) const {
    T value;
    Item::load(tx, element(tx, index), sizeof(T), value);
    return value;
  }
  template <Transaction Tx>
  void set(Tx& tx, std::uint64_t index, const T& value) {
    Item::store(tx, element(tx, index), value);
  }
  /// The element in place: for elements that are containers themselves. Holds until clear().
  template <Transaction Tx>
  T* element(Tx& tx, std::uint64_t index) const {
    const std::uint64_t size = tx.load(size_);
    if (index >= size)
      throw Exception(Code::kInvalid, "vector: index " + std::to_string(index) + " of " +
                                          std::to_string(size) + " elements");
    const Segment segment = segment_of(index);
    const pptr<Directory> directory = tx.load(directory_);
    if (!directory || segment.index >= kSegments) [[unlikely]]
      refuse();
    return place(tx, *tx.at(directory), segment, index);
  }

  template <Transaction Tx>
  std::uint64_t size(Tx& tx) const {
    return tx.load(size_);
  }
  template <Transaction Tx>
  bool empty(Tx& tx) const {
    return size(tx) == 0;
  }

  /// Calls `f(element)` for every element in order, until one call returns false. `f` may set
  /// elements.
  template <Transaction Tx, class F>
  void for_each(Tx& tx, F&& f) const {
    const std::uint64_t size = tx.load(size_);
    for (std::uint64_t i = 0; i < size; ++i) {
      const T value = at(tx, i);
      if (!detail::keep_going(f, value)) return;
    }
  }

  /// Frees everything. A small transaction whatever the size: one free per segment.
  template <Transaction Tx>
  void clear(Tx& tx) {
    const pptr<Directory> at = tx.load(directory_);
    if (!at) return;
    Directory& directory = *tx.at(at);
    const std::uint64_t segments = tx.load(directory.count);
    if (segments > kSegments) [[unlikely]]
      refuse();
    for (std::uint64_t i = 0; i < segments; ++i) tx.free(tx.at(tx.load(directory.segments[i])));
    tx.free(&directory);
    tx.store(directory_, {});
    tx.store(size_, 0);
  }

  /// Verifies the vector's own fields and calls `visit(offset)` for each heap object that it owns,
  /// before it looks into it. Returns what is wrong first, if anything.
  template <Transaction Tx, class F>
  std::optional<std::string> audit(Tx& tx, F&& visit) const {
    const std::uint64_t size = tx.load(size_);
    const pptr<Directory> at = tx.load(directory_);
    if (!at) {
      if (size == 0) return std::nullopt;
      return "vector: claims " + std::to_string(size) + " elements, but has no memory";
    }
    if (!detail::room_at(visit, at).holds(sizeof(Directory)))
      return "vector: its directory overruns its object";
    const Directory& directory = *tx.at(at);
    const std::uint64_t segments = tx.load(directory.count);
    if (segments > kSegments) return "vector: claims " + std::to_string(segments) + " segments";
    const std::uint64_t room = segments == 0 ? 0 : (kFirst << segments) - kFirst;
    if (size > room)
      return "vector: claims " + std::to_string(size) + " elements, but has memory for " +
             std::to_string(room);
    for (std::uint64_t i = 0; i < segments; ++i) {
      if (!detail::room_at(visit, tx.load(directory.segments[i])).holds((kFirst << i) * sizeof(T)))
        return "vector: segment " + std::to_string(i) + " overruns its object";
    }
    return std::nullopt;
  }

 private:
  friend detail::Salvage<vector>;
  using Item = detail::Item<T>;
  static constexpr std::uint64_t kFirst = 8;
  static constexpr std::size_t kSegments = 42;

  /// Segment i holds 8 << i elements.
  struct Segment {
    std::size_t index;
    std::uint64_t first;
    std::uint64_t length;
  };
  static constexpr Segment segment_of(std::uint64_t index) {
    const std::uint64_t length = std::bit_floor(index / kFirst + 1) * kFirst;
    return {static_cast<std::size_t>(std::countr_zero(length / kFirst)), length - kFirst, length};
  }

  struct Directory {
    std::uint64_t count;
    std::array<pptr<T>, kSegments> segments;
  };

  [[noreturn, gnu::cold]] static void refuse() {
    throw Exception(Code::kCorrupt,
                    "vector: its size and its memory do not agree; the pool is damaged, run "
                    "`perdure check` on it");
  }
  template <class Tx>
  static T* place(Tx& tx, const Directory& directory, const Segment& segment, std::uint64_t index) {
    const pptr<T> elements = tx.load(directory.segments[segment.index]);
    if (!elements) [[unlikely]]
      refuse();
    T* const first = tx.at(elements);
    detail::check_bytes(tx, first, (index - segment.first + 1) * sizeof(T));
    return first + (index - segment.first);
  }
  template <class Tx>
  Directory& directory_or_new(Tx& tx) {
    if (const pptr<Directory> at = tx.load(directory_)) return *tx.at(at);
    auto* directory = static_cast<Directory*>(tx.allocate(sizeof(Directory)));
    tx.store(directory->count, 0);
    tx.store(directory_, tx.link_to(directory));
    return *directory;
  }

  std::uint64_t size_ = 0;
  pptr<Directory> directory_;
};

template <class T>
inline constexpr bool is_persistable_by_promise<vector<T>> = detail::Item<T>::require();

}  // namespace perdure
