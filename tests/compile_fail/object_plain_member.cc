// Expect: a field of a persistent class is a field<T>, ref<T> or weak_ref<T>
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  int other;
  PERDURE_FIELDS(Node, other);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
