// Expect: perdure: this type owns something outside the pool
// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "perdure/pool.h"

std::string* open(perdure::Pool& pool) { return pool.root<std::string>("text"); }
