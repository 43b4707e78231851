// SPDX-License-Identifier: BSD-3-Clause
// WordBuffer: words that are about to be written in full, in memory that is kept from one use to
//             the next.
#pragma once

#include <memory>

#include "perdure/base/words.h"

namespace perdure {

/// Unlike a vector it never clears what it hands out: on the path of a commit that would be a
/// second pass.
class WordBuffer {
 public:
  WordBuffer() = default;
  /// Contents are never kept, so a copy begins empty.
  WordBuffer(const WordBuffer&) noexcept {}
  WordBuffer& operator=(const WordBuffer&) noexcept { return *this; }

  /// Room for `count` words with undefined contents; the earlier room is void.
  Word* room(std::size_t count) {
    if (count > capacity_) {
      words_ = std::make_unique_for_overwrite<Word[]>(2 * count);
      capacity_ = 2 * count;
    }
    return words_.get();
  }

 private:
  std::unique_ptr<Word[]> words_;
  std::size_t capacity_ = 0;
};

}  // namespace perdure
