// Expect: a volatile pointer or reference in a heap would dangle after a restart
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<Node*> next;
  PERDURE_FIELDS(Node, next);
};

int read(perdure::local<Node> node) { return *node->next.get() == nullptr; }
