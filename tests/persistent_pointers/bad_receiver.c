// SPDX-License-Identifier: BSD-3-Clause
// What receives memory must be persistent itself, or a crash leaks the memory; and the primitives are for persistent
// memory only.
#include "perdure/mnemosyne.h"

static long persistent* forgotten;
static long count;
pstatic long persistent* persistent kept;

struct cursor {
  long persistent* at;
};

void receive(struct cursor* cursor);
void receive(struct cursor* cursor) {
  long persistent* local;
  pmalloc(8, &local);            // expect: pass
  pfree(&local);                 // expect: pass
  pmalloc(8, &forgotten);        // expect: pass
  pfree(&cursor->at);            // expect: pass
  pmap(&forgotten, 4096, 3, 0);  // expect: pass
  punmap(&count, 4096);          // expect: pass
  store(&count, 1);              // expect: pass
  wtstore(&count, 1);            // expect: pass
  flush(&count);                 // expect: pass
  pmalloc(8, &kept);
}
