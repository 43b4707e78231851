// SPDX-License-Identifier: BSD-3-Clause
// A pool whose whole content is told by one number: tests of what others see of it while it changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "perdure/perdure.h"

namespace perdure::testing {

inline constexpr std::uint64_t kCells = 512;

/// Each step stores its number in a cell and in the count, and replaces an entry of a map: so the count
/// tells all the rest.
class History {
 public:
  explicit History(Pool& pool)
      : pool_(pool), cells_(pool.root<Cells>("cells")), map_(pool.root<Map>("map")) {}

  void step(Durability durability = Durability::kStrict) {
    pool_.atomically(durability, [&](Tx& tx) {
      const std::uint64_t now = tx.load(cells_->count) + 1;
      tx.store(cells_->count, now);
      tx.store(cells_->cell[now % kCells][0], now);
      map_->put(tx, now % kCells, text_of(now));
    });
  }
  /// Which step was the last; none: it is no state of the history.
  std::optional<std::uint64_t> state() const {
    return pool_.read_only([&](Tx& tx) -> std::optional<std::uint64_t> {
      const std::uint64_t count = tx.load(cells_->count);
      for (std::uint64_t i = 0; i < kCells; ++i) {
        const std::uint64_t last = last_at(i, count);
        if (tx.load(cells_->cell[i][0]) != last) return std::nullopt;
        const auto found = map_->get(tx, i);
        if (found.has_value() != (last != 0) || (found && *found != text_of(last)))
          return std::nullopt;
      }
      return count;
    });
  }

 private:
  struct Cells {
    std::uint64_t count;
    std::uint64_t cell[kCells][64];  // eight to a page
  };
  using Map = hash_map<std::uint64_t, bytes>;
  static std::string text_of(std::uint64_t step) {
    return std::string(step % 300, 'x') + std::to_string(step);
  }
  static std::uint64_t last_at(std::uint64_t cell, std::uint64_t count) {
    if (count < cell || count == 0) return 0;
    const std::uint64_t last = count - (count - cell) % kCells;
    return last;
  }

  Pool& pool_;
  Cells* cells_;
  Map* map_;
};

}  // namespace perdure::testing
