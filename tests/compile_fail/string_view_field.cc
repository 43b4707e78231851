// Expect: perdure: a field of this type is a raw pointer, a reference, or of a type
// SPDX-License-Identifier: BSD-3-Clause
#include <string_view>

#include "perdure/pool.h"

struct Label {
  std::string_view text;  // trivially copyable, and yet it refers to memory of this run
};

Label* open(perdure::Pool& pool) { return pool.root<Label>("label"); }
