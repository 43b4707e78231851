// SPDX-License-Identifier: BSD-3-Clause
/* As survivor.c, with the stack in a library that is opened when the program runs. */
#include <dlfcn.h>
#include <stdio.h>

#include "stack.h"

pstatic long persistent runs = 0;
pstatic struct element persistent* persistent top = NULL;

int main(void) {
  void* const library = dlopen("libstack.so", RTLD_NOW);
  __typeof__(&push_alone) push_alone_there = NULL;
  if (library != NULL) *(void**)&push_alone_there = dlsym(library, "push_alone");
  if (push_alone_there == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  __transaction_atomic { ++runs; }
  push_alone_there(&top, runs);
  push_alone_there(&top, runs);
  for (const struct element persistent* at = top; at != NULL; at = at->below)
    printf("%ld ", at->value);
  printf("\n");
  return 0;
}
