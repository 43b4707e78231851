// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/arena_file.h"

#include <unistd.h>

#include <algorithm>

#include "perdure/region/file.h"

namespace perdure::checkpoint {

std::uint64_t usual_log_bytes(std::uint64_t capacity_bytes) {
  return std::clamp(capacity_bytes / 4, std::uint64_t{256} << 10, std::uint64_t{64} << 20);
}

Result<void> reserve_arena(int fd, const ArenaSuperblock& super, std::uint64_t log_bytes,
                           const std::string& path) {
  const std::uint64_t log = std::min(super.segment_bytes, log_bytes);
  if (::ftruncate(fd, static_cast<off_t>(file_bytes(super))) == 0 &&
      allocate_blocks(fd, 0, super.segment_offset[0] + log) &&
      allocate_blocks(fd, super.segment_offset[1], log))
    return {};
  return io_error(path + ": reserving " + std::to_string(super.capacity_bytes) + " bytes");
}

}  // namespace perdure::checkpoint
