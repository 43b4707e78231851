// SPDX-License-Identifier: BSD-3-Clause
// Volatile addresses where persistent ones belong: after a restart they would point to nothing.
#include <stdlib.h>

#include "perdure/mnemosyne.h"

struct node {
  struct node persistent* next;
  const char persistent* name;
};

pstatic struct node persistent* persistent list;
pstatic struct node persistent first;

static struct node volatile_node;

struct node persistent* pick(struct node* candidate);
struct node persistent* pick(struct node* candidate) {
  return candidate;  // expect: return
}

void into(struct node persistent* there);
void into(struct node persistent* there) {
  struct node persistent* local = &volatile_node;  // expect: initialize
  list = malloc(sizeof(struct node));              // expect: assign
  local = &first;
  local->next = &volatile_node;         // expect: assign
  there->name = "a literal";            // expect: assign
  into(&volatile_node);                 // expect: pass
  store(&there->next, &volatile_node);  // expect: assign
  wtstore(&list, &volatile_node);       // expect: assign
}
