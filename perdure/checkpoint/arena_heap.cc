// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/arena_heap.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "perdure/base/check.h"
#include "perdure/base/words.h"

namespace perdure::checkpoint {
namespace {

constexpr auto& kSizes = ArenaHeap::kSizes;
constexpr std::uint8_t kClasses = kSizes.size();

std::uint32_t objects_of(std::uint8_t size_class) {
  return std::uint32_t{ArenaHeap::kChunkBytes} / kSizes[size_class];
}
/// kClasses: none.
std::uint8_t class_of(std::size_t bytes, std::size_t alignment) {
  const auto* found = std::lower_bound(kSizes.begin(), kSizes.begin() + kClasses, bytes);
  while (found != kSizes.begin() + kClasses && !is_aligned(*found, alignment)) ++found;
  return static_cast<std::uint8_t>(found - kSizes.begin());
}
std::size_t bin_of(std::uint32_t count) {
  return static_cast<std::size_t>(std::bit_width(count)) - 1;
}

}  // namespace

ArenaHeap::ArenaHeap(std::uint64_t capacity)
    : magic_(kMagic),
      version_(kVersion),
      capacity_(capacity),
      first_offset_(first_offset(capacity)),
      chunk_count_(static_cast<std::uint32_t>((capacity - first_offset_) / kChunkBytes)),
      reserved_(0),
      used_bytes_(0),
      resource_(*this) {
  partial_.fill(kNone);
  bins_.fill(kNone);
  std::memset(roots_.data(), 0, sizeof(roots_));
  give_run(0, chunk_count_);
}

Result<ArenaHeap*> ArenaHeap::open(std::byte* base, std::uint64_t capacity, bool fresh) {
  PERDURE_CHECK(is_aligned(reinterpret_cast<std::uintptr_t>(base), kChunkBytes), "a crooked arena");
  if (capacity < kLeastCapacity)
    return Error{Code::kCorrupt,
                 "an arena of " + std::to_string(capacity) + " bytes has no room for its heap"};
  if (fresh) return new (base) ArenaHeap(capacity);
  auto* heap = reinterpret_cast<ArenaHeap*>(base);
  if (heap->magic_ == kMagic && heap->version_ > kVersion)
    return Error{Code::kVersion, "the arena's heap has version " + std::to_string(heap->version_) +
                                     "; use a newer release"};
  if (const std::string fault = heap->find_fault(capacity); !fault.empty())
    return Error{Code::kCorrupt, fault + "; restore it from a backup"};
  new (&heap->resource_) Resource(*heap);
  new (&heap->mutex_) std::mutex;
  return heap;
}

std::byte* ArenaHeap::address_of(std::uint32_t chunk) {
  return reinterpret_cast<std::byte*>(this) + first_offset_ + std::uint64_t{chunk} * kChunkBytes;
}

void ArenaHeap::link(std::uint32_t& head, std::uint32_t chunk) {
  chunks()[chunk].prev = kNone;
  chunks()[chunk].next = head;
  if (head != kNone) chunks()[head].prev = chunk;
  head = chunk;
}
void ArenaHeap::unlink(std::uint32_t& head, std::uint32_t chunk) {
  const Chunk& gone = chunks()[chunk];
  (gone.prev == kNone ? head : chunks()[gone.prev].next) = gone.next;
  if (gone.next != kNone) chunks()[gone.next].prev = gone.prev;
}

std::uint32_t ArenaHeap::take_run(std::uint32_t count) {
  // Any run of a larger bin will do; of the same bin some are too short.
  for (std::size_t bin = bin_of(count); bin < kBins; ++bin) {
    for (std::uint32_t at = bins_[bin]; at != kNone; at = chunks()[at].next) {
      const std::uint32_t length = chunks()[at].count;
      if (length < count) continue;
      unlink(bins_[bin], at);
      // What they said as parts of a run must not be believed when their neighbours are given back.
      for (std::uint32_t i = 0; i < count; ++i) chunks()[at + i].kind = Kind::kInside;
      if (length > count) give_run(at + count, length - count);
      return at;
    }
  }
  return kNone;
}

void ArenaHeap::give_run(std::uint32_t first, std::uint32_t count) {
  Chunk* const table = chunks();
  if (const std::uint32_t after = first + count;
      after < chunk_count_ && table[after].kind == Kind::kFree && table[after].count != 0) {
    unlink(bins_[bin_of(table[after].count)], after);
    count += table[after].count;
  }
  if (first > 0 && (table[first - 1].kind == Kind::kFreeLast ||
                    (table[first - 1].kind == Kind::kFree && table[first - 1].count == 1))) {
    const std::uint32_t length = table[first - 1].count;
    first -= length;
    count += length;
    unlink(bins_[bin_of(length)], first);
  }
  table[first + count - 1].kind = Kind::kFreeLast;
  table[first + count - 1].count = count;
  table[first].kind = Kind::kFree;
  table[first].count = count;
  link(bins_[bin_of(count)], first);
}

void* ArenaHeap::take_object(std::uint8_t size_class) {
  std::uint32_t at = partial_[size_class];
  if (at == kNone) {
    at = take_run(1);
    if (at == kNone) return nullptr;
    chunks()[at] = {Kind::kObjects, size_class, 0, kNoObject, 0, 1, kNone, kNone};
    link(partial_[size_class], at);
  }
  Chunk& chunk = chunks()[at];
  std::byte* object = nullptr;
  if (chunk.free_head != kNoObject) {
    object = address_of(at) + std::size_t{chunk.free_head} * kSizes[size_class];
    std::memcpy(&chunk.free_head, object, sizeof(chunk.free_head));
    PERDURE_CHECK(chunk.free_head == kNoObject || chunk.free_head < chunk.carved,
                  "an object of an arena was written to after it was freed");
  } else {
    object = address_of(at) + std::size_t{chunk.carved++} * kSizes[size_class];
  }
  if (++chunk.used == objects_of(size_class)) unlink(partial_[size_class], at);
  return object;
}

void* ArenaHeap::allocate(std::size_t bytes, std::size_t alignment) {
  if (alignment > kChunkBytes || !std::has_single_bit(alignment))
    throw Exception(Code::kInvalid, "an alignment of " + std::to_string(alignment) +
                                        " bytes; an arena has up to 16 KiB");
  const std::lock_guard lock(mutex_);
  const std::uint8_t size_class = class_of(std::max<std::size_t>(bytes, 1), alignment);
  if (size_class < kClasses) {
    if (void* object = take_object(size_class)) {
      used_bytes_ += kSizes[size_class];
      return object;
    }
  } else if (bytes <= capacity_) {
    const auto count = static_cast<std::uint32_t>(round_up(bytes, kChunkBytes) / kChunkBytes);
    if (const std::uint32_t at = take_run(count); at != kNone) {
      chunks()[at] = {Kind::kLarge, 0, 0, 0, 0, count, kNone, kNone};
      used_bytes_ += std::uint64_t{count} * kChunkBytes;
      return address_of(at);
    }
  }
  throw Exception(Code::kNoSpace, "no room for " + std::to_string(bytes) +
                                      " bytes in an arena of " + std::to_string(capacity_) +
                                      ", of which " + std::to_string(used_bytes_) +
                                      " are taken; create a larger one");
}

std::uint32_t ArenaHeap::chunk_of(const void* object) const {
  const auto offset =
      static_cast<std::uint64_t>(static_cast<const std::byte*>(object) - address_of(0));
  PERDURE_CHECK(offset < std::uint64_t{chunk_count_} * kChunkBytes,
                "an object given back to an arena is not of it");
  const auto at = static_cast<std::uint32_t>(offset / kChunkBytes);
  const auto inner = static_cast<std::uint32_t>(offset % kChunkBytes);
  const Chunk& chunk = chunks()[at];
  if (chunk.kind == Kind::kLarge) {
    PERDURE_CHECK(inner == 0, "an address inside an object of an arena is given back");
  } else {
    PERDURE_CHECK(chunk.kind == Kind::kObjects && chunk.used > 0 &&
                      inner % kSizes[chunk.size_class] == 0 &&
                      inner / kSizes[chunk.size_class] < chunk.carved,
                  "what is given back to an arena is no object of it, or was given back");
  }
  return at;
}

void ArenaHeap::deallocate(void* object) {
  if (object == nullptr) return;
  const std::lock_guard lock(mutex_);
  const std::uint32_t at = chunk_of(object);
  Chunk& chunk = chunks()[at];
  if (chunk.kind == Kind::kLarge) {
    used_bytes_ -= std::uint64_t{chunk.count} * kChunkBytes;
    give_run(at, chunk.count);
    return;
  }
  const std::uint8_t size_class = chunk.size_class;
  const auto inner = static_cast<std::size_t>(static_cast<std::byte*>(object) - address_of(at));
  std::memcpy(object, &chunk.free_head, sizeof(chunk.free_head));
  chunk.free_head = static_cast<std::uint16_t>(inner / kSizes[size_class]);
  used_bytes_ -= kSizes[size_class];
  if (chunk.used-- == objects_of(size_class)) link(partial_[size_class], at);
  if (chunk.used == 0) {
    unlink(partial_[size_class], at);
    give_run(at, 1);
  }
}

void* ArenaHeap::resize(void* object, std::size_t bytes) {
  if (object == nullptr) return allocate(bytes);
  std::size_t had = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::uint32_t at = chunk_of(object);
    Chunk& chunk = chunks()[at];
    const bool large = chunk.kind == Kind::kLarge;
    had = large ? std::size_t{chunk.count} * kChunkBytes : kSizes[chunk.size_class];
    const std::uint8_t fits = class_of(std::max<std::size_t>(bytes, 1), alignof(std::max_align_t));
    if (!large && fits == chunk.size_class) return object;
    if (large && fits == kClasses && bytes <= had) {
      const auto count = static_cast<std::uint32_t>(round_up(bytes, kChunkBytes) / kChunkBytes);
      if (const std::uint32_t rest = chunk.count - count; rest > 0) {
        chunk.count = count;
        used_bytes_ -= std::uint64_t{rest} * kChunkBytes;
        give_run(at + count, rest);
      }
      return object;
    }
  }
  void* const fresh = allocate(bytes);
  std::memcpy(fresh, object, std::min(had, bytes));
  deallocate(object);
  return fresh;
}

ArenaHeap::Root* ArenaHeap::find_root(std::string_view name) {
  if (name.empty() || name.size() >= kNameBytes)
    throw Exception(Code::kInvalid, "a root's name has 1 to 39 bytes");
  for (Root& root : roots_) {
    if (root.address != 0 && name == std::string_view(root.name, ::strnlen(root.name, kNameBytes)))
      return &root;
  }
  return nullptr;
}

void* ArenaHeap::root(std::string_view name, std::uint64_t type) {
  const std::lock_guard lock(mutex_);
  const Root* root = find_root(name);
  if (root == nullptr) return nullptr;
  if (root->type != type)
    throw Exception(Code::kTypeMismatch,
                    "root \"" + std::string(name) + "\" was set as an object of another type");
  return reinterpret_cast<void*>(root->address);  // audited: inside
}

void ArenaHeap::set_root(std::string_view name, std::uint64_t type, void* object) {
  const std::lock_guard lock(mutex_);
  Root* root = find_root(name);
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  const auto begin = reinterpret_cast<std::uintptr_t>(this);
  if (object != nullptr && !inside(address, 1, begin, begin + capacity_))
    throw Exception(Code::kInvalid,
                    "root \"" + std::string(name) + "\" is to be an object outside of the arena");
  if (root == nullptr) {
    if (object == nullptr) return;
    for (Root& entry : roots_) {
      if (entry.address == 0) {
        root = &entry;
        break;
      }
    }
    if (root == nullptr)
      throw Exception(Code::kNoSpace, "an arena has " + std::to_string(kRoots) + " roots");
  }
  std::memset(root, 0, sizeof(*root));
  if (object == nullptr) return;
  std::copy(name.begin(), name.end(), root->name);
  root->type = type;
  root->address = address;
}

}  // namespace perdure::checkpoint
