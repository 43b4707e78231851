// SPDX-License-Identifier: BSD-3-Clause
// What the heap knows of an object, so that it is looked up once for all that an allocation or a
// free does with it.
#pragma once

#include <cstdint>

#include "perdure/base/shared.h"
#include "perdure/base/words.h"

namespace perdure {

/// What the heap knows, in volatile memory, of 64 small objects of a block, a bit each.
struct ObjectBits {
  Shared<std::uint64_t> free{0};  // anyone can reserve it
  Shared<std::uint64_t> kept{0};  // it is in a thread's magazine
};

struct HeapObject {
  Offset offset = 0;  // 0: none
  // Of a small one:
  Offset word = 0;             // the bitmap's word that says whether it is there
  ObjectBits* bits = nullptr;  // null: not small
  std::uint8_t bit = 0;        // there; modulo 32, in the bitmap's word
  std::uint8_t size_class = 0;
  bool is_small() const { return bits != nullptr; }
};

}  // namespace perdure
