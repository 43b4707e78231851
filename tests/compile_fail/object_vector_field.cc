// Expect: this type owns something outside the heap
// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<std::vector<int>> values;
  PERDURE_FIELDS(Node, values);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
