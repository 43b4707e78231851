// SPDX-License-Identifier: BSD-3-Clause
// What the containers share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "perdure/base/growing_array.h"
#include "perdure/base/words.h"
#include "perdure/container/bytes.h"
#include "perdure/pptr.h"

namespace perdure::detail {

/// Calls `f`; returns false when `f` returned false.
template <class F, class... Args>
bool keep_going(F& f, Args&&... args) {
  if constexpr (std::is_same_v<std::invoke_result_t<F&, Args...>, bool>) {
    return f(std::forward<Args>(args)...);
  } else {
    f(std::forward<Args>(args)...);
    return true;
  }
}

/// How many bytes an object may have been made for: more than `most` do not fit in, for fewer than
/// `least` it would be smaller.
struct Room {
  std::uint64_t least = 0;
  std::uint64_t most = ~std::uint64_t{0};

  Room() = default;
  Room(std::uint64_t bytes) : most(bytes) {}  // NOLINT: of visitors that know no more
  Room(std::uint64_t at_least, std::uint64_t at_most) : least(at_least), most(at_most) {}

  bool holds(std::uint64_t bytes) const { return bytes <= most; }
  bool fits(std::uint64_t bytes) const { return least <= bytes && bytes <= most; }
};

/// Calls `visit(offset)`; returns the room of the object as `visit` returned it, or no limit when it
/// returns nothing.
template <class F, class Link>
Room room_at(F& visit, Link at) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, std::uint64_t>>) {
    visit(at.offset);
    return {};
  } else {
    return visit(at.offset);
  }
}

/// Throws kCorrupt when the bytes cannot be the pool's, in transactions that know it.
template <class Tx>
[[gnu::always_inline]] inline void check_bytes(Tx& tx, const void* from, std::uint64_t bytes) {
  if constexpr (requires { tx.check(from, bytes); }) tx.check(from, bytes);
}

/// The same of an object that says itself how long it is: when it was not allocated for so many.
template <class Tx>
[[gnu::always_inline]] inline void check_object(Tx& tx, const void* object, std::uint64_t bytes) {
  if constexpr (requires { tx.check_object(object, bytes); }) tx.check_object(object, bytes);
}

/// Counts the nodes of a chain, which has far fewer in any sound table: a circle ends.
class ChainLength {
 public:
  /// Errors: throws Exception kCorrupt.
  void count() {
    if (++nodes_ == kMost) [[unlikely]]
      refuse();
  }

 private:
  [[noreturn, gnu::cold]] static void refuse();
  static constexpr std::uint32_t kMost = std::uint32_t{1} << 20;
  std::uint32_t nodes_ = 0;
};

template <class Container>
struct Salvage;  // container/salvage.h

/// What an ordered map's clear_some() does: erases up to `max_entries` entries, from the end; true
/// when the map is empty, and then all of it is freed.
template <class Map, class Tx>
bool clear_from_the_end(Map& map, Tx& tx, std::size_t max_entries) {
  for (std::size_t i = 0; i < max_entries; ++i) {
    const auto entry = map.last(tx);
    if (!entry) break;
    map.erase(tx, entry->first);
  }
  if (map.last(tx)) return false;
  map.clear(tx);
  return true;
}

// ---- StripedCount: a counter that many threads move at the same time. Each counts on a cache line
// of its own, the sum is the count: one shared word would make every two insertions into a map
// conflict.

class StripedCount {
 public:
  /// Sets the count to zero. In fresh memory it is undefined before.
  template <class Tx>
  void reset(Tx& tx) {
    for (Stripe& stripe : stripes_) tx.store(stripe.count, 0);
  }
  /// Adds `delta` (may wrap below zero) and returns this thread's share, for decisions that need
  /// not be exact.
  template <class Tx>
  std::uint64_t add(Tx& tx, std::uint64_t delta) {
    std::uint64_t& mine = stripes_[stripe_of_thread()].count;
    const std::uint64_t count = tx.load(mine) + delta;
    tx.store(mine, count);
    return count;
  }
  /// Conflicts with every concurrent add().
  template <class Tx>
  std::uint64_t sum(Tx& tx) const {
    std::uint64_t total = 0;
    for (const Stripe& stripe : stripes_) total += tx.load(stripe.count);
    return total;
  }

 private:
  struct Stripe {
    std::uint64_t count;  // modulo 2^64: a thread that only erases counts below zero
    std::array<std::byte, kLineBytes - sizeof(std::uint64_t)> padding;
  };
  static std::size_t stripe_of_thread() {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t mine =
        next.fetch_add(1, std::memory_order_relaxed) % std::tuple_size_v<Stripes>;
    return mine;
  }

  using Stripes = std::array<Stripe, 16>;
  Stripes stripes_;
};
static_assert(sizeof(StripedCount) == 16 * kLineBytes);

// ---- Kept: how a node of a map keeps a value: as it is or, if it is of any length, apart, in an
// object of its own. Then the node holds a link, and that is what moves when nodes split and merge.

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
  using Stored = pptr<Object>;
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
    const std::uint64_t bytes = size(tx, object);
    check_object(tx, object, kHead + bytes);
    Item<V>::load(tx, object + kHead, bytes, value);
  }
  template <class Tx, class F>
  static void view(Tx& tx, Stored stored, F& f) {
    const std::byte* const object = begin(tx, stored);
    const std::uint64_t bytes = size(tx, object);
    check_object(tx, object, kHead + bytes);
    Item<V>::view(tx, object + kHead, bytes, f);
  }
  template <class Tx>
  static void drop(Tx& tx, Stored stored) {
    tx.free(begin(tx, stored));
  }
  /// Whether an object of such room was made for what it says to hold.
  template <class Tx>
  static bool fits(Tx& tx, Stored stored, const Room& room) {
    if (!room.holds(kHead)) return false;
    const std::uint64_t bytes = size(tx, begin(tx, stored));
    return room.holds(bytes) && room.fits(kHead + bytes);
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

// ---- The keyed hash of hash_map. The seed is secret and differs from map to map, so that nobody
// can prepare keys that fall into one bucket. The hash is part of the media format of every map:
// never change it.

/// Both halves of the 128-bit product, folded into one: every bit of the result depends on every
/// bit of a and b.
constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Hashes `size` bytes that `read(to, at, count)` copies out piecewise, so that a key in persistent
/// memory needs no buffer. Both factors of each product depend on the seed: a factor that an
/// attacker could make zero would wipe out everything before it.
template <class Read>
[[gnu::always_inline]] inline std::uint64_t hash_read(std::size_t size, std::uint64_t seed,
                                                      Read&& read) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
  const std::uint64_t left = seed ^ 0xd1b54a32d192ed03u;
  std::uint64_t state = fold(left, kOdd);
  std::uint64_t words[2];
  std::size_t at = 0;
  for (; size - at > sizeof(words); at += sizeof(words)) {
    read(words, at, sizeof(words));
    state = fold(words[0] ^ left, words[1] ^ state);
  }
  words[0] = words[1] = 0;
  read(words, at, size - at);
  state = fold(words[0] ^ left, words[1] ^ state);
  return fold(state ^ size, kOdd);  // the size tells a key from one with zeros appended
}

[[gnu::always_inline]] inline std::uint64_t hash_memory(const void* data, std::size_t size,
                                                        std::uint64_t seed) {
  return hash_read(size, seed, [data](void* to, std::size_t at, std::size_t count) {
    if (count != 0) std::memcpy(to, static_cast<const char*>(data) + at, count);
  });
}

/// Returns random bits from the operating system. Throws: std::exception when it has none.
std::uint64_t random_seed();

/// Whether a hash is among them twice. It sorts them.
bool any_twice(GrowingArray<std::uint64_t>& hashes);

}  // namespace perdure::detail
