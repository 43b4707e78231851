// SPDX-License-Identifier: BSD-3-Clause
// array<E>: an object of elements, as many as it was made with: array<field<T>> for primitive data
// (text: array<char>), array<ref<T>>, array<weak_ref<T>>. It is NV-heaps' answer to objects that
// are small compared with their header.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "perdure/object/field.h"
#include "perdure/object/pointers.h"

namespace perdure {

/// Made by object_heap::make_array. Threads and durability: as any object.
template <class E>
class array {
  static_assert(detail::MemberTraits<E>::kIsMember && detail::MemberTraits<E>::kCount == 1,
                "perdure: an array is of field<T>, ref<T> or weak_ref<T>");

 public:
  array() = delete;
  void operator&() const = delete;

  std::uint64_t size() const {
    detail::Session& session = detail::session_of(this, sizeof(*this));
    const std::uint64_t size = session.load(size_);
    if (size > session.bytes / sizeof(E)) [[unlikely]]
      detail::ObjectCore::refuse_damage(session, "an array's size");
    return size;
  }
  /// Errors: throws Exception kInvalid beyond the end.
  E& operator[](std::uint64_t index) {
    if (index >= size()) [[unlikely]]
      detail::ObjectCore::refuse_index(index, size());
    return elements()[index];
  }
  const E& operator[](std::uint64_t index) const { return const_cast<array&>(*this)[index]; }

  /// Values in a row. Errors: throws Exception kInvalid beyond the end.
  template <class T>
  void read(std::uint64_t from, T* to, std::uint64_t count) const
    requires std::same_as<E, field<T>>
  {
    detail::Session& session = range(from, count);
    const auto* const at = reinterpret_cast<const T*>(const_cast<array&>(*this).elements()) + from;
    if (session.tx != nullptr) {
      session.tx->read(to, at, count * sizeof(T));
    } else {
      std::copy_n(at, count, to);
    }
  }
  template <class T>
  void write(std::uint64_t at, const T* from, std::uint64_t count)
    requires std::same_as<E, field<T>>
  {
    detail::Session& session = range(at, count);
    T* const to = reinterpret_cast<T*>(elements()) + at;
    if (session.tx != nullptr) {
      session.tx->write(to, from, count * sizeof(T));
    } else {
      std::copy_n(from, count, to);
    }
  }
  std::string text() const
    requires std::same_as<E, field<char>>
  {
    std::string text(size(), '\0');
    read(0, text.data(), text.size());
    return text;
  }

 private:
  friend class detail::ObjectCore;
  detail::Session& range(std::uint64_t from, std::uint64_t count) const {
    const std::uint64_t here = size();
    if (from > here || count > here - from) [[unlikely]]
      detail::ObjectCore::refuse_index(from + count, here);
    return detail::session_of(this, sizeof(*this) + (from + count) * sizeof(E));
  }
  E* elements() { return reinterpret_cast<E*>(reinterpret_cast<std::byte*>(this) + sizeof(*this)); }

  std::uint64_t size_;
};

/// Text: an array of characters.
using chars = array<field<char>>;

}  // namespace perdure
