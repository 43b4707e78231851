// SPDX-License-Identifier: BSD-3-Clause
// Single variable update, the first of four ways to change persistent memory consistently (Mnemosyne, ASPLOS 2011,
// Table 2): an aligned variable of up to 8 bytes is written whole or not at all. Nothing needs to be ordered.
// For counters, flags, "the set-up is done".
//
//   $ ./single_variable
//   this is run 1
//   $ ./single_variable
//   this is run 2
#include <stdio.h>

#include "perdure/mnemosyne.h"

pstatic long persistent runs = 0;

// Durable on return. Cut at any point in here, the count is the old one or the new one.
void count_up(long persistent* count) {
  store(count, *count + 1);  // visible at once: the program may read it again
  flush(count);              // on its way
  fence();                   // there
}

// A process that was killed before its fence leaves a count that the next one sees, and a power cut may still take back.
void rely_on_count(long persistent* count) {
  flush(count);
  fence();
}

int main(void) {
  rely_on_count(&runs);
  count_up(&runs);
  printf("this is run %ld\n", runs);
  return 0;
}
