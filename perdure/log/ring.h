// SPDX-License-Identifier: BSD-3-Clause
// A ring of words on persistent memory and its sealed head position: what every log of this room
// stands on.
#pragma once

#include <algorithm>
#include <span>

#include "perdure/base/checked_word.h"
#include "perdure/base/words.h"
#include "perdure/domain/domain.h"

namespace perdure {

/// Positions count words since the log was created and never wrap (48 bits); `position % count` is
/// the place in the ring, `position / count` the lap.
struct Ring {
  Word* words;
  std::uint64_t count;
  Word* head_word;  // on media: seal(position, salt) of the oldest record that recovery may need

  Word* at(std::uint64_t position) const { return words + position % count; }
  /// Words from `position` to the end of the ring: what one contiguous write may take.
  std::uint64_t until_end(std::uint64_t position) const { return count - position % count; }
  /// The torn bit of words written on the lap of `position`: 1 on the first lap, since a new ring
  /// is zeroed.
  Word torn(std::uint64_t position) const { return ((position / count + 1) & 1) << 63; }
  /// The position of the same place on the same lap in a ring of `other_count` words.
  std::uint64_t position_in(std::uint64_t other_count, std::uint64_t position) const {
    return position / count * other_count + position % count;
  }

  /// Stores `source` from `position` on, around the end where needed.
  template <Domain D>
  void write(D& domain, std::uint64_t position, std::span<const Word> source, Site site) const {
    while (!source.empty()) {
      const auto piece = std::min<std::uint64_t>(source.size(), until_end(position));
      domain.write_through(at(position), source.data(), piece, site);
      position += piece;
      source = source.subspan(piece);
    }
  }
};

}  // namespace perdure
