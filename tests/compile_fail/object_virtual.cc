// Expect: a class with virtual functions holds an address of this program run
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  virtual int value() { return 1; }
  perdure::field<long> a;
  PERDURE_FIELDS(Node, a);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
