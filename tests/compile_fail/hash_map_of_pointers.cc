// Expect: perdure: a raw pointer or reference would dangle after a restart
// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>

#include "perdure/container/hash_map.h"
#include "perdure/pool.h"

using Map = perdure::hash_map<std::uint64_t, char*>;

Map* open(perdure::Pool& pool) { return pool.root<Map>("map"); }
