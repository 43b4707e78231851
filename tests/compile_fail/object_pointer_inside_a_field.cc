// Expect: something in this type is a raw pointer
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Pair {
  int a;
  const char* b;
};
struct Node : perdure::object<Node> {
  perdure::field<Pair> pair;
  PERDURE_FIELDS(Node, pair);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
