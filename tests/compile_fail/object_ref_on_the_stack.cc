// Expect: use of deleted function
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object.h"

perdure::ref<int> on_the_stack;
