// SPDX-License-Identifier: BSD-3-Clause
// Kept: how a node of a map keeps a value: as it is or, if it is of any length, apart, in an object of its own. Then the node
// holds a link, and that is what moves when nodes split and merge.
#pragma once

#include <cstddef>
#include <cstdint>

#include "perdure/container/bytes.h"
#include "perdure/link.h"

namespace perdure::detail {

template <class V>
inline constexpr bool kIsApart = Item<V>::kVariable;

template <class V, bool = kIsApart<V>>
struct Kept {
  using Stored = V;
  template <class Tx>
  static Stored make(Tx&, const V& value) {
    return value;
  }
  template <class Tx>
  static void replace(Tx& tx, Stored& at, const V& value) {
    Item<V>::store(tx, &at, value);
  }
  template <class Tx>
  static const V& load(Tx&, const Stored& stored) {
    return stored;
  }
  template <class Tx>
  static void load_into(Tx&, const Stored& stored, V& value) {
    value = stored;
  }
  template <class Tx>
  static void drop(Tx&, const Stored&) {}
};

/// The object: its size, and the bytes.
template <class V>
struct Kept<V, true> {
  struct Object;
  using Stored = link<Object>;
  using View = typename Item<V>::View;
  using Owned = typename Item<V>::Owned;

 private:
  static constexpr std::size_t kHead = sizeof(std::uint64_t);

 public:
  /// Errors: those of an allocation; nothing has changed then.
  template <class Tx>
  static Stored make(Tx& tx, View value) {
    const std::size_t size = Item<V>::size(value);
    auto* object = static_cast<std::byte*>(tx.allocate(kHead + size));
    tx.store(*reinterpret_cast<std::uint64_t*>(object), std::uint64_t{size});
    Item<V>::store(tx, object + kHead, value);
    return tx.link_to(reinterpret_cast<Object*>(object));
  }
  /// Errors: as make().
  template <class Tx>
  static void replace(Tx& tx, Stored& at, View value) {
    const Stored fresh = make(tx, value);
    drop(tx, tx.load(at));
    tx.store(at, fresh);
  }
  template <class Tx>
  static Owned load(Tx& tx, Stored stored) {
    Owned value;
    load_into(tx, stored, value);
    return value;
  }
  template <class Tx>
  static void load_into(Tx& tx, Stored stored, Owned& value) {
    const std::byte* const object = begin(tx, stored);
    Item<V>::load(tx, object + kHead, size(tx, object), value);
  }
  template <class Tx>
  static void drop(Tx& tx, Stored stored) {
    tx.free(begin(tx, stored));
  }
  /// Whether an object of `room` bytes has room for what it says to hold.
  template <class Tx>
  static bool fits(Tx& tx, Stored stored, std::uint64_t room) {
    return room >= kHead && room - kHead >= size(tx, begin(tx, stored));
  }

 private:
  template <class Tx>
  static std::byte* begin(Tx& tx, Stored stored) {
    return reinterpret_cast<std::byte*>(tx.at(stored));
  }
  template <class Tx>
  static std::size_t size(Tx& tx, const std::byte* object) {
    return tx.load(*reinterpret_cast<const std::uint64_t*>(object));
  }
};

}  // namespace perdure::detail
