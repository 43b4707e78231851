// Expect: perdure: a raw pointer or reference would dangle after a restart
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/persistable.h"

void check() { perdure::require_persistable<int&>(); }
