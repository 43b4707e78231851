// SPDX-License-Identifier: BSD-3-Clause
// The copy of a heap: what it consists of, page by page, at its place.
#pragma once

#include <string>
#include <vector>

#include "perdure/pool.h"
#include "perdure/region/region.h"

namespace perdure::tools {

class HeapImage {
 public:
  /// The objects of a private copy that was recovered and checkpointed, and what leads to them.
  explicit HeapImage(Pool& pool);
  /// All of a private copy that has no log any more.
  explicit HeapImage(const Region& region);

  std::uint64_t bytes() const { return bytes_; }

  /// Writes it to a new, empty file. Errors: kIo, kNoSpace.
  Result<void> write(int fd, const std::string& path) const;

 private:
  Offset table_entry(std::uint64_t segment) const {
    return region_->superblock().segment_table_offset + segment * kWordBytes;
  }
  void need(Offset begin, std::uint64_t bytes);
  void need_tables();
  void make_fresh(Offset at, std::vector<std::byte>& page) const;

  const Region* region_;
  std::uint64_t bytes_ = 0;
  std::vector<bool> needed_;
};

}  // namespace perdure::tools
