// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/frame_table.h"

#include <sys/random.h>

namespace perdure {
namespace {

Result<void> check_geometry(const FrameGeometry& g, const std::string& where) {
  const auto bad = [&](const std::string& field, std::uint64_t value, const std::string& rule) {
    return Error{Code::kInvalid,
                 where + ": " + field + " is " + std::to_string(value) + ", must be " + rule};
  };
  if (!std::has_single_bit(g.frame_bytes) || g.frame_bytes < kMinFrameBytes ||
      g.frame_bytes > kMaxFrameBytes)
    return bad("frame_bytes", g.frame_bytes, "a power of two from 64 to 2 MiB");
  if (g.frame_count < 1 || g.frame_count > kMaxFrameCount)
    return bad("frame_count", g.frame_count, "from 1 to " + std::to_string(kMaxFrameCount));
  if (g.file_entries < 1 || g.file_entries > kMaxFileEntries)
    return bad("file_entries", g.file_entries, "from 1 to " + std::to_string(kMaxFileEntries));
  return {};
}

std::uint32_t crc_of(const FrameSuperblock& super) {
  return crc32c(&super, offsetof(FrameSuperblock, crc));
}

}  // namespace

Result<FrameSuperblock> make_frame_superblock(const FrameGeometry& geometry,
                                              const std::string& where) {
  if (auto valid = check_geometry(geometry, where); !valid) return valid.error();
  FrameSuperblock super{};
  super.magic = kFrameMagic;
  super.version = kFrameFormatVersion;
  super.superblock_bytes = sizeof(FrameSuperblock);
  super.geometry = geometry;
  // Without entropy two pools share an identity: not worth failing a create for.
  (void)::getrandom(super.uuid.data(), super.uuid.size(), 0);
  lay_out(super);
  super.crc = crc_of(super);
  return super;
}

Result<FrameSuperblock> check_frame_superblock(const std::byte* bytes, std::uint64_t available,
                                               const std::string& where) {
  FrameSuperblock super{};
  std::memcpy(&super, bytes, std::min<std::uint64_t>(available, sizeof(super)));
  if (super.magic != kFrameMagic)
    return Error{Code::kForeign, where + ": not a frame pool (no magic at byte 0)"};
  if (available < sizeof(super))
    return Error{Code::kTruncated, where + ": only " + std::to_string(available) +
                                       " bytes of a frame pool; restore it from a backup"};
  if (super.version > kFrameFormatVersion)
    return Error{Code::kVersion, where + ": frame pool format version " +
                                     std::to_string(super.version) + ", this release reads up to " +
                                     std::to_string(kFrameFormatVersion) + "; use a newer release"};
  if (crc_of(super) != super.crc)
    return Error{Code::kCorrupt, where +
                                     ": the superblock (bytes 0-103) fails its checksum; restore "
                                     "the pool and its files from a backup"};
  if (super.version != kFrameFormatVersion || super.superblock_bytes != sizeof(super) ||
      super.incompatible != 0 || super.read_only_compatible != 0)
    return Error{Code::kVersion,
                 where + ": uses features that this release does not know; use a newer release"};
  if (auto geometry = check_geometry(super.geometry, where); !geometry)
    return Error{Code::kCorrupt, geometry.error().message};
  FrameSuperblock expected = super;
  lay_out(expected);
  if (expected.file_table_offset != super.file_table_offset ||
      expected.entry_offset != super.entry_offset || expected.frame_offset != super.frame_offset)
    return Error{Code::kCorrupt,
                 where + ": the superblock's section table does not follow from its geometry"};
  if (available < file_bytes_of(super))
    return Error{Code::kTruncated, where + ": " + std::to_string(available) +
                                       " bytes, but tables and frames take " +
                                       std::to_string(file_bytes_of(super)) +
                                       "; restore the pool and its files from a backup"};
  return super;
}

std::vector<std::byte> frame_format(const FrameSuperblock& super) {
  std::vector<std::byte> bytes(super.frame_offset);
  std::memcpy(bytes.data(), &super, sizeof(super));
  const auto put = [&](Offset at, Word word) { std::memcpy(&bytes[at], &word, sizeof(word)); };
  for (FileNumber file = 1; file <= super.geometry.file_entries; ++file)
    put(super.file_table_offset + (file - 1) * sizeof(FileEntry), seal(0, file_salt(file)));
  for (FrameNumber frame = 0; frame < super.geometry.frame_count; ++frame)
    put(super.entry_offset + frame * kWordBytes, seal_frame(frame, 0));
  return bytes;
}

}  // namespace perdure
