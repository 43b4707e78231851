// SPDX-License-Identifier: BSD-3-Clause
// ArenaHeap: makes damaged tables consistent, so that what is in the arena can be used again.
//
// One rule: what may be an object is never given out again. What can be told for certain is told by two
// parts of the tables: an object's chunks follow its first one and are kInside; a free run is of the
// length that both of its ends say, and a list leads to it; objects of a chunk fit their class, their
// list of free ones and the list that the chunk is in. Instead of the lists, used_bytes_ may confirm
// that all chunks are what they say. Everything else is kept as it is, as an object of whole chunks.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "perdure/base/words.h"
#include "perdure/checkpoint/arena_heap.h"

namespace perdure::checkpoint {

bool ArenaHeap::has_sound_objects(std::uint32_t at) const {
  const Chunk& chunk = chunks()[at];
  if (chunk.size_class >= kSizes.size() || chunk.count != 1) return false;
  const std::uint32_t size = kSizes[chunk.size_class];
  if (chunk.carved > kChunkBytes / size || chunk.used == 0 || chunk.used > chunk.carved)
    return false;
  std::uint16_t object = chunk.free_head;
  for (std::uint32_t left = chunk.carved - std::uint32_t{chunk.used}; left > 0; --left) {
    if (object >= chunk.carved) return false;
    std::memcpy(&object, address_of(at) + std::size_t{object} * size, sizeof(object));
  }
  return object == kNoObject;
}

/// Whether a list leads to the chunk: its head, or a neighbour in it.
bool ArenaHeap::is_listed(std::uint32_t at, std::uint32_t head) const {
  const Chunk& chunk = chunks()[at];
  const auto leads_back = [&](std::uint32_t other, std::uint32_t Chunk::* link) {
    if (other >= chunk_count_ || other == at) return false;
    const Chunk& neighbour = chunks()[other];
    return neighbour.kind == chunk.kind && neighbour.*link == at &&
           (chunk.kind == Kind::kFree || neighbour.size_class == chunk.size_class);
  };
  return head == at || leads_back(chunk.next, &Chunk::prev) || leads_back(chunk.prev, &Chunk::next);
}

std::vector<std::string> ArenaHeap::mend(std::uint64_t capacity, std::uint64_t address) {
  std::vector<std::string> done;
  if (magic_ == kMagic && version_ > kVersion) {
    // Of a newer release, unless all else is as of this one.
    const std::uint64_t version = std::exchange(version_, kVersion);
    if (!find_fault(capacity, address).empty()) version_ = version;
    return done;
  }
  magic_ = kMagic;
  version_ = kVersion;
  capacity_ = capacity;
  first_offset_ = first_offset(capacity);
  chunk_count_ = static_cast<std::uint32_t>((capacity - first_offset_) / kChunkBytes);

  // What each chunk is. Of an object its first one tells only that it is one.
  Chunk* const table = chunks();
  const auto keep = [&](std::uint32_t at) {
    std::uint32_t end = at + 1;
    while (end < chunk_count_ && table[end].kind == Kind::kInside) ++end;
    table[at] = {Kind::kLarge, 0, 0, 0, 0, end - at, kNone, kNone};
    return end - at;
  };
  const auto kept = [&](std::uint32_t at, std::uint32_t count, const char* what) {
    done.push_back("the arena's heap: " + std::to_string(count) + " chunks at address " +
                   std::to_string(address + first_offset_ + std::uint64_t{at} * kChunkBytes) +
                   ": " + what);
  };
  const auto is_free_run = [&](std::uint32_t at) {
    const Chunk& chunk = table[at];
    if (chunk.kind != Kind::kFree || chunk.count == 0 || chunk.count > chunk_count_ - at)
      return false;
    const Chunk& last = table[at + chunk.count - 1];
    return last.count == chunk.count && (chunk.count == 1 || last.kind == Kind::kFreeLast);
  };
  std::vector<std::uint32_t> runs;
  std::vector<std::uint32_t> of_objects;
  std::uint64_t used = 0;
  for (std::uint32_t at = 0; at < chunk_count_;) {
    std::uint32_t count = 1;
    if (is_free_run(at)) {
      count = table[at].count;
      runs.push_back(at);
    } else if (table[at].kind == Kind::kObjects && has_sound_objects(at)) {
      used += std::uint64_t{table[at].used} * kSizes[table[at].size_class];
      of_objects.push_back(at);
    } else {
      const bool object = table[at].kind == Kind::kLarge;
      const std::uint32_t said = table[at].count;
      count = keep(at);
      used += std::uint64_t{count} * kChunkBytes;
      if (!object || said != count)
        kept(at, count, "what they are is damaged; they are kept, and cannot be given back singly");
    }
    at += count;
  }

  // What two parts of the tables do not agree on is kept, too.
  const bool adds_up = used == used_bytes_;
  for (const std::uint32_t at : runs) {
    const auto bin = static_cast<std::size_t>(std::bit_width(table[at].count)) - 1;
    if (adds_up || is_listed(at, bins_[bin])) continue;
    const std::uint32_t count = table[at].count;
    for (std::uint32_t i = 1; i < count; ++i) table[at + i].kind = Kind::kInside;
    keep(at);
    used += std::uint64_t{count} * kChunkBytes;
    kept(at, count, "whether they are free is not certain; they are kept");
  }
  for (const std::uint32_t at : of_objects) {
    const Chunk& chunk = table[at];
    const std::uint32_t size = kSizes[chunk.size_class];
    const bool full = chunk.used == kChunkBytes / size;
    if (adds_up || full || is_listed(at, partial_[chunk.size_class])) continue;
    used -= std::uint64_t{chunk.used} * size;
    used += kChunkBytes;
    keep(at);
    kept(at, 1, "how large their objects are is not certain; they are kept");
  }
  used_bytes_ = used;

  // The lists, anew.
  partial_.fill(kNone);
  bins_.fill(kNone);
  for (std::uint32_t at = 0; at < chunk_count_; at += table[at].count) {
    Chunk& chunk = table[at];
    if (chunk.kind == Kind::kFree)
      link(bins_[static_cast<std::size_t>(std::bit_width(chunk.count)) - 1], at);
    if (chunk.kind == Kind::kObjects && chunk.used < kChunkBytes / kSizes[chunk.size_class])
      link(partial_[chunk.size_class], at);
  }
  for (Root& root : roots_) {
    if (root.address == 0 || inside(root.address, 1, address, address + capacity_)) continue;
    done.push_back("root '" + std::string(root.name, ::strnlen(root.name, kNameBytes)) +
                   "': leads out of the arena");
    root = {};
  }
  return done;
}

}  // namespace perdure::checkpoint
