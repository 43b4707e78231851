// SPDX-License-Identifier: BSD-3-Clause
// Shadow update, the third of four ways to change persistent memory consistently (Mnemosyne, ASPLOS 2011, Table 2): the new
// version is written beside the old one, and when it is durable, one store to the reference makes it the valid one. One
// thing is ordered: that store after the data. For trees, documents, whatever hangs on one reference.
//
//   $ ./shadow
//   settings 0: none
//   $ ./shadow
//   settings 1: theme of run 1
#include <stdio.h>

#include "perdure/mnemosyne.h"

struct settings {
  long version;
  char theme[160];
};
struct document {
  struct settings persistent* copies[2];
  long valid;  // the reference: which of the copies counts
};

pstatic struct document persistent preferences;

// Durable on return; -1 when there is no memory.
int change_to(struct document persistent* document, long version) {
  const long shadow = 1 - document->valid;
  // 1. Free what no reference leads to: the version before the last, or what a crash left of an update. The copies
  //    are persistent themselves, so it is not forgotten.        Cut here: the old version.
  pfree(&document->copies[shadow]);
  struct settings persistent* fresh = pmalloc(sizeof *fresh, &document->copies[shadow]);
  if (fresh == NULL) return -1;
  // 2. Write the new version, in any order.                      Cut here: the old version.
  struct settings settings = {.version = version};
  snprintf(settings.theme, sizeof settings.theme, "theme of run %ld", version);
  wtstore(fresh, settings);
  fence();  // Orders: the data before the reference. Without it the reference may lead to a part of the data.
  // 3. Change over.                                              Cut here: the old version or the new one.
  wtstore(&document->valid, shadow);
  fence();
  return 0;
}

// A process that was killed before its last fence leaves a reference that the next one sees, and a power cut may still take
// back. (The log of the append example and transactions see to that themselves.)
void rely_on_reference(struct document persistent* document) {
  flush(&document->valid);
  fence();
}

int main(void) {
  rely_on_reference(&preferences);
  const struct settings persistent* const valid = preferences.copies[preferences.valid];
  struct settings now = {.theme = "none"};
  if (valid != NULL) now = *valid;
  printf("settings %ld: %s\n", now.version, now.theme);
  return change_to(&preferences, now.version + 1) == 0 ? 0 : 1;
}
