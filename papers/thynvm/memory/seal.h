// SPDX-License-Identifier: BSD-3-Clause
// The last line of an epoch that a stop-the-world system writes: it counts and checks what was written
// before it. Two of them take turns, so that one is always whole.
#pragma once

#include <cstdint>
#include <cstring>

#include "perdure/base/crc32c.h"
#include "papers/thynvm/memory/contents.h"

namespace perdure::memory {

struct Seal {
  std::uint64_t epoch = 0;     // 0: none
  std::uint64_t position = 0;  // of the core
  std::uint64_t count = 0;     // of what the system saves: entries, pages
  std::uint64_t in_place = 0;  // journal: whether all of it has been copied home
  std::uint32_t payload_crc = 0;
  std::uint32_t crc = 0;  // of all before

  Line line() const {
    Seal sealed = *this;
    sealed.crc = crc32c(&sealed, offsetof(Seal, crc));
    Line line{};
    std::memcpy(line.data(), &sealed, sizeof sealed);
    return line;
  }
  /// Epoch 0 for a line that is none, or torn.
  static Seal of(const Line& line) {
    Seal seal;
    std::memcpy(&seal, line.data(), sizeof seal);
    return seal.crc == crc32c(&seal, offsetof(Seal, crc)) ? seal : Seal{};
  }
};
static_assert(sizeof(Seal) <= kLineBytes);

}  // namespace perdure::memory
