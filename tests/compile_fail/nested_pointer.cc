// Expect: perdure: a field of this type is a raw pointer, a reference, or of a type
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

struct Inner {
  const char* text;
};
struct Outer {
  int number;
  Inner inner;
};

Outer* open(perdure::Pool& pool) { return pool.root<Outer>("outer"); }
