// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/storage_with_gaps.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace perdure::checkpoint {

bool StorageWithGaps::read(void* data, std::size_t bytes, Offset offset) {
  auto* const to = static_cast<std::byte*>(data);
  const std::uint64_t there =
      offset >= file_bytes() ? 0 : std::min<std::uint64_t>(bytes, file_bytes() - offset);
  std::memset(to + there, 0, bytes - there);
  if (there == 0 || file_.read(to, there, offset)) return true;
  // Sector by sector: one that cannot be read does not take its neighbours along.
  for (Offset at = offset; at < offset + there;) {
    const Offset end = std::min(round_down(at, kSectorBytes) + kSectorBytes, offset + there);
    if (!file_.read(to + (at - offset), end - at, at)) {
      std::memset(to + (at - offset), 0, end - at);
      const Offset begin = round_down(at, kSectorBytes);
      const auto after = std::lower_bound(gaps_.begin(), gaps_.end(), begin,
                                          [](const Gap& gap, Offset b) { return gap.begin < b; });
      if (after == gaps_.end() || after->begin != begin) gaps_.insert(after, {begin, kSectorBytes});
    }
    at = end;
  }
  return true;
}

bool StorageWithGaps::write(const void*, std::size_t, Offset) {
  errno = EROFS;
  return false;
}

Offset StorageWithGaps::next_data(Offset at) {
  return at >= file_bytes() ? std::max(at, bytes_) : file_.next_data(at);
}

void StorageWithGaps::lengthen(std::uint64_t bytes) {
  if (bytes <= bytes_) return;
  gaps_.push_back({bytes_, bytes - bytes_});
  bytes_ = bytes;
}

bool StorageWithGaps::has_gap(Offset begin, std::uint64_t bytes) const {
  return std::any_of(gaps_.begin(), gaps_.end(), [&](const Gap& gap) {
    return gap.begin < begin + bytes && begin < gap.begin + gap.bytes;
  });
}

}  // namespace perdure::checkpoint
