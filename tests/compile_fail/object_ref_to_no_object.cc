// Expect: a persistent class derives from perdure::object<itself>
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Plain {
  int value;
};
struct Node : perdure::object<Node> {
  perdure::ref<Plain> plain;
  PERDURE_FIELDS(Node, plain);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
