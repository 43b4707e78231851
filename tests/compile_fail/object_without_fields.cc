// Expect: a persistent class names its fields: PERDURE_FIELDS
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::field<long> a;
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
