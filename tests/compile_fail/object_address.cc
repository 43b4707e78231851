// Expect: use of deleted function
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<int> value;
  perdure::ref<Node> next;
  PERDURE_FIELDS(Node, value, next);
};

auto* address(perdure::local<Node> node) { return &*node.operator->(); }
