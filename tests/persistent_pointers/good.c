// SPDX-License-Identifier: BSD-3-Clause
// What programs do with persistent pointers, and no checker may complain about. Is C, and C++.
#include <stdio.h>
#include <string.h>

#include "perdure/mnemosyne.h"

struct node {
  struct node persistent* next;
  long value;
  char name[16];
};
struct shelf {
  struct node persistent* slots[4];
  long used;
};

pstatic long persistent count = 3;
static pstatic long persistent table[4] = {1, 2, 3, 4};
pstatic struct shelf persistent shelf;
pstatic struct node persistent* persistent list;
static pstatic struct node persistent* persistent lists[2];

// A pointer to persistent memory may be volatile itself: a parameter, a local variable, a field, a result.
struct cursor {
  struct node persistent* at;
};

static long sum(const struct node persistent* from) {
  long total = 0;
  for (struct cursor cursor = {(struct node persistent*)from}; cursor.at != NULL;
       cursor.at = cursor.at->next)
    total += cursor.at->value;
  return total;
}

__attribute__((transaction_safe)) static struct node persistent* find(struct node persistent* from,
                                                                      long value) {
  while (from != NULL && from->value != value) from = from->next;
  return from;
}

static void primitives(void) {
  store(&count, count + 1);
  flush(&count);
  fence();
  wtstore(&table[2], table[1] + 40);
  wtstore(&shelf.used, 4);
  store(table + 3, 5);
  fence();
  long persistent* const slot = &table[0];
  *slot += 1;
  flush(slot);
  fence();
}

static void heap(long value) {
  struct node persistent* fresh = (struct node persistent*)pmalloc(sizeof *fresh, &lists[1]);
  if (fresh == NULL) return;
  fresh->value = value;
  fresh->name[0] = 'n';
  store(&fresh->name[1], '\0');
  store(&fresh->next, list);
  flush(fresh);
  fence();
  wtstore(&list, fresh);
  wtstore(&lists[1], (struct node persistent*)NULL);
  wtstore(&shelf.slots[0], fresh);
  fence();
  pmalloc(64, &shelf.slots[1]);
  pfree(&shelf.slots[1]);
}

static void transaction(long value) {
  __transaction_atomic {
    struct node persistent* fresh =
        (struct node persistent*)pmalloc(sizeof *fresh, &shelf.slots[2]);
    if (fresh == NULL) __transaction_cancel;
    fresh->next = list;
    fresh->value = value;
    list = fresh;
    shelf.slots[2] = NULL;
    if (find(list, value) == fresh) ++count;
    // A receiver on the transaction's own stack is lawful there: the cast says that it is meant.
    struct node persistent* scratch = NULL;
    pmalloc(sizeof *scratch, (void persistent*)&scratch);
    pfree((void persistent*)&scratch);
  }
}

static void seen(const void* record, size_t size, void* argument) {
  long value = 0;
  if (size == sizeof value) memcpy(&value, record, size);
  *(long*)argument += value;
}

static long logs(void) {
  long total = 0;
  const long entry = 1;
  perdure_log* const log = log_create("entries", 8192, 0, seen, &total);
  if (log == NULL) return -1;
  log_append(log, &entry, sizeof entry);
  log_flush(log);
  log_truncate(log);
  perdure_log_close(log);
  return total;
}

static void regions(void) {
  pmap(&lists[0], 4096, 3, 0);
  if (lists[0] != NULL) punmap(lists[0], 4096);
}

int main(void) {
  primitives();
  heap(7);
  transaction(8);
  regions();
  printf("%ld %ld %ld\n", count, logs(), sum(list));
  return list == (struct node persistent*)perdure_fixed_address(list) ? 0 : 1;
}
