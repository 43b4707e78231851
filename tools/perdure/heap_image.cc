// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perdure/heap_image.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "perdure/api/backup.h"
#include "perdure/api/pool_core.h"
#include "perdure/heap/layout.h"
#include "perdure/region/file.h"
#include "tools/perdure/mentions.h"
#include "tools/progress.h"

namespace perdure::tools {

using Object = Reachability::Object;

HeapImage::HeapImage(Pool& pool) : region_(&core_of(pool).region()) {
  const Superblock& super = region_->superblock();
  const std::uint64_t segment_bytes = super.geometry.segment_bytes;
  const std::vector<Object> live = live_objects(pool);
  // Segments behind the last object are left out: growing makes them again.
  Offset end = super.heap_offset + segment_bytes;
  for (const Object& object : live) end = std::max(end, object.offset + object.bytes);
  for (const Section& table : tables_of(super)) end = std::max(end, table.end());
  const std::uint64_t segments = (end - super.heap_offset + segment_bytes - 1) / segment_bytes;
  bytes_ = std::min(super.heap_offset + segments * segment_bytes, region_->grown_bytes());
  needed_.resize(bytes_ / kPageBytes);
  need_tables();
  for (std::uint64_t i = 0; i < segments; ++i) {
    const auto word = unseal(*region_->word(table_entry(i)), kSaltSegment);
    if (word &&
        heap_layout::kind_of(*word) == static_cast<std::uint8_t>(heap_layout::SegmentKind::kBlocks))
      need(super.heap_offset + i * segment_bytes,
           heap_layout::meta_blocks(super.geometry) * kBlockBytes);
  }
  for (const Object& object : live) need(object.offset, object.bytes);
}

HeapImage::HeapImage(const Region& region) : region_(&region), bytes_(region.grown_bytes()) {
  needed_.resize(bytes_ / kPageBytes);
  need_tables();
  const Superblock& super = region.superblock();
  const std::vector<std::byte> zeros(kPageBytes);
  for (Offset at = super.heap_offset; at < bytes_; at += kPageBytes) {
    const bool rests = inside(at, kPageBytes, rings_of(super).begin, rings_of(super).end()) ||
                       inside(at, kPageBytes, page_sums_of(super).begin, page_sums_of(super).end());
    if (!rests && std::memcmp(region.base() + at, zeros.data(), kPageBytes) != 0)
      need(at, kPageBytes);
  }
}

void HeapImage::need(Offset begin, std::uint64_t bytes) {
  for (Offset at = begin / kPageBytes; at * kPageBytes < std::min(begin + bytes, bytes_); ++at)
    needed_[at] = true;
}

void HeapImage::need_tables() {
  const Superblock& super = region_->superblock();
  need(0, 2 * kPageBytes);
  for (const Section& table : tables_of(super)) {
    // What was never written reads as zeros: no record, no sum.
    if (table != rings_of(super) && table != page_sums_of(super)) need(table.begin, table.bytes);
  }
}

Result<void> HeapImage::write(int fd, const std::string& path) const {
  if (auto reserved = reserve_pool(fd, region_->superblock(), bytes_, path); !reserved)
    return reserved;
  Progress progress("copying the heap", needed_.size());
  std::vector<std::byte> page(kPageBytes);
  for (std::uint64_t i = 0; i < needed_.size(); ++i) {
    if (!needed_[i]) continue;
    progress.show(i);
    const Offset at = i * kPageBytes;
    std::memcpy(page.data(), region_->base() + at, kPageBytes);
    make_fresh(at, page);
    if (!write_at(fd, page.data(), kPageBytes, at)) return io_error(path + ": writing");
  }
  return {};
}

/// The logs were never used; segments left out were never grown.
void HeapImage::make_fresh(Offset at, std::vector<std::byte>& page) const {
  const Superblock& super = region_->superblock();
  const auto put = [&](Offset offset, Word word) {
    if (offset >= at && offset < at + kPageBytes)
      std::memcpy(page.data() + (offset - at), &word, sizeof(word));
  };
  if (!region_->superblock_damage().empty()) {  // of two copies
    for (const Offset copy : {Offset{0}, kSecondSuperblockOffset}) {
      if (inside(copy, sizeof(super), at, at + kPageBytes))
        std::memcpy(page.data() + (copy - at), &super, sizeof(super));
    }
  }
  put(kStateOffset + offsetof(StatePage, grown_bytes), seal(bytes_, kSaltGrown));
  const Section heads = heads_of(super);
  const Section segment_table = segment_table_of(super);
  if (at >= heads.begin && at < heads.end()) {
    for (std::uint64_t slot = 0; slot < super.geometry.log_slots; ++slot)
      put(super.head_offset + slot * kLineBytes, seal(0, kSaltHead));
  }
  if (at >= segment_table.begin && at < segment_table.end()) {
    const std::uint64_t kept = (bytes_ - super.heap_offset) / super.geometry.segment_bytes;
    const Offset end = at + kPageBytes;
    for (Offset word = std::max(at, table_entry(kept)); word < end; word += kWordBytes)
      put(word, 0);
  }
}

}  // namespace perdure::tools
