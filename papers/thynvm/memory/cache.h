// SPDX-License-Identifier: BSD-3-Clause
// One set-associative write-back cache: which lines it holds, in LRU order, and which of them are dirty.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "papers/thynvm/memory/model.h"

namespace perdure::memory {

class Cache {
 public:
  explicit Cache(const CacheShape& shape)
      : latency(shape.latency),
        sets_(shape.sets),
        ways_(shape.ways),
        lines_(std::size_t{shape.sets} * shape.ways, kEmpty) {}

  const Time latency;

  /// Whether the line is here; it is then the most recently used, and dirty if `write`.
  bool access(std::uint64_t line, bool write) {
    std::uint64_t* set = &lines_[line % sets_ * ways_];
    if (set[0] >> 1 == line) [[likely]] {
      if (write) make_dirty(set[0]);
      return true;
    }
    for (std::uint32_t way = 1; way < ways_; ++way) {
      if (set[way] >> 1 != line) continue;
      std::uint64_t entry = set[way];
      for (std::uint32_t i = way; i > 0; --i) set[i] = set[i - 1];
      if (write) make_dirty(entry);
      set[0] = entry;
      return true;
    }
    return false;
  }

  struct Victim {
    std::uint64_t line;
    bool dirty;
  };
  /// Puts a line in that is not here, in front; what has to go for it.
  std::optional<Victim> insert(std::uint64_t line, bool dirty) {
    std::uint64_t* set = &lines_[line % sets_ * ways_];
    const std::uint64_t last = set[ways_ - 1];
    for (std::uint32_t i = ways_ - 1; i > 0; --i) set[i] = set[i - 1];
    set[0] = line << 1;
    if (dirty) make_dirty(set[0]);
    if (last == kEmpty) return {};
    return Victim{last >> 1, (last & 1) != 0};
  }

  /// Makes all lines clean, and calls `written(line)` for each that was dirty, set by set.
  template <class Written>
  void clean_all(Written written) {
    dirtied_ = 0;
    for (std::uint64_t& entry : lines_) {
      if (entry == kEmpty || (entry & 1) == 0) continue;
      entry &= ~std::uint64_t{1};
      written(entry >> 1);
    }
  }

  /// Lines that became dirty since all were clean.
  std::uint64_t dirtied() const { return dirtied_; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0} << 1;  // of no line

  void make_dirty(std::uint64_t& entry) {
    dirtied_ += (entry & 1) ^ 1;
    entry |= 1;
  }

  std::uint64_t sets_;
  std::uint32_t ways_;
  std::vector<std::uint64_t>
      lines_;  // line << 1 | dirty; each set from most to least recently used
  std::uint64_t dirtied_ = 0;
};

}  // namespace perdure::memory
