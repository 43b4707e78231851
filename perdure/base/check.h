// SPDX-License-Identifier: BSD-3-Clause
// PERDURE_CHECK: a check that is always on. It guards media, and against API misuse, where going on
// would write more, and stops the process.
#pragma once

#include <cstdio>

#include "perdure/base/shared.h"

#define PERDURE_CHECK(condition, why)                                                    \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "perdure: %s:%d: check failed: %s: %s\n", __FILE__, __LINE__, \
                   #condition, why);                                                     \
      ::perdure::stop_process();                                                         \
    }                                                                                    \
  } while (false)
