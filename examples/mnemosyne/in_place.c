// SPDX-License-Identifier: BSD-3-Clause
// In-place update, the last of four ways to change persistent memory consistently (Mnemosyne, ASPLOS 2011, Table 2):
// anything may change, everywhere, as in a program without persistence. A transaction keeps copies, orders the stores, and
// after a crash all of it has happened or nothing. Here: a doubly linked list, of which one change writes several nodes.
//
//   $ ./in_place
//   1
//   $ ./in_place
//   1 2
#include <stdio.h>

#include "perdure/mnemosyne.h"

struct node {
  struct node persistent *next, *previous;
  long value;
};
struct list {
  struct node persistent *first, *last;
};

pstatic struct list persistent numbers;

// Adds `value` at the end. Durable on return; -1 when there is no memory.
int add(struct list persistent* list, long value) {
  int result = -1;
  __transaction_atomic {
    struct node persistent* const before = list->last;
    struct node persistent* const fresh = pmalloc(sizeof *fresh, &list->last);
    if (fresh != NULL) {
      fresh->next = NULL;
      fresh->previous = before;
      fresh->value = value;
      if (before != NULL) {
        before->next = fresh;
      } else {
        list->first = fresh;
      }
      result = 0;
    }
  }
  return result;
}

// Removes the first node with `value`, if there is one. Durable on return.
void drop(struct list persistent* list, long value) {
  __transaction_atomic {
    struct node persistent* persistent* link = &list->first;
    while (*link != NULL && (*link)->value != value) link = &(*link)->next;
    if (*link != NULL) {
      struct node persistent* const next = (*link)->next;
      if (next != NULL) {
        next->previous = (*link)->previous;
      } else {
        list->last = (*link)->previous;
      }
      pfree(link);  // what it points to, and the link becomes NULL
      *link = next;
    }
  }
}

int main(void) {
  const long value = numbers.last == NULL ? 1 : numbers.last->value + 1;
  if (add(&numbers, value) != 0) return 1;
  drop(&numbers, value - 5);
  for (const struct node persistent* at = numbers.first; at != NULL; at = at->next)
    printf(at->next != NULL ? "%ld " : "%ld\n", at->value);
  return 0;
}
