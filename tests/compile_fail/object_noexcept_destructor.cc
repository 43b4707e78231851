// Expect: it must not be noexcept
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<long> a;
  PERDURE_FIELDS(Node, a);
  ~Node() noexcept {}
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
