// SPDX-License-Identifier: BSD-3-Clause
// An empty pool, in a new file or in memory.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "perdure/region/file.h"
#include "perdure/region/region.h"
#include "perdure/region/superblock.h"

namespace perdure {
namespace {

/// A log on memory is as quick however small it is, and recovered the sooner; on files a larger one
/// lets more commits share the write of a page home. At most a 16th of the pool goes to the larger
/// ones.
std::uint64_t ring_bytes_for(DomainKind domain, const Geometry& g) {
  constexpr std::uint64_t kOnMemory = std::uint64_t{256} << 10;
  constexpr std::uint64_t kOnFiles = std::uint64_t{4} << 20;
  if (domain != DomainKind::kSync || g.log_slots == 0) return kOnMemory;
  return std::clamp(round_down(g.capacity_bytes / 16 / g.log_slots, kPageBytes), kOnMemory,
                    kOnFiles);
}

Superblock superblock_for(const Region::CreateOptions& options) {
  return make_superblock(options.geometry,
                         options.preferred_base != 0 ? options.preferred_base : kPreferredBase,
                         options.incompatible);
}

/// Everything of an empty pool that is not zero, as (offset, bytes) pieces.
template <class Put>
bool put_format(const Superblock& super, std::uint64_t segments, Word fresh_segment, Put put) {
  const std::uint64_t grown = super.heap_offset + segments * super.geometry.segment_bytes;
  const Word grown_word = seal(grown, kSaltGrown);
  const Word retired_word = seal(0, kSaltRetired);
  const Word head_word = seal(0, kSaltHead);
  bool ok = put(0, &super, sizeof(super)) && put(kSecondSuperblockOffset, &super, sizeof(super)) &&
            put(kStateOffset + offsetof(StatePage, grown_bytes), &grown_word, 8) &&
            put(kStateOffset + offsetof(StatePage, retired_stamp), &retired_word, 8);
  for (std::uint64_t slot = 0; ok && slot < super.geometry.log_slots; ++slot) {
    ok = put(super.head_offset + slot * kLineBytes, &head_word, 8);
  }
  for (std::uint64_t i = 0; ok && i < segments; ++i) {
    ok = put(super.segment_table_offset + i * kWordBytes, &fresh_segment, 8);
  }
  return ok;
}

}  // namespace

Result<void> Region::create_file(const std::string& path, const CreateOptions& asked) {
  return create_whole_file(path, asked.mode, [&](int fd) -> Result<void> {
    CreateOptions options = asked;
    if (options.domain == DomainKind::kAuto) options.domain = domain_of_file(fd, kPageBytes);
    if (options.geometry.ring_bytes == 0)
      options.geometry.ring_bytes = ring_bytes_for(options.domain, options.geometry);
    if (auto valid = check_geometry(options.geometry, path); !valid) return valid;
    const Superblock super = superblock_for(options);
    // Divided, not multiplied: the count may be anything.
    if (options.initial_segments >
        (super.geometry.capacity_bytes - super.heap_offset) / super.geometry.segment_bytes)
      return Error{Code::kInvalid, path + ": " + std::to_string(options.initial_segments) +
                                       " initial segments are more than capacity_bytes holds"};
    const std::uint64_t bytes =
        super.heap_offset + options.initial_segments * super.geometry.segment_bytes;
    if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return io_error(path + ": sizing");
    // Rings stay sparse until a thread uses them; tables and heap have real blocks from the start.
    const bool allocated = allocate_blocks(fd, 0, super.ring_offset) &&
                           (options.initial_segments == 0 ||
                            allocate_blocks(fd, super.heap_offset, bytes - super.heap_offset));
    if (!allocated) return io_error(path + ": reserving space");
    const bool written = put_format(super, options.initial_segments, seal(0, kSaltSegment),
                                    [&](Offset offset, const void* data, std::size_t size) {
                                      return write_at(fd, data, size, offset);
                                    });
    if (!written) return io_error(path + ": formatting");
    return {};
  });
}

Result<void> Region::format_memory(std::byte* base, std::uint64_t bytes,
                                   const CreateOptions& options) {
  if (auto valid = check_geometry(options.geometry, "memory"); !valid) return valid;
  const Superblock super = superblock_for(options);
  if (super.heap_offset > bytes ||
      options.initial_segments > (bytes - super.heap_offset) / super.geometry.segment_bytes)
    return Error{Code::kInvalid,
                 "memory: " + std::to_string(bytes) + " bytes do not hold this pool"};
  put_format(super, options.initial_segments, seal(0, kSaltSegment),
             [&](Offset offset, const void* data, std::size_t size) {
               std::memcpy(base + offset, data, size);
               return true;
             });
  return {};
}

}  // namespace perdure
