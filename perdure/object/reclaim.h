// SPDX-License-Identifier: BSD-3-Clause
// reclaim(): frees garbage that reference counts cannot see, circles of owning references, of a
// heap whose program is not at hand.
#pragma once

#include <cstdint>
#include <span>

#include "perdure/pool.h"

namespace perdure::object_layout {

struct Reclaimed {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  // of their places
};

/// Frees `leaked`: the allocations of the pool that nothing reaches, as told by a survey in which
/// everything else was sound. The destructors of their classes do not run: only the program has
/// them.
///   1. Small transactions take each object's references from it, and set weak references to it to
///      null.   Crash here ⇒ the objects are garbage as before; another run finds and frees them.
///   2. When none of them refers to anything, further transactions free them.   Crash here ⇒ as 1.
/// Requires: no object_heap is open on the pool, no other thread uses it.
/// Errors:   throws Exception kCorrupt, kPoisoned.
Reclaimed reclaim(Pool& pool, std::span<const Offset> leaked);

}  // namespace perdure::object_layout
