// Expect: this type owns something outside the heap
// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<std::string> name;
  PERDURE_FIELDS(Node, name);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
