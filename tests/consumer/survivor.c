// SPDX-License-Identifier: BSD-3-Clause
/* Each run pushes its number twice, and prints what all runs have pushed. */
#include <stdio.h>

#include "stack.h"

pstatic long persistent runs = 0;
pstatic struct element persistent* persistent top = NULL;

int main(void) {
  __transaction_atomic {
    ++runs;
    push(&top, runs);
  }
  push_alone(&top, runs);
  for (const struct element persistent* at = top; at != NULL; at = at->below)
    printf("%ld ", at->value);
  printf("\n");
  return 0;
}
