// SPDX-License-Identifier: BSD-3-Clause
// GrowingArray: what a transaction keeps of std::vector: plain values that are appended, looked at
// and forgotten. It is part of perdure/pool.h, where <vector>, and what the compiler makes of it
// for five types, would cost every user as much as the rest.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "perdure/base/words.h"

namespace perdure {

/// Throws: std::bad_alloc where it grows; nothing has changed then. No memory is given back before
///         it is destroyed.
/// Threads: one.
template <class T>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T> &&
                alignof(T) <= alignof(std::max_align_t));

 public:
  using value_type = T;  // NOLINT(readability-identifier-naming): as ranges are asked

  GrowingArray() = default;
  GrowingArray(const GrowingArray& other) { *this = other; }
  GrowingArray(GrowingArray&& other) noexcept { swap(other); }
  GrowingArray& operator=(const GrowingArray& other) {
    if (this == &other) return *this;
    reserve(other.size_);
    if (other.size_ != 0) std::memcpy(items_, other.items_, other.size_ * sizeof(T));
    size_ = other.size_;
    return *this;
  }
  GrowingArray& operator=(GrowingArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~GrowingArray() { std::free(items_); }
  void swap(GrowingArray& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  T* data() { return items_; }
  const T* data() const { return items_; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }
  T& operator[](std::size_t index) { return items_[index]; }
  const T& operator[](std::size_t index) const { return items_[index]; }
  T& front() { return items_[0]; }
  const T& front() const { return items_[0]; }
  T& back() { return items_[size_ - 1]; }
  const T& back() const { return items_[size_ - 1]; }

  void push_back(T item) { append() = item; }
  /// One more, whose value the caller stores.
  T& append() {
    if (size_ == capacity_) [[unlikely]]
      grow(size_ + 1);
    return items_[size_++];
  }
  bool has_room() const { return size_ < capacity_; }
  /// push_back() that calls nothing. Requires: has_room().
  void push_in_room(T item) { items_[size_++] = item; }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  /// Requires: not more than there are.
  void shrink(std::size_t size) { size_ = size; }
  /// The first `size` are there from now on. Requires: they were stored through data(), and reserved.
  void assume_size(std::size_t size) { size_ = size; }
  void reserve(std::size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }
  /// `size` copies of `item`, in place of what was there.
  void assign(std::size_t size, const T& item) {
    reserve(size);
    for (std::size_t i = 0; i < size; ++i) items_[i] = item;
    size_ = size;
  }

 private:
  [[gnu::noinline]] void grow(std::size_t least) {
    const std::size_t capacity = least > 2 * capacity_ ? least : 2 * capacity_;
    void* const items = std::realloc(static_cast<void*>(items_), capacity * sizeof(T));
    if (items == nullptr) throw std::bad_alloc();
    items_ = static_cast<T*>(items);
    capacity_ = capacity;
  }

  T* items_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// What a transaction writes.
using MaskedWrites = GrowingArray<MaskedWrite>;

}  // namespace perdure
