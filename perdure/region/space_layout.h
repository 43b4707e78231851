// SPDX-License-Identifier: BSD-3-Clause
// What a persistent address space keeps on media beside its heap, an ordinary pool file: the table
// of its regions, and the file of its static variables. Nothing volatile in here; docs/FORMAT.md
// tells the same in prose.
#pragma once

#include <array>
#include <type_traits>

#include "perdure/base/crc32c.h"
#include "perdure/region/layout.h"

namespace perdure {

// How the reserved range is divided: a quarter for the heap, a 256th for static variables, the rest
// for regions.
constexpr std::uint64_t heap_part(std::uint64_t range) { return range / 4; }
constexpr std::uint64_t range_of_heap(std::uint64_t capacity) { return capacity * 4; }
constexpr std::uint64_t statics_part(std::uint64_t range) { return range / 256; }

/// The root of the heap under which the region table is found.
inline constexpr char kRegionTableRoot[] = "perdure.regions";
inline constexpr std::uint64_t kTypeOfRegionTable = 0x7065726475726531;

enum class RegionState : std::uint32_t {
  kNone = 0,
  kCreating = 1,  // the backing file is being made; destroyed at the next start
  kLive = 2,
  kGoing = 3,  // being destroyed
};

inline constexpr std::uint64_t kNoRegion = 0;  // the number of the static variables' file

/// One region, or one piece of a region of which another piece was unmapped.
struct RegionEntry {
  std::uint64_t begin;  // offset in the reserved range
  std::uint64_t bytes;  // zero: the entry is free
  std::uint64_t file;   // number of the backing file
  std::uint64_t file_offset;
  std::uint64_t file_bytes;
  RegionState state;
  std::uint32_t protection;  // PROT_READ | PROT_WRITE ...
  std::uint64_t reserved;
  std::uint64_t check;  // CRC32C of the fields above
};
static_assert(sizeof(RegionEntry) == kLineBytes);
static_assert(std::has_unique_object_representations_v<RegionEntry>);

inline std::uint64_t check_of_region(const RegionEntry& entry) {
  return crc32c(&entry, offsetof(RegionEntry, check));
}

/// Whether the entry makes sense by itself, in a range whose regions are in [begin, end).
inline bool is_sound(const RegionEntry& entry, Offset begin, Offset end) {
  return entry.check == check_of_region(entry) && entry.bytes != 0 &&
         is_aligned(entry.begin, kPageBytes) && is_aligned(entry.bytes, kPageBytes) &&
         is_aligned(entry.file_offset, kPageBytes) &&
         inside(entry.begin, entry.bytes, begin, end) &&
         inside(entry.file_offset, entry.bytes, 0, entry.file_bytes) &&
         entry.state >= RegionState::kCreating && entry.state <= RegionState::kGoing &&
         entry.file != kNoRegion && entry.protection <= 7;
}

/// The first entry of each page of the table says where it goes on.
struct RegionTableHeader {
  std::uint64_t overflow;   // the next page of the table, an object of the heap; zero: none
  std::uint64_t next_file;  // first page only: numbers of backing files given so far
  std::array<std::uint64_t, 5> reserved;
  std::uint64_t check;  // CRC32C of the fields above
};
static_assert(sizeof(RegionTableHeader) == sizeof(RegionEntry));

inline constexpr std::size_t kRegionTableBytes = 16 << 10;  // the paper's 16 KB
inline constexpr std::size_t kOverflowBytes = kPageBytes;
inline constexpr std::size_t kMaxOverflowPages = 4096;  // a circle of pages ends here

/// The last page of a region's backing file. It ties the file to its address space; the program
/// never sees it.
struct RegionTrailer {
  std::array<char, 8> magic;
  std::array<std::uint8_t, 16> space;  // uuid of the heap
  std::uint64_t file;
  std::uint64_t bytes;  // before this page
  std::uint64_t check;  // CRC32C of the fields above
};
static_assert(sizeof(RegionTrailer) == 48);
inline constexpr std::array<char, 8> kRegionMagic = {'P', 'E', 'R', 'D', 'R', 'E', 'G', '\n'};

/// The first page of the file of the static variables. Behind it, in whole pages: the names and
/// places of the variables, then the variables themselves.
struct StaticsHeader {
  std::array<char, 8> magic;
  std::uint64_t names_bytes;      // as StaticVariable records
  std::uint64_t variables_bytes;  // whole pages
  std::uint64_t names_crc;        // CRC32C of the names
  std::uint64_t build_id_bytes;
  std::array<std::uint8_t, 64> build_id;
  std::array<char, 256> program;  // file name of the executable, zero-padded
  std::uint64_t check;            // CRC32C of the fields above
  Word ready;                     // seal(1): all of the file is written
};
static_assert(sizeof(StaticsHeader) == 376);
inline std::uint64_t check_of_statics(const StaticsHeader& header) {
  return crc32c(&header, offsetof(StaticsHeader, check));
}
/// Where the variables begin in the file.
constexpr Offset variables_offset(const StaticsHeader& header) {
  return kPageBytes + round_up(header.names_bytes, kPageBytes);
}
inline constexpr std::array<char, 8> kStaticsMagic = {'P', 'E', 'R', 'D', 'S', 'T', 'A', '\n'};
inline constexpr std::uint16_t kSaltReady = 0x5354;
inline constexpr std::size_t kMaxNamesBytes = 16 << 20;

}  // namespace perdure
