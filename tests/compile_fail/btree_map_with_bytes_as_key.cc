// Expect: perdure: a btree_map's keys have one size; take hash_map<perdure::bytes, V>
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/perdure.h"

using Map = perdure::btree_map<perdure::bytes, int>;

Map* open(perdure::Pool& pool) { return pool.root<Map>("map"); }
