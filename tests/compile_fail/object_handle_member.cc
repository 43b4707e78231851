// Expect: a field of a persistent class is a field<T>, ref<T> or weak_ref<T>
#include "perdure/object.h"

struct Node : perdure::object<Node> {
  perdure::handle<Node> other;
  PERDURE_FIELDS(Node, other);
};

perdure::object_heap<Node> open() { return perdure::object_heap<Node>::open("x").value(); }
