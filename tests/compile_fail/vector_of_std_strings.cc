// Expect: perdure: this type owns something outside the pool
// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "perdure/container/vector.h"
#include "perdure/pool.h"

struct Shelf {
  int number;
  perdure::vector<std::string> titles;
};

Shelf* open(perdure::Pool& pool) { return pool.root<Shelf>("shelf"); }
