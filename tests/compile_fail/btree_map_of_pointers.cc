// Expect: perdure: a field of this type is a raw pointer, a reference, or of a type
// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>

#include "perdure/container/btree_map.h"
#include "perdure/pool.h"

struct Person {
  const char* name;
};
using Map = perdure::btree_map<std::uint64_t, Person>;

Map* open(perdure::Pool& pool) { return pool.root<Map>("map"); }
