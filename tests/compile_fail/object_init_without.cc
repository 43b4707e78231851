// Expect: the class has no init() that takes these arguments
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<int> value;
  perdure::ref<Node> next;
  PERDURE_FIELDS(Node, value, next);
};

void use(perdure::object_heap<Node>& heap) {
  heap.atomically([&] { heap.make<Node>(7); });
}
