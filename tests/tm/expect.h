// SPDX-License-Identifier: BSD-3-Clause
// What the programs of this folder share: a check that goes on after a failure, and a count so that a program which
// checks nothing does not pass. For C and C++.
#pragma once

#include <stdio.h>

static int expect_checks = 0;
static int expect_failures = 0;

/// Outside transactions: it prints.
#define EXPECT(condition) expect_that((condition) ? 1 : 0, #condition, __FILE__, __LINE__)

static inline void expect_that(int holds, const char* condition, const char* file, int line) {
  __atomic_fetch_add(&expect_checks, 1, __ATOMIC_RELAXED);
  if (holds) return;
  __atomic_fetch_add(&expect_failures, 1, __ATOMIC_RELAXED);
  fprintf(stderr, "%s:%d: expected: %s\n", file, line, condition);
}

/// The exit status of main(): 0 when there were checks and all of them held.
static inline int expect_status(void) {
  printf("%d checks, %d failed\n", expect_checks, expect_failures);
  return expect_checks > 0 && expect_failures == 0 ? 0 : 1;
}
