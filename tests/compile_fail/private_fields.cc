// Expect: perdure: a field of this type is a raw pointer, a reference, or of a type
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

class Secret {  // cannot be looked into; would have to specialise
                // perdure::is_persistable_by_promise
  int* address_;
};

Secret* open(perdure::Pool& pool) { return pool.root<Secret>("secret"); }
