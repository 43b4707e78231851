// SPDX-License-Identifier: BSD-3-Clause
// bytes: the type that stands for "a byte string of any length" as a key or value of a container.
// What goes in and is handed to callbacks is a std::string_view, what comes out is a std::string;
// zeros and the empty string are as good as any other bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "perdure/persistable.h"
#include "perdure/tx.h"

namespace perdure {

// The names below are those of the standard library's manner, as all containers'.
struct bytes;  // NOLINT(readability-identifier-naming)

namespace detail {

/// How a key or value of type T is seen, kept and found in persistent memory.
template <class T>
struct Item {
  static constexpr bool kVariable = false;
  static constexpr bool kField = Field<T>;
  /// Equal values have equal bytes.
  static constexpr bool kUnique = std::has_unique_object_representations_v<T>;
  using View = const T&;
  using Owned = T;

  static constexpr bool require() {
    require_persistable<T>();
    static_assert(alignof(T) <= 8,
                  "perdure: an item of a container may be aligned to at most 8 bytes");
    return true;
  }
  static std::size_t size(View) { return sizeof(T); }
  static const void* data(View item) { return &item; }

  template <class Tx>
  static void load(Tx& tx, const void* from, std::size_t, Owned& to) {
    if constexpr (kField) {
      to = tx.load(*static_cast<const T*>(from));
    } else {
      tx.read(&to, from, sizeof(T));
    }
  }
  template <class Tx>
  static void store(Tx& tx, void* to, View item) {
    if constexpr (kField) {
      tx.store(*static_cast<T*>(to), item);
    } else {
      tx.write(to, &item, sizeof(T));
    }
  }
};

template <>
struct Item<bytes> {
  static constexpr bool kVariable = true;
  static constexpr bool kField = false;
  static constexpr bool kUnique = true;
  using View = std::string_view;
  using Owned = std::string;

  static constexpr bool require() { return true; }
  static std::size_t size(View item) { return item.size(); }
  static const void* data(View item) { return item.data(); }

  template <class Tx>
  static void load(Tx& tx, const void* from, std::size_t size, Owned& to) {
    // Before memory is taken for it: a damaged length may be anything.
    if constexpr (requires { tx.check(from, size); }) tx.check(from, size);
    to.resize(size);
    tx.read(to.data(), from, size);
  }
  /// Calls `f` with the bytes where they stand, if that is possible.
  template <class Tx, class F>
  static void view(Tx& tx, const void* from, std::size_t size, F& f) {
    if constexpr (requires { tx.view(from, size, f); }) {
      tx.view(from, size, f);
    } else {
      std::string value;
      load(tx, from, size, value);
      f(View(value));
    }
  }
  template <class Tx>
  static void store(Tx& tx, void* to, View item) {
    tx.write(to, item.data(), item.size());
  }
};

}  // namespace detail

/// How an item is handed in: std::string_view for bytes, const T& for a fixed T.
template <class T>
using view_t = typename detail::Item<T>::View;  // NOLINT(readability-identifier-naming)
/// How an item is handed out: std::string for bytes, T for a fixed T.
template <class T>
using owned_t = typename detail::Item<T>::Owned;  // NOLINT(readability-identifier-naming)

}  // namespace perdure
