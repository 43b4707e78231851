// SPDX-License-Identifier: BSD-3-Clause
// Append update, the second of four ways to change persistent memory consistently (Mnemosyne, ASPLOS 2011, Table 2): new
// data goes behind the old, which is never modified. The stores of one append are unordered; a log recognizes an append
// that did not arrive whole, and forgets it. For journals, queues, histories.
//
//   $ ./append
//   wrote entry 1
//   $ ./append
//   found entry 1
//   wrote entry 2
#include <stdio.h>

#include "perdure/mnemosyne.h"

struct entry {
  long number;
  char text[96];
};

// Durable on return; -1 when the journal is full. Cut before the end of log_flush, the entry is there or not.
int append_entry(perdure_log* journal, long number) {
  struct entry entry = {.number = number};
  snprintf(entry.text, sizeof entry.text, "entry %ld", number);
  if (log_append(journal, &entry, sizeof entry) != 0) return -1;
  return log_flush(journal);
}

static void found(const void* record, size_t size, void* last) {
  const struct entry* const entry = record;
  if (size != sizeof *entry) return;
  printf("found %s\n", entry->text);
  *(long*)last = entry->number;
}

int main(void) {
  long last = 0;
  perdure_log* const journal = log_create("journal", 1 << 16, 0, found, &last);
  if (journal == NULL || append_entry(journal, last + 1) != 0) {
    fprintf(stderr, "%s\n", perdure_error());
    return 1;
  }
  printf("wrote entry %ld\n", last + 1);
  perdure_log_close(journal);
  return 0;
}
