// Expect: rows are std::array<field<T>, N>, of one dimension
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  std::array<std::array<perdure::field<int>, 2>, 2> values;
  PERDURE_FIELDS(Node, values);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
