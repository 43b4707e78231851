// Expect: a transaction returns a value, not a reference
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<int> value;
  perdure::ref<Node> next;
  PERDURE_FIELDS(Node, value, next);
};

void use(perdure::object_heap<Node>& heap) {
  heap.atomically([](auto root) -> auto& { return root->value; });
}
