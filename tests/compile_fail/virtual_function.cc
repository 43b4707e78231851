// Expect: perdure: a type with virtual functions holds an address of this program run
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

struct Shape {
  virtual double area() const;
  double width;
};

Shape* open(perdure::Pool& pool) { return pool.root<Shape>("shape"); }
