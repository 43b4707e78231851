// SPDX-License-Identifier: BSD-3-Clause
// Which heap objects the roots of a pool reach, which are lost, and which are missing.
#pragma once

#include <string>
#include <vector>

#include "perdure/container/support.h"
#include "perdure/pool.h"

namespace perdure::tools {

struct Reachability {
  struct Object {
    Offset offset;
    std::uint64_t bytes;
  };
  std::uint64_t objects = 0;        // live in the heap
  std::uint64_t reached = 0;        // of them, by roots of known types
  std::vector<std::string> opaque;  // roots of types that this tool does not know
  std::vector<Object> leaked;  // live but not reached; told only when nothing is opaque or damaged
  std::vector<std::string>
      damage;  // what root tables and structures say about themselves, and dangling links

  bool sound() const { return leaked.empty() && damage.empty(); }
};

/// The room of an object of the pool's heap that takes so many bytes there.
detail::Room room_of(const Pool& pool, std::uint64_t bytes);

/// Walks every root of `pool` whose type is known (tools/known_types.cc), trusting nothing that it
/// reads. Requires: no other thread uses the pool.
Reachability trace(Pool& pool);

/// The same, and what pages differ from their checksums: for those who go on with what they find there.
Reachability trace_and_compare(Pool& pool);

}  // namespace perdure::tools
