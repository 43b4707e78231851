// SPDX-License-Identifier: BSD-3-Clause
// ArenaHeap: checks that its tables are consistent. They are untrusted: no index is followed before
// it was checked, and no list is longer than the table.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "perdure/base/words.h"
#include "perdure/checkpoint/arena_heap.h"

namespace perdure::checkpoint {

/// The table of chunks has an entry for each chunk that fits behind it, and some for those that do
/// not.
std::uint64_t ArenaHeap::first_offset(std::uint64_t capacity) {
  return round_up(sizeof(ArenaHeap) + capacity / kChunkBytes * sizeof(Chunk), kChunkBytes);
}

std::string ArenaHeap::find_fault(std::uint64_t capacity, std::uint64_t address) const {
  const auto of_chunk = [](std::uint32_t chunk, const char* what) {
    return "the arena's heap: chunk " + std::to_string(chunk) + ": " + what;
  };
  if (magic_ != kMagic || version_ != kVersion) return "the arena's heap has no head";
  if (capacity_ != capacity || first_offset_ != first_offset(capacity) ||
      chunk_count_ != (capacity - first_offset_) / kChunkBytes)
    return "the arena's heap is one of another size";

  // What each chunk is, from the first on.
  std::vector<bool> in_bin(chunk_count_);
  std::vector<bool> in_partial(chunk_count_);
  std::uint64_t used = 0;
  for (std::uint32_t at = 0; at < chunk_count_; at += chunks()[at].count) {
    const Chunk& chunk = chunks()[at];
    if (chunk.count == 0 || chunk.count > chunk_count_ - at)
      return of_chunk(at, "a run that leaves the arena");
    switch (chunk.kind) {
      case Kind::kFree: {
        const Chunk& last = chunks()[at + chunk.count - 1];
        if (last.count != chunk.count || (chunk.count > 1 && last.kind != Kind::kFreeLast))
          return of_chunk(at, "a free run without an end");
        in_bin[at] = true;
        break;
      }
      case Kind::kLarge: used += std::uint64_t{chunk.count} * kChunkBytes; break;
      case Kind::kObjects: {
        if (chunk.size_class >= kSizes.size() || chunk.count != 1)
          return of_chunk(at, "objects of an unknown class");
        const std::uint32_t size = kSizes[chunk.size_class];
        const std::uint32_t most = std::uint32_t{kChunkBytes} / size;
        if (chunk.carved > most || chunk.used == 0 || chunk.used > chunk.carved)
          return of_chunk(at, "more objects than fit");
        used += std::uint64_t{chunk.used} * size;
        in_partial[at] = chunk.used < most;
        std::uint16_t object = chunk.free_head;
        for (std::uint32_t left = chunk.carved - std::uint32_t{chunk.used}; left > 0; --left) {
          if (object >= chunk.carved) return of_chunk(at, "a list of free objects that breaks off");
          std::memcpy(&object, address_of(at) + std::size_t{object} * size, sizeof(object));
        }
        if (object != kNoObject) return of_chunk(at, "a list of free objects without an end");
        break;
      }
      case Kind::kFreeLast:
      case Kind::kInside:
      default: return of_chunk(at, "no beginning of anything");
    }
  }
  if (used != used_bytes_) return "the arena's heap: its objects do not add up";

  // Each list holds what belongs into it, once.
  const auto check_list = [&](std::uint32_t head, std::vector<bool>& members, auto belongs) {
    std::uint32_t before = kNone;
    for (std::uint32_t at = head; at != kNone; before = at, at = chunks()[at].next) {
      if (at >= chunk_count_ || !members[at] || chunks()[at].prev != before ||
          !belongs(chunks()[at]))
        return false;
      members[at] = false;
    }
    return true;
  };
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const auto belongs = [&](const Chunk& chunk) {
      return static_cast<std::size_t>(std::bit_width(chunk.count)) - 1 == bin;
    };
    if (!check_list(bins_[bin], in_bin, belongs)) return "the arena's heap: a broken list of runs";
  }
  for (std::size_t size = 0; size < kSizes.size(); ++size) {
    const auto belongs = [&](const Chunk& chunk) { return chunk.size_class == size; };
    if (!check_list(partial_[size], in_partial, belongs))
      return "the arena's heap: a broken list of chunks";
  }
  const auto forgotten = [](const std::vector<bool>& members) {
    return std::find(members.begin(), members.end(), true) != members.end();
  };
  if (forgotten(in_bin) || forgotten(in_partial)) return "the arena's heap: a chunk in no list";

  for (const Root& root : roots_) {
    if (root.address != 0 && !inside(root.address, 1, address, address + capacity_))
      return "the arena's heap: a root outside of the arena";
  }
  return {};
}

std::uint64_t ArenaHeap::count_objects() const {
  std::uint64_t objects = 0;
  for (std::uint32_t at = 0; at < chunk_count_; at += chunks()[at].count) {
    const Chunk& chunk = chunks()[at];
    objects += chunk.kind == Kind::kLarge ? 1 : chunk.kind == Kind::kObjects ? chunk.used : 0;
  }
  return objects;
}

}  // namespace perdure::checkpoint
