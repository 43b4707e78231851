// Expect: is private within this context
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<int> value;
  perdure::ref<Node> next;
  PERDURE_FIELDS(Node, value, next);
};

void use(perdure::local<Node> node) { auto copy = node->next; }
