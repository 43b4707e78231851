// Expect: a persistent class derives from perdure::object<itself>
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Base : perdure::object<Base> {
  perdure::field<int> value;
  PERDURE_FIELDS(Base, value);
};
struct Derived : Base {};
struct Node : perdure::object<Node> {
  perdure::ref<Derived> derived;
  PERDURE_FIELDS(Node, derived);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
