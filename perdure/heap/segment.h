// SPDX-License-Identifier: BSD-3-Clause
// What the heap knows of its segments and blocks in volatile memory; rebuilt by Heap::open.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "perdure/heap/heap.h"

namespace perdure {

/// The volatile side of a block. Free bits say what anyone can reserve: what is neither published
/// nor reserved nor being freed, nor in a magazine; that, the kept bits say.
struct Heap::Block {
  Shared<heap_layout::BlockKind> kind{heap_layout::BlockKind::kFree};
  std::atomic<std::uint8_t> size_class{0};
  Shared<bool> listed{false};  // owned by a thread's cache or in its class's partial list
  std::atomic<std::uint32_t> extent_blocks{0};
  Shared<std::uint32_t> free_objects{0};
  std::array<ObjectBits, heap_layout::kBitmapWords / 2> bits{};

  bool holds_object(std::size_t index) const {
    const ObjectBits& of = bits[index / 64];
    const std::uint64_t none =
        of.free.load(std::memory_order_acquire) | of.kept.load(std::memory_order_acquire);
    return (none >> (index % 64) & 1) == 0;
  }
};

struct Heap::Segment {
  Segment(std::uint64_t count, heap_layout::SegmentKind of_kind, std::uint64_t with)
      : kind(of_kind),
        argument(with),
        blocks(of_kind == heap_layout::SegmentKind::kBlocks ? count : 0),
        free_bits((blocks.size() + 63) / 64) {
    for (std::uint64_t b = 0; b < blocks.size(); ++b) set_free(b, true);
  }
  bool is_free(std::uint64_t block) const {
    return (free_bits[block / 64] >> (block % 64) & 1) != 0;
  }
  void set_free(std::uint64_t block, bool free) {
    const std::uint64_t bit = std::uint64_t{1} << (block % 64);
    if (free) {
      free_bits[block / 64] |= bit;
      no_run_ = kUnknown;
    } else {
      free_bits[block / 64] &= ~bit;
    }
  }
  /// The first of `count` free blocks in a row; blocks.size() if there are not so many.
  /// Requires: blocks_mutex_.
  std::uint64_t find_run(std::uint64_t count) {
    if (count >= no_run_) return blocks.size();
    bool any = false;
    std::uint64_t run = 0;
    for (std::uint64_t b = 0; b < blocks.size(); ++b) {
      if (!is_free(b)) {
        run = 0;
        if (free_bits[b / 64] == 0) b |= 63;  // none of these either
        continue;
      }
      any = true;
      if (++run == count) return b + 1 - count;
    }
    no_run_ = any ? count : 1;
    return blocks.size();
  }
  /// After a find_run() that found none.
  bool is_full() const { return no_run_ == 1; }
  // Written under blocks_mutex_, and fixed while objects live in it; read also by transactions that
  // another has overtaken.
  std::atomic<heap_layout::SegmentKind> kind;
  std::atomic<std::uint64_t> argument;  // kHuge: segments
  std::vector<Block> blocks;
  /// Which of them are kFree, for a search that need not look at each. Under blocks_mutex_.
  std::vector<std::uint64_t> free_bits;

 private:
  static constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
  /// So many free blocks in a row, or more, are not here. What is filled by large objects has a
  /// rest that is too short for the next one, and is not searched for each of them.
  std::uint64_t no_run_ = kUnknown;
};

/// What an offset points at.
struct Heap::Place {
  heap_layout::SegmentKind segment_kind;
  std::uint64_t segment;
  std::uint64_t block;  // global number
  Block* in = nullptr;  // that block
  unsigned object;      // index in a small block
  bool is_small() const {
    return in != nullptr &&
           in->kind.load(std::memory_order_relaxed) == heap_layout::BlockKind::kSmall;
  }
};

}  // namespace perdure
