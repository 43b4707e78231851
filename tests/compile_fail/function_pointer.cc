// Expect: perdure: a raw pointer or reference would dangle after a restart
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

using Callback = void (*)();

Callback* open(perdure::Pool& pool) { return pool.root<Callback>("callback"); }
