// SPDX-License-Identifier: BSD-3-Clause
// The superblock of a pool: made, checked, and found in a file that has two copies of it.
#pragma once

#include <functional>
#include <string>

#include "perdure/error.h"
#include "perdure/region/layout.h"

namespace perdure {

/// Inside the ranges that the address, memory and thread sanitizers leave to the program. Only a
/// preference: links are offsets, so a pool works at any address.
inline constexpr std::uint64_t kPreferredBase = 0x7e8000000000;

/// Whether a pool may have these numbers. Errors: kInvalid, which says what must be otherwise.
Result<void> check_geometry(const Geometry& geometry, const std::string& where,
                            std::uint32_t version = kFormatVersion);

/// Of a new file, sealed. Requires: check_geometry().
Superblock make_superblock(const Geometry& geometry, std::uint64_t preferred_base,
                           std::uint64_t incompatible);
/// Checks a superblock of this process, and seals it.   Errors: kInvalid, kVersion.
Result<void> seal_superblock(Superblock& super, const std::string& where);

constexpr Offset other_superblock(Offset at) { return at == 0 ? kSecondSuperblockOffset : 0; }

struct FoundSuperblock {
  Superblock super;
  Offset at;  // of the copy that it was read from
  /// Whether the other copy is to be replaced by this one: it is damaged or, after a crash while
  /// limits were raised, older.
  bool replaces_other = false;
  std::string damage;  // what is wrong with the other copy, if that is no such crash
};
/// Reads both copies of an untrusted file, and checks them before anything of them is used.
/// `read`: fills in the bytes at an offset; false if the file, of `file_bytes`, does not have them.
/// Errors: kForeign, kVersion, kCorrupt, kTruncated.
Result<FoundSuperblock> find_superblock(
    const std::string& path, std::uint64_t file_bytes,
    const std::function<bool(Offset, void*, std::size_t)>& read);

}  // namespace perdure
