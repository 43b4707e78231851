// SPDX-License-Identifier: BSD-3-Clause
/* An arena of a C program: how often it has run. */
#include <perdure/arena_c.h>
#include <stdio.h>

int main(void) {
  const struct perdure_arena_settings small = {.capacity_bytes = 1 << 20};
  perdure_arena* const arena = perdure_arena_open_or_create("runs.arena", &small);
  long* const runs = arena != NULL ? PERDURE_ARENA_MAKE_ROOT(arena, "runs", long) : NULL;
  if (runs == NULL || (++*runs, perdure_arena_persist(arena)) != 0) {
    fprintf(stderr, "%s\n", perdure_arena_error());
    return 1;
  }
  printf("%ld\n", *runs);
  return perdure_arena_close(arena);
}
