// SPDX-License-Identifier: BSD-3-Clause
// pptr<T>: a persistent pointer; comments call it a link. It holds a byte offset from the region's
// base, so it means the same at every address at which the pool is ever mapped, in every process,
// and in every copy of the struct that holds it.
#pragma once

#include <cstdint>

#include "perdure/base/words.h"  // first: it says when the language is an older C++

namespace perdure {

template <class T>
struct pptr {
  std::uint64_t offset = 0;  // 0 is null: the superblock lies there
  explicit operator bool() const { return offset != 0; }
  friend bool operator==(pptr, pptr) = default;
};

}  // namespace perdure
