// Expect: no object of this heap can lead to one of this class
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Other : perdure::object<Other> {
  perdure::field<int> value;
  PERDURE_FIELDS(Other, value);
};
struct Node : perdure::object<Node> {
  perdure::field<int> value;
  perdure::ref<Node> next;
  PERDURE_FIELDS(Node, value, next);
};

void use(perdure::object_heap<Node>& heap) {
  heap.atomically([&] { heap.make<Other>(); });
}
