// SPDX-License-Identifier: BSD-3-Clause
// What tells a file from one that gets its inode's number after it: part of the handles by which file systems name files
// to name_to_handle_at(2). Also compiled into what runs inside of other programs.
#pragma once

#include <cstdint>

#include "perdure/base/crc32c.h"

namespace perdure::run {

/// For handles that need not be good for opening: some file systems (overlayfs) have no others. Linux 6.5; Debian 12's
/// headers are older.
inline constexpr int kHandleOnlyTells = 0x200;

/// As struct file_handle, with room for the longest.
struct FileHandle {
  static constexpr std::uint32_t kMostBytes = 128;
  std::uint32_t bytes = kMostBytes;
  std::int32_t type = 0;
  unsigned char data[kMostBytes] = {};

  /// 0: it is not one to rely on.
  std::uint64_t generation() const {
    // Overlayfs gives a file of a lower layer another handle when it is first written to.
    constexpr std::int32_t kOverlay = 0xf8;
    constexpr unsigned kFlags = 6, kIsUpper = 4;
    if (type == kOverlay && (data[kFlags] & kIsUpper) == 0) return 0;
    return std::uint64_t{1} << 32 | crc32c(data, bytes < kMostBytes ? bytes : kMostBytes);
  }
};

}  // namespace perdure::run
