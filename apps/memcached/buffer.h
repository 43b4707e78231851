// SPDX-License-Identifier: BSD-3-Clause
// Bytes on their way to a client. Grows without zeroing, and its memory is used again.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace perdure::memcached {

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() { return bytes_.get(); }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view view() const { return {bytes_.get(), size_}; }
  std::size_t capacity() const { return capacity_; }

  /// Room for `count` more bytes, whose content is undefined, now part of the buffer. Throws: std::bad_alloc.
  char* grow(std::size_t count) {
    reserve_more(count);
    char* const here = bytes_.get() + size_;
    size_ += count;
    return here;
  }
  void append(std::string_view text) {
    if (!text.empty()) std::memcpy(grow(text.size()), text.data(), text.size());
  }
  void append(char c) { *grow(1) = c; }
  void append_number(std::uint64_t number) {
    char* const here = grow(kDigits);
    size_ -=
        static_cast<std::size_t>(here + kDigits - std::to_chars(here, here + kDigits, number).ptr);
  }
  /// Gives up what stands behind the first `size` bytes.
  void cut(std::size_t size) { size_ = size; }
  /// Gives up the first `count` bytes.
  void consume(std::size_t count) {
    if (count == 0) return;
    size_ -= count;
    if (size_ > 0) std::memmove(bytes_.get(), bytes_.get() + count, size_);
  }
  void reserve_more(std::size_t count) {
    if (capacity_ - size_ >= count) return;
    const std::size_t capacity = std::max({2 * capacity_, size_ + count, kLeast});
    std::unique_ptr<char[]> bytes(new char[capacity]);
    if (size_ > 0) std::memcpy(bytes.get(), bytes_.get(), size_);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  }
  /// Empties it, and gives back memory that only large values need.
  void reset() {
    size_ = 0;
    if (capacity_ <= kMost) return;
    bytes_.reset();
    capacity_ = 0;
  }
  void swap(Buffer& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  static constexpr std::size_t kDigits = 20;
  static constexpr std::size_t kLeast = 2048;
  static constexpr std::size_t kMost = 64 << 10;

  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace perdure::memcached
