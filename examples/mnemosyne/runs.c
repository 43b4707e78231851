// SPDX-License-Identifier: BSD-3-Clause
// A list that grows by one with every run, in plain C: the program that docs/COMPILED_TRANSACTIONS.md shows.
//
//   $ ./runs
//   1
//   $ ./runs
//   2 1
#include <stdio.h>

#include "perdure/mnemosyne.h"

struct node {
  struct node persistent* next;
  long run;
};
pstatic struct node persistent* persistent newest;  // keeps its value from run to run

int main(void) {
  __transaction_atomic {  // after any crash, all of this has happened or nothing
    struct node persistent* const before = newest;
    struct node persistent* const fresh = pmalloc(sizeof *fresh, &newest);
    if (fresh != NULL) {
      fresh->next = before;
      fresh->run = before != NULL ? before->run + 1 : 1;
    }
  }
  for (const struct node persistent* at = newest; at != NULL; at = at->next)
    printf(at->next != NULL ? "%ld " : "%ld\n", at->run);
  return 0;
}
