// SPDX-License-Identifier: BSD-3-Clause
// What an object heap keeps in its pool, beside the objects themselves. Nothing volatile in here;
// docs/FORMAT.md tells the same in prose. Offsets are those of the pool; an object's is that of its
// first field, behind its header. 0 is null.
#pragma once

#include <array>
#include <cstdint>

#include "perdure/base/words.h"

namespace perdure::object_layout {

/// Before each object.
struct Header {
  Word state;    // see below
  Offset aside;  // the proxy that weak references go through; of a dead object: the next dead one
};
inline constexpr std::uint64_t kHeaderBytes = sizeof(Header);
static_assert(kHeaderBytes == 16);

// A state is: how many references lead here, or, of an orphan, its place in the table of orphans;
// the number of its type; flags.
inline constexpr Word kCountMask = 0xffff'ffff;
inline constexpr unsigned kTypeShift = 32;
inline constexpr Word kTypeMask = Word{0xffff} << kTypeShift;
inline constexpr Word kOrphan = Word{1} << 48;  // nothing but handles leads here
inline constexpr Word kDead = Word{1} << 49;    // nothing at all does; it waits for its end
inline constexpr std::uint64_t kMostTypes = 0xffff;

constexpr std::uint32_t count_of(Word state) {
  return static_cast<std::uint32_t>(state & kCountMask);
}
constexpr std::uint16_t type_of(Word state) {
  return static_cast<std::uint16_t>((state & kTypeMask) >> kTypeShift);
}

/// What weak references lead to: one for all of an object's.
struct Proxy {
  Offset target;  // null from the object's end on
  std::uint64_t count;
};

/// One type, as the program that wrote it declared it (types.h). Its text follows.
struct TypeRecord {
  Offset next;
  std::uint64_t bytes;  // of the text
};

/// Objects to which only handles lead: what the next open reclaims.
struct OrphanTable {
  static constexpr std::size_t kSlots = 63;
  Offset next;
  std::array<Offset, kSlots> slots;  // null: free
};
static_assert(sizeof(OrphanTable) == 512);

/// Threads that drop the last reference to something large put it here, each by the number of its
/// log.
struct Stripe {
  Offset dead;
  std::array<Word, 7> padding;
};
inline constexpr std::size_t kStripes = 32;

/// The pool's root "objects".
struct Control {
  Word magic;
  std::uint64_t version;
  std::uint64_t generation;  // how often it was opened to be written
  Offset root;
  Offset types;
  Offset orphans;
  std::array<Word, 2> reserved;
  std::array<Stripe, kStripes> stripes;
};
inline constexpr const char* kControlRoot = "objects";
inline constexpr Word kMagic = 0x31'70'61'65'68'2d'76'6e;  // "nv-heap1"
inline constexpr std::uint64_t kVersion = 1;

}  // namespace perdure::object_layout
