// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/superblock.h"

#include <sys/random.h>

#include <bit>
#include <cstddef>
#include <cstring>

#include "perdure/base/crc32c.h"

namespace perdure {
namespace {

std::uint32_t checksum(const Superblock& super) {
  return crc32c(&super, offsetof(Superblock, crc));
}

bool is_laid_out_as_new(const Superblock& super) {
  Superblock expected = super;
  lay_out(expected);
  return tables_of(expected) == tables_of(super) && expected.heap_offset == super.heap_offset;
}

/// Of a pool whose limits were raised: each table lies in front of the heap or in it, and in no other
/// one.
bool has_sound_tables(const Superblock& super) {
  const std::uint64_t capacity = super.geometry.capacity_bytes;
  const auto tables = tables_of(super);
  if (!is_aligned(super.heap_offset, kBlockBytes) || super.heap_offset > capacity) return false;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const Section& table = tables[i];
    if (table.bytes == 0) continue;  // of a later version
    if (!is_aligned(table.begin, kPageBytes) || table.begin < 2 * kPageBytes ||
        !inside(table.begin, table.bytes, 0, capacity) ||
        (!is_moved(super, table) && table.end() > super.heap_offset))
      return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (table.begin < tables[j].end() && tables[j].begin < table.end()) return false;
    }
  }
  return true;
}

Result<void> check_superblock(const Superblock& super, const std::string& path) {
  if (super.magic != kMagic)
    return Error{
        Code::kForeign,
        path + ": not a Perdure pool (no magic at byte 0); create one with `perdure create`"};
  if (super.version > kFormatVersion)
    return Error{Code::kVersion, path + ": format version " + std::to_string(super.version) +
                                     ", this release reads up to " +
                                     std::to_string(kFormatVersion) + "; use a newer release"};
  if (checksum(super) != super.crc)
    return Error{
        Code::kCorrupt,
        path + ": the superblock (bytes 0-143) fails its checksum; restore it from a backup"};
  if (super.version < kOldestFormatVersion || super.superblock_bytes != sizeof(Superblock))
    return Error{Code::kVersion, path + ": format version " + std::to_string(super.version) +
                                     " with a superblock of " +
                                     std::to_string(super.superblock_bytes) + " bytes is unknown"};
  if ((super.incompatible & ~kKnownIncompatible) != 0 ||
      (super.read_only_compatible & ~kKnownReadOnlyCompatible) != 0)
    return Error{Code::kVersion,
                 path + ": uses features that this release does not know; use a newer release"};
  if (auto geometry = check_geometry(super.geometry, path, super.version); !geometry)
    return Error{Code::kCorrupt, geometry.error().message};
  const bool was_raised = super.version >= kTwoSuperblocksSinceVersion && super.generation != 0;
  if (was_raised ? !has_sound_tables(super) : !is_laid_out_as_new(super))
    return Error{Code::kCorrupt,
                 path + ": the superblock's section table does not follow from its geometry"};
  return {};
}

}  // namespace

Result<void> check_geometry(const Geometry& g, const std::string& where, std::uint32_t version) {
  const auto bad = [&](const std::string& field, std::uint64_t value, const std::string& rule) {
    return Error{Code::kInvalid,
                 where + ": " + field + " is " + std::to_string(value) + ", must be " + rule};
  };
  if (!std::has_single_bit(g.segment_bytes) || g.segment_bytes < kMinSegmentBytes ||
      g.segment_bytes > kMaxSegmentBytes)
    return bad("segment_bytes", g.segment_bytes, "a power of two from 128 KiB to 64 MiB");
  if (g.capacity_bytes < 2 * g.segment_bytes || g.capacity_bytes > kMaxCapacityBytes ||
      !is_aligned(g.capacity_bytes, kPageBytes))
    return bad("capacity_bytes", g.capacity_bytes, "whole pages, from two segments to 1 TiB");
  if (!is_aligned(g.ring_bytes, kPageBytes) || g.ring_bytes < kPageBytes ||
      g.ring_bytes > (std::uint64_t{1} << 30))
    return bad("ring_bytes", g.ring_bytes, "whole pages, from 4 KiB to 1 GiB");
  if (g.log_slots < 1 || g.log_slots > kMostLogSlots)
    return bad("log_slots", g.log_slots, "from 1 to 1024");
  if (g.root_entries < 1 || g.root_entries > kMostRootEntries)
    return bad("root_entries", g.root_entries, "from 1 to 65536");
  // All tables and a segment, wherever they lie.
  Superblock probe{};
  probe.version = version;
  probe.geometry = g;
  lay_out(probe);
  if (probe.heap_offset + g.segment_bytes > g.capacity_bytes)
    return bad(
        "capacity_bytes", g.capacity_bytes,
        "at least " + std::to_string(probe.heap_offset + g.segment_bytes) + " for these logs");
  return {};
}

Superblock make_superblock(const Geometry& geometry, std::uint64_t preferred_base,
                           std::uint64_t incompatible) {
  Superblock super{};
  super.incompatible = incompatible;
  super.magic = kMagic;
  super.version = kFormatVersion;
  super.superblock_bytes = sizeof(Superblock);
  super.preferred_base = preferred_base;
  super.geometry = geometry;
  // A pool without entropy would only share its identity with another: not worth failing a create
  // for.
  (void)::getrandom(super.uuid.data(), super.uuid.size(), 0);
  lay_out(super);
  super.crc = checksum(super);
  return super;
}

Result<void> seal_superblock(Superblock& super, const std::string& where) {
  if (auto valid = check_geometry(super.geometry, where, super.version); !valid) return valid;
  super.crc = checksum(super);
  return check_superblock(super, where);
}

Result<FoundSuperblock> find_superblock(
    const std::string& path, std::uint64_t file_bytes,
    const std::function<bool(Offset, void*, std::size_t)>& read) {
  Superblock first{};
  if (!read(0, &first, sizeof(first))) {
    const std::string bytes = std::to_string(file_bytes) + " bytes";
    if (read(0, first.magic.data(), first.magic.size()) && first.magic == kMagic)
      return Error{Code::kTruncated, path + ": only " + bytes + " of a Perdure pool"};
    return Error{Code::kForeign, path + ": not a Perdure pool (" + bytes + ")"};
  }
  const auto sound = check_superblock(first, path);
  Superblock second{};
  const bool has_second = read(kSecondSuperblockOffset, &second, sizeof(second)) &&
                          check_superblock(second, path).ok() &&
                          second.version >= kTwoSuperblocksSinceVersion &&
                          (!sound || second.uuid == first.uuid);
  const auto byte = [](Offset at) { return "the superblock at byte " + std::to_string(at); };
  if (!sound) {
    // One that is whole and means something that this release does not know is not damaged.
    const bool whole = first.magic == kMagic && checksum(first) == first.crc;
    if (whole || !has_second) return sound.error();
    return FoundSuperblock{second, kSecondSuperblockOffset, true, byte(0) + " is damaged"};
  }
  if (has_second && second.generation > first.generation)
    return FoundSuperblock{second, kSecondSuperblockOffset, true, ""};
  FoundSuperblock found{first, 0, false, ""};
  if (first.version < kTwoSuperblocksSinceVersion) return found;
  if (!has_second) {
    found.damage = byte(kSecondSuperblockOffset) + " is damaged";
  } else if (second.generation == first.generation &&
             std::memcmp(&first, &second, sizeof(first)) != 0) {
    found.damage = byte(kSecondSuperblockOffset) + " differs from that at byte 0";
  }
  found.replaces_other = !has_second || std::memcmp(&first, &second, sizeof(first)) != 0;
  return found;
}

}  // namespace perdure
