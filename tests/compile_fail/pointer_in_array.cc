// Expect: perdure: a field of this type is a raw pointer, a reference, or of a type
// SPDX-License-Identifier: BSD-3-Clause
#include <array>

#include "perdure/pool.h"

struct Table {
  std::array<int*, 4> entries;
};

Table* open(perdure::Pool& pool) { return pool.root<Table>("table"); }
