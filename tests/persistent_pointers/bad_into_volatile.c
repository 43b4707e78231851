// SPDX-License-Identifier: BSD-3-Clause
// Persistent addresses where volatile ones are expected: whoever writes through them writes persistent memory without
// knowing it.
#include <string.h>

#include "perdure/mnemosyne.h"

struct node {
  struct node persistent* next;
  long value;
  char name[16];
};

pstatic struct node persistent* persistent list;
pstatic long persistent count;
pstatic long persistent table[4];

static long* last;

void count_up(long* counter);
void count_up(long* counter) { ++*counter; }

long* best(void);
long* best(void) {
  return &list->value;  // expect: return
}

void into(void);
void into(void) {
  struct node* head = list;        // expect: initialize
  last = &table[2];                // expect: assign
  last = table;                    // expect: assign
  count_up(&count);                // expect: pass
  count_up(&list->value);          // expect: pass
  strcpy(list->name, "new");       // expect: pass
  memset(table, 0, sizeof table);  // expect: pass
  (void)head;
}
