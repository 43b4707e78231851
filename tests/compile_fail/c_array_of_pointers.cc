// Expect: perdure: a field of this type is a raw pointer, a reference, or of a type
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

struct Team {
  int points;
  const char* names[8];
};

Team* open(perdure::Pool& pool) { return pool.root<Team>("team"); }
