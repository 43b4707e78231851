// SPDX-License-Identifier: BSD-3-Clause
// Which of the two is persistent: the pointer, or what it points to? They are not interchangeable.
#include "perdure/mnemosyne.h"

struct node {
  struct node persistent* next;
  struct node* scratch;  // points to volatile memory, from whatever memory it is in
};

pstatic struct node persistent* persistent list;
pstatic struct node persistent* persistent lists[2];

void mix(struct node persistent* there, struct node* here);
void mix(struct node persistent* there, struct node* here) {
  struct node persistent* persistent* to_kept = &list;
  struct node persistent** to_local = &there;
  to_kept = &lists[1];
  *to_kept = *to_local;
  to_local = &list;             // expect: assign
  to_kept = to_local;           // expect: assign
  to_kept = &here->next;        // expect: assign
  *to_kept = here;              // expect: assign
  *to_local = here->scratch;    // expect: assign
  there->scratch = there;       // expect: assign
  here->next = there->scratch;  // expect: assign
  here = list;                  // expect: assign
  (void)here, (void)to_kept;
}
