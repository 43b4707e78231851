// Expect: perdure: a persistent class has no constructor and no private field
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

class Secret {  // cannot be looked into; would have to specialise
                // perdure::is_persistable_by_promise
  int* address_;
};

Secret* open(perdure::Pool& pool) { return pool.root<Secret>("secret"); }
