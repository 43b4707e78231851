// SPDX-License-Identifier: BSD-3-Clause
// What a frame pool's file holds. Nothing volatile in here; docs/FORMAT.md tells the same in prose.
// Never renumber: a change bumps kFrameFormatVersion.
//
//   page 0            superblock: written once, at creation, sealed by a CRC
//   file table        file_entries × FileEntry: the backing files, by number
//   mapping table     frame_count × one sealed word: which page of which file the frame holds
//   frames            frame_count × frame_bytes, from frame_offset
//
// Invariants: a frame has one entry; a page of a file is in one frame at most; an entry names a
// file that the file table has. Where no entry names a page, its backing file holds it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "perdure/base/checked_word.h"
#include "perdure/base/words.h"

namespace perdure {

inline constexpr std::array<char, 8> kFrameMagic = {'P', 'E', 'R', 'D', 'F', 'R', 'M', '\n'};
inline constexpr std::uint32_t kFrameFormatVersion = 1;

inline constexpr std::uint16_t kSaltFrame = 0x4652;  // XOR the frame's number
inline constexpr std::uint16_t kSaltFile = 0x464e;   // XOR the file's number

using FrameNumber = std::uint32_t;
using FileNumber = std::uint32_t;  // 1-based; 0 is no file

/// The numbers from which every offset of the file follows.
struct FrameGeometry {
  std::uint64_t frame_bytes;   // a power of two from one line to 2 MiB; of a mapped pool, a page
  std::uint32_t frame_count;   // at least 1
  std::uint32_t file_entries;  // backing files known at the same time, 1 to 4095
};

struct FrameSuperblock {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t superblock_bytes;
  std::uint64_t compatible;            // none exist yet; unknown ones are ignored
  std::uint64_t read_only_compatible;  // none exist yet; unknown ones are refused
  std::uint64_t incompatible;          // none exist yet; unknown ones are refused
  std::array<std::uint8_t, 16> uuid;
  FrameGeometry geometry;
  std::uint64_t file_table_offset;
  std::uint64_t entry_offset;
  std::uint64_t frame_offset;
  std::uint32_t reserved;
  std::uint32_t crc;  // CRC32C of all bytes before it
};
static_assert(sizeof(FrameGeometry) == 16 && sizeof(FrameSuperblock) == 104);
static_assert(offsetof(FrameSuperblock, geometry) == 56 &&
              offsetof(FrameSuperblock, file_table_offset) == 72);
static_assert(offsetof(FrameSuperblock, crc) == 100);
static_assert(std::has_unique_object_representations_v<FrameSuperblock>);

inline constexpr std::size_t kFileNameBytes = 504;

/// A backing file. `state` is seal(CRC32C of the name << 16 | bytes of the name), zero bytes when
/// the entry is free: one word, so that a name is there whole or not at all.
struct FileEntry {
  Word state;
  std::array<char, kFileNameBytes> name;
};
static_assert(sizeof(FileEntry) == 512 && std::has_unique_object_representations_v<FileEntry>);

inline constexpr std::uint64_t kMinFrameBytes = kLineBytes;
inline constexpr std::uint64_t kMaxFrameBytes = std::uint64_t{2} << 20;
inline constexpr std::uint32_t kMaxFileEntries = 4095;
inline constexpr std::uint32_t kMaxFrameCount = std::uint32_t{1} << 28;
inline constexpr int kFramePageBits = 36;  // of an entry; the 12 above are the file's number
inline constexpr std::uint64_t kMaxFramePages = std::uint64_t{1} << kFramePageBits;

/// A page of a backing file, in units of frame_bytes.
struct FilePage {
  FileNumber file;
  std::uint64_t page;

  /// What an entry seals; zero for a free frame.
  constexpr std::uint64_t payload() const { return std::uint64_t{file} << kFramePageBits | page; }
  static constexpr FilePage of(std::uint64_t payload) {
    return {static_cast<FileNumber>(payload >> kFramePageBits), payload & (kMaxFramePages - 1)};
  }
};

constexpr Word seal_frame(FrameNumber frame, std::uint64_t payload) {
  return seal(payload, static_cast<std::uint16_t>(kSaltFrame ^ (frame & 0xffff)));
}
constexpr std::optional<std::uint64_t> unseal_frame(FrameNumber frame, Word word) {
  return unseal(word, static_cast<std::uint16_t>(kSaltFrame ^ (frame & 0xffff)));
}
constexpr std::uint16_t file_salt(FileNumber file) {
  return static_cast<std::uint16_t>(kSaltFile ^ (file & 0xffff));
}

/// Fills in the offsets that follow from the geometry.
constexpr void lay_out(FrameSuperblock& super) {
  const FrameGeometry& g = super.geometry;
  super.file_table_offset = kPageBytes;
  super.entry_offset =
      super.file_table_offset + round_up(g.file_entries * sizeof(FileEntry), kPageBytes);
  super.frame_offset =
      round_up(super.entry_offset + std::uint64_t{g.frame_count} * kWordBytes,
               g.frame_bytes > kPageBytes ? g.frame_bytes : std::uint64_t{kPageBytes});
}
constexpr std::uint64_t file_bytes_of(const FrameSuperblock& super) {
  return super.frame_offset + super.geometry.frame_count * super.geometry.frame_bytes;
}

}  // namespace perdure
