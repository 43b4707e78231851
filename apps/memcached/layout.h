// SPDX-License-Identifier: BSD-3-Clause
// What a pool that holds a cache looks like: one object at the root "memcached.cache", a hash table of items with open
// chains, and how much there is of them.
//
//   Cache      magic and version; the flush epoch; cas uniques handed out; the table; the tallies
//   segment    links to the first items of buckets: [0, 16) in segment 0, [16 << i, 32 << i) in segment 1 + i
//   Item       48 bytes, the key, padding to a word, the value
//   staged     items that are being written
//
// Invariants, between transactions: every item stands in the chain of its bucket, or of the bucket's nearest opened
// ancestor while its own is unsplit (see perdure/container/linear_hash.h, whose format the table has); a key stands in the
// table once; the tallies' sums are what is there. An item whose epoch is not the cache's is dead: flush_all() is one word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "perdure/base/words.h"
#include "perdure/heap/layout.h"
#include "perdure/pptr.h"

namespace perdure::memcached {

inline constexpr const char* kRoot = "memcached.cache";
inline constexpr std::uint64_t kMagic = 0x3165686361636d70u;  // "pmcache1"
inline constexpr std::uint64_t kVersion = 1;

inline constexpr std::size_t kMaxKeyBytes = 250;
inline constexpr std::uint64_t kMaxValueBytes = std::uint64_t{128} << 20;

/// What is asked of an item before its key is compared; one word.
struct Identity {
  std::uint32_t hash;  // the lower half of the key's
  std::uint8_t key_bytes;
  std::uint8_t state;  // kStale, kWon, kBinaryKey
  std::uint16_t zero;
  friend bool operator==(const Identity&, const Identity&) = default;
};

/// What meta commands keep of an item.
inline constexpr std::uint8_t kStale = 1;      // marked by an invalidation
inline constexpr std::uint8_t kWon = 2;        // one client was told to recache it
inline constexpr std::uint8_t kBinaryKey = 4;  // its key came in base64

struct Item {
  pptr<Item> next;
  Identity identity;
  std::uint64_t cas;
  std::uint32_t flags;    // the client's
  std::uint32_t expires;  // Unix time in seconds; 0: never
  std::uint32_t value_bytes;
  std::uint32_t epoch;   // of the last flush_all before it was stored
  std::uint32_t stored;  // Unix time of the last store
  std::uint32_t zero;
};
static_assert(sizeof(Item) == 48 && offsetof(Item, identity) == 8 && offsetof(Item, cas) == 16 &&
              offsetof(Item, flags) == 24 && offsetof(Item, value_bytes) == 32 &&
              offsetof(Item, stored) == 40 && std::has_unique_object_representations_v<Item>);

/// A thread's share of what there is, modulo 2^64, on a line of its own.
struct Tally {
  std::uint64_t items;
  std::uint64_t bytes;  // that their objects occupy
  std::array<std::uint64_t, 6> zero;
};
inline constexpr std::size_t kTallies = 16;

/// Large items that may be written at the same time.
inline constexpr std::size_t kStaged = 8;

struct Cache {
  static constexpr const char* kName = "memcached";

  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t epoch;         // flush_all()s so far
  std::uint64_t flush_at;      // Unix time of a flush_all that is still to come; 0: none
  std::uint64_t cas_reserved;  // cas uniques below it may have been handed out
  std::uint64_t seed;          // of the hash
  std::uint64_t buckets;       // that are open
  std::uint64_t zero;
  std::array<pptr<pptr<Item>>, 28> segments;  // for 2^31 buckets
  std::array<std::uint64_t, 4> zeros;
  std::array<Tally, kTallies> tallies;
  /// Items that are being written, in several transactions, and are not in the table yet. Whoever opens the cache frees them.
  std::array<pptr<Item>, kStaged> staged;

  /// As the containers' audit(). Defined in item_table.h.
  template <class Tx, class Visit>
  auto audit(Tx& tx, Visit&& visit) const;
};
static_assert(sizeof(Tally) == kLineBytes && offsetof(Cache, segments) == 64 &&
              offsetof(Cache, tallies) == 320 && offsetof(Cache, staged) == 1344 &&
              sizeof(Cache) == 1344 + 8 * kStaged &&
              std::has_unique_object_representations_v<Cache>);

/// Where a key and a value stand in an item's object.
inline constexpr std::size_t kKeyOffset = sizeof(Item);
constexpr std::size_t value_offset(std::size_t key_bytes) {
  return kKeyOffset + round_up(key_bytes, kWordBytes);
}
constexpr std::uint64_t item_bytes(std::size_t key_bytes, std::uint64_t value_bytes) {
  return value_offset(key_bytes) + value_bytes;
}
/// What an object of so many bytes takes of the heap.
constexpr std::uint64_t occupied_bytes(std::uint64_t bytes) {
  if (bytes <= heap_layout::kMaxSmallBytes)
    return heap_layout::kClassBytes[heap_layout::class_of(bytes)];
  return round_up(bytes, kBlockBytes);
}

}  // namespace perdure::memcached
