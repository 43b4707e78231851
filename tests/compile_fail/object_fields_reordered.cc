// Expect: PERDURE_FIELDS must name every field of the class, in their order
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<long> a;
  perdure::field<long> b;
  PERDURE_FIELDS(Node, b, a);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
