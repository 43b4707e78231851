// Expect: perdure: this type owns something outside the pool
// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "perdure/pool.h"

struct Page {
  int number;
  std::vector<int> words;
};

Page* open(perdure::Pool& pool) { return pool.root<Page>("page"); }
