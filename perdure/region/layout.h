// SPDX-License-Identifier: BSD-3-Clause
// What a pool file holds, outside logs and heap blocks. Nothing volatile in here; docs/FORMAT.md
// tells the same in prose. Never renumber: a change bumps kFormatVersion and adds a golden image.
//
//   page 0            superblock, sealed by a CRC: written at creation, and when limits are raised
//   page 1            state: one sealed word per line (see StatePage); in its second half, a copy of
//                     the superblock
//   root table        root_entries × RootEntry
//   log heads         log_slots × one line, a sealed position each; the salt tells how its ring is
//                     divided
//   segment table     one sealed word per segment of the capacity; zero beyond the grown part
//   rings             log_slots × ring_bytes
//   page sums         a word per area of the capacity, then a page of sums per area (see kAreaBytes)
//   heap              segments, from heap_offset to grown_bytes
//
// A table that became too small for raised limits has been moved into segments of the heap.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "perdure/base/checked_word.h"
#include "perdure/base/words.h"

namespace perdure {

inline constexpr std::array<char, 8> kMagic = {'P', 'E', 'R', 'D', 'U', 'R', 'E', '\n'};
inline constexpr std::uint32_t kFormatVersion = 6;
inline constexpr std::uint32_t kOldestFormatVersion = 1;
/// From this version on a log record may tell of memory that was initialised in place. In an older
/// pool nothing is.
inline constexpr std::uint32_t kInPlaceSinceVersion = 2;
/// From this version on a ring may be a line log. In an older pool each is a torn-bit log.
inline constexpr std::uint32_t kLinesSinceVersion = 3;
/// From this version on the first log may take the rings of other slots as well (see kSaltLongHead).
inline constexpr std::uint32_t kLongLogSinceVersion = 4;
/// From this version on there are two copies of the superblock, and tables may lie in segments of the
/// heap.
inline constexpr std::uint32_t kTwoSuperblocksSinceVersion = 5;
/// From this version on pages of the heap have checksums while nobody writes them (page_sums.h).
inline constexpr std::uint32_t kPageSumsSinceVersion = 6;
// Features that a reader must know to read (incompatible) or to write (read-only compatible).
/// The file is the heap of a persistent address space: its log records name bytes of other files,
/// too.
inline constexpr std::uint64_t kFeatureAddressSpace = 1;
inline constexpr std::uint64_t kKnownIncompatible = kFeatureAddressSpace;
inline constexpr std::uint64_t kKnownReadOnlyCompatible = 0;

inline constexpr std::size_t kBlockBytes = 8192;  // a heap superblock; extents are runs of blocks
inline constexpr std::size_t kRootNameBytes = 32;

// Salts of sealed words, one per field.
inline constexpr std::uint16_t kSaltGrown = 0x4752;
inline constexpr std::uint16_t kSaltRetired = 0x5254;
inline constexpr std::uint16_t kSaltUnchanged = 0x554e;
inline constexpr std::uint16_t kSaltHead = 0x4844;       // of a ring that is one torn-bit log
inline constexpr std::uint16_t kSaltLineHead = 0x4c48;   // of a ring that is one line log
inline constexpr std::uint16_t kSaltInLogHead = 0x5848;  // of a ring in which transactions execute
/// Of a ring that is one torn-bit log and has been doubled `times` times, at least once: it goes on in
/// the rings of the slots after it.
constexpr std::uint16_t salt_of_long_head(unsigned times) {
  return static_cast<std::uint16_t>(0x4c30 + times);
}
inline constexpr std::uint64_t kLongestLogBytes = std::uint64_t{1} << 30;
inline constexpr std::uint16_t kSaltSegment = 0x5347;
inline constexpr std::uint16_t kSaltBlock = 0x424b;
inline constexpr std::uint16_t kSaltArea = 0x4152;

/// The numbers from which every offset of a new file follows.
struct Geometry {
  std::uint64_t capacity_bytes;  // address space reserved; the file never grows beyond it
  std::uint64_t segment_bytes;   // unit of growth, a power of two in [128 KiB, 64 MiB]
  std::uint64_t ring_bytes;      // one thread's log, a multiple of the page size
  std::uint32_t log_slots;       // threads that can hold a log at the same time
  std::uint32_t root_entries;
};

struct Superblock {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t superblock_bytes;
  std::uint64_t compatible;
  std::uint64_t read_only_compatible;
  std::uint64_t incompatible;
  std::array<std::uint8_t, 16> uuid;
  std::uint64_t preferred_base;
  Geometry geometry;
  std::uint64_t root_offset;
  std::uint64_t head_offset;
  std::uint64_t segment_table_offset;
  std::uint64_t ring_offset;
  std::uint64_t heap_offset;
  std::uint32_t generation;  // how often limits were raised
  std::uint32_t crc;         // CRC32C of all bytes before it
};
static_assert(sizeof(Geometry) == 32 && sizeof(Superblock) == 144);
static_assert(offsetof(Superblock, preferred_base) == 56 &&
              offsetof(Superblock, root_offset) == 96);
static_assert(offsetof(Superblock, crc) == 140);
static_assert(std::has_unique_object_representations_v<Superblock>);

/// Page 1. Each word has a line of its own, so that none is written back with another by accident,
/// and the last one a sector of its own, because it goes another way than the others
/// (Region::say_unchanged).
struct StatePage {
  struct Line {
    Word word;
    std::array<Word, 7> padding;
  };
  Line grown_bytes;    // seal(bytes of the file that are in use, kSaltGrown)
  Line retired_stamp;  // seal(timestamp, kSaltRetired): recovery ignores log records up to it
  std::array<Line, 6> unused;
  Line unchanged_since;  // seal(retired timestamp, kSaltUnchanged): the file is as it was left then
};
static_assert(sizeof(StatePage) == 576);
static_assert(offsetof(StatePage, unchanged_since) % 512 == 0);

struct RootEntry {
  std::array<char, kRootNameBytes> name;  // zero-padded; an entry without a name is free
  std::uint64_t type;                     // hash of the root's type, see type_id.h
  std::uint64_t object;                   // byte offset from the region base
  std::uint64_t bytes;                    // size of the object
  std::uint64_t check;                    // CRC32C of the fields above
};
static_assert(sizeof(RootEntry) == kLineBytes);
static_assert(std::has_unique_object_representations_v<RootEntry>);

inline constexpr Offset kStateOffset = kPageBytes;
/// In a sector that nothing else is written to.
inline constexpr Offset kSecondSuperblockOffset = kStateOffset + kPageBytes / 2;
static_assert(kStateOffset + sizeof(StatePage) <= kSecondSuperblockOffset);
inline constexpr std::uint64_t kMinSegmentBytes = std::uint64_t{128} << 10;
inline constexpr std::uint64_t kMaxSegmentBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxCapacityBytes = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kMostLogSlots = 1024;
inline constexpr std::uint32_t kMostRootEntries = 65536;

/// A table of the file.
struct Section {
  Offset begin;
  std::uint64_t bytes;
  constexpr Offset end() const { return begin + bytes; }
  friend constexpr bool operator==(const Section&, const Section&) = default;
};
// Whole pages each.
constexpr Section roots_of(const Superblock& super) {
  return {super.root_offset, round_up(super.geometry.root_entries * sizeof(RootEntry), kPageBytes)};
}
constexpr Section heads_of(const Superblock& super) {
  return {super.head_offset, round_up(super.geometry.log_slots * kLineBytes, kPageBytes)};
}
constexpr Section segment_table_of(const Superblock& super) {
  const Geometry& g = super.geometry;
  return {super.segment_table_offset,
          round_up(g.capacity_bytes / g.segment_bytes * kWordBytes, kPageBytes)};
}
constexpr Section rings_of(const Superblock& super) {
  return {super.ring_offset, super.geometry.log_slots * super.geometry.ring_bytes};
}
/// What pages have sums together: area i is [i * kAreaBytes, (i + 1) * kAreaBytes) of the file.
inline constexpr std::uint64_t kAreaBytes = kPageBytes / sizeof(std::uint32_t) * kPageBytes;
constexpr std::uint64_t areas_of(const Superblock& super) {
  return (super.geometry.capacity_bytes + kAreaBytes - 1) / kAreaBytes;
}
/// seal(CRC32C of the area's page of sums, kSaltArea), or 0: the area has none.
constexpr Section area_words_of(const Superblock& super) {
  const bool has_sums = super.version >= kPageSumsSinceVersion;
  return {rings_of(super).end(), has_sums ? round_up(areas_of(super) * kWordBytes, kPageBytes) : 0};
}
/// The area words, and for each area a page with 4 bytes for each of its pages. It always follows the
/// rings, and like them it has blocks only where it was written.
constexpr Section page_sums_of(const Superblock& super) {
  const Section words = area_words_of(super);
  return {words.begin, words.bytes != 0 ? words.bytes + areas_of(super) * kPageBytes : 0};
}
constexpr std::array<Section, 5> tables_of(const Superblock& super) {
  return {roots_of(super), heads_of(super), segment_table_of(super), rings_of(super),
          page_sums_of(super)};
}
/// Whether it has been moved into segments of the heap.
constexpr bool is_moved(const Superblock& super, const Section& table) {
  return table.bytes != 0 && table.begin >= super.heap_offset;
}

/// Fills in the offsets that follow from the version and the geometry of a new file.
constexpr void lay_out(Superblock& super) {
  super.root_offset = 2 * kPageBytes;
  super.head_offset = roots_of(super).end();
  super.segment_table_offset = heads_of(super).end();
  super.ring_offset = segment_table_of(super).end();
  super.heap_offset = round_up(page_sums_of(super).end(), kBlockBytes);
}

}  // namespace perdure
