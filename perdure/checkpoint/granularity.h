// SPDX-License-Identifier: BSD-3-Clause
// How a changed page is recorded: as its changed blocks, or whole. The thresholds are ThyNVM's
// (section 4.2): if more than 22 of 64 blocks changed in an epoch, the page is recorded whole; if
// fewer than 16 did, as blocks again. In between nothing changes, so that a page near a threshold
// does not switch in every epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "perdure/checkpoint/protocol.h"

namespace perdure::checkpoint {

/// Volatile: after an opening all pages begin as blocks. Threads: none.
class Granularity {
 public:
  explicit Granularity(std::uint64_t pages) : whole_(pages) {}

  std::uint64_t pages() const { return whole_.size(); }
  /// Whether the page is recorded whole in this epoch, in which so many of its blocks changed.
  bool whole(std::uint64_t page, std::uint32_t changed_blocks) {
    if (changed_blocks > kToPages) {
      whole_[page] = true;
    } else if (changed_blocks < kToBlocks) {
      whole_[page] = false;
    }
    return whole_[page];
  }

 private:
  static constexpr std::uint32_t kToPages = Geometry{}.to_pages;
  static constexpr std::uint32_t kToBlocks = Geometry{}.to_blocks;
  std::vector<bool> whole_;
};

}  // namespace perdure::checkpoint
