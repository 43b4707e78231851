// SPDX-License-Identifier: BSD-3-Clause
// A list in plain C, with plain pointers, that survives: who was here, in this run and the ones before.
//
//   $ ./visitors
//   visitor 1 of run 1
//   1 visitors, the name of the newest has 18 bytes
//   $ ./visitors
//   visitor 2 of run 2
//   visitor 1 of run 1
//   2 visitors, the name of the newest has 18 bytes
#include <perdure/arena_c.h>
#include <stdio.h>
#include <string.h>

struct visitor {
  struct visitor* before;  // the arena is at the same address in each run
  char* name;
};
struct book {
  long runs, visitors;
  struct visitor* newest;
};

static int welcome(perdure_arena* arena, struct book* book, const char* name) {
  int failed = -1;
  perdure_arena_enter(arena);  // no epoch ends before all of it is there
  struct visitor* const visitor = perdure_arena_allocate(arena, sizeof *visitor);
  char* const copy = perdure_arena_allocate(arena, strlen(name) + 1);
  if (visitor != NULL && copy != NULL) {
    strcpy(copy, name);
    *visitor = (struct visitor){book->newest, copy};
    book->newest = visitor;
    book->visitors++;
    failed = 0;
  }
  perdure_arena_leave(arena);
  return failed;
}

int main(void) {
  const struct perdure_arena_settings settings = {.capacity_bytes = 4 << 20, .epoch_ms = 10};
  perdure_arena* const arena = perdure_arena_open_or_create("visitors.arena", &settings);
  struct book* book = NULL;
  if (arena != NULL) book = PERDURE_ARENA_MAKE_ROOT(arena, "book", struct book);
  if (book == NULL) {
    fprintf(stderr, "%s\n", perdure_arena_error());
    return 1;
  }
  char name[64];
  perdure_arena_enter(arena);  // the timer's epochs end before this change or after it
  book->runs++;
  perdure_arena_leave(arena);
  snprintf(name, sizeof name, "visitor %ld of run %ld", book->visitors + 1, book->runs);
  if (welcome(arena, book, name) != 0 || perdure_arena_persist(arena) != 0) {
    fprintf(stderr, "%s\n", perdure_arena_error());
    return 1;
  }
  for (const struct visitor* at = book->newest; at != NULL; at = at->before) puts(at->name);
  printf("%ld visitors, the name of the newest has %zu bytes\n", book->visitors,
         strlen(book->newest->name));
  return perdure_arena_close(arena);
}
