// SPDX-License-Identifier: BSD-3-Clause
// The one record that heap, engine, log and recovery exchange.
#pragma once

#include "perdure/base/words.h"

namespace perdure {

/// "In the word at `offset`, the bits of `mask` become those of `value`." On media and in memory
/// its address is a byte offset from the region base, a multiple of 8.
struct MaskedWrite {
  Offset offset;
  Word value;
  Word mask;
};

inline constexpr Word kWholeWord = ~Word{0};

}  // namespace perdure
