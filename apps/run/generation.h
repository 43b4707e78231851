// What tells a file from one that gets its inode's number after it: part of the handles by which file systems name files
// to name_to_handle_at(2). Also compiled into what runs inside of other programs.
#pragma once

#include <cstdint>

#include "perdure/base/crc32c.h"

namespace perdure::run {

/// As struct file_handle, with room for the longest.
struct FileHandle {
  static constexpr std::uint32_t kMostBytes = 128;
  std::uint32_t bytes = kMostBytes;
  std::int32_t type = 0;
  unsigned char data[kMostBytes] = {};

  /// Never 0.
  std::uint64_t generation() const {
    return std::uint64_t{1} << 32 | crc32c(data, bytes < kMostBytes ? bytes : kMostBytes);
  }
};

}  // namespace perdure::run
