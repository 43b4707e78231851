// SPDX-License-Identifier: BSD-3-Clause
// Memory that transactions allocate and free, volatile and persistent: all of it or nothing, at commit, cancel and conflict.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"

#define SAFE __attribute__((transaction_safe, noinline))

struct node {
  struct node persistent* next;
  long value;
};

pstatic struct node persistent* head = NULL;
pstatic void persistent* slots[64] = {0};
static void* volatile_slot = NULL;
static long shared = 0;

/// Of blocks above a kilobyte: malloc keeps smaller ones for the thread when they are freed, and counts them as used.
static size_t bytes_in_use(void) {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

static void malloc_is_taken_back_by_cancel(void) {
  void* memory = NULL;
  // The first round grows what the runtime keeps for itself.
  size_t before = 0;
  for (int round = 0; round < 200; ++round) {
    if (round == 1) before = bytes_in_use();
    __transaction_atomic {
      memory = malloc(100000);
      volatile_slot = calloc(10, 10000);
      memset(memory, round, 100);
      if (memory != NULL) __transaction_cancel;
    }
  }
  EXPECT(bytes_in_use() <= before + 4096);
  EXPECT(memory == NULL);
  EXPECT(volatile_slot == NULL);
}

static void malloc_is_taken_back_by_a_conflict(void) {
  size_t before = 0;
  for (int round = 0; round < 40; ++round) {
    if (round == 20) before = bytes_in_use();
    long conflicts = 0;
    int zeroed = 1;
    char* memory = NULL;
    rival_arm();
    __transaction_atomic {
      memory = malloc(200000);
      memory[5] = 'x';
      conflicts += conflict_once();
      char* more = calloc(1000, 1);
      for (int i = 0; i < 1000; ++i) zeroed = zeroed && more[i] == 0;
      free(more);
      volatile_slot = memory;
    }
    EXPECT(rival_struck() && conflicts == 0);
    EXPECT(zeroed);
    EXPECT(volatile_slot == memory && memory[5] == 'x');
    free(volatile_slot);
  }
  EXPECT(bytes_in_use() <= before + 4096);
}

static void free_waits_for_the_commit(void) {
  char* const memory = malloc(6000);
  strcpy(memory, "still there");
  const size_t before = bytes_in_use();
  __transaction_atomic {
    free(memory);
    if (shared == 0) __transaction_cancel;
  }
  EXPECT(bytes_in_use() == before);
  EXPECT(strcmp(memory, "still there") == 0);

  long conflicts = 0;
  rival_arm();
  __transaction_atomic {
    free(memory);
    conflicts += conflict_once();
    shared = 0;
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(bytes_in_use() < before);
}

static void inner_cancel_keeps_what_the_outer_has(void) {
  char* outer = NULL;
  char* inner = NULL;
  const size_t before = bytes_in_use();
  __transaction_atomic {
    outer = malloc(5000);
    outer[0] = 'o';
    __transaction_atomic {
      inner = malloc(300000);
      free(outer);
      outer[0] = 'i';
      if (inner != NULL) __transaction_cancel;
    }
    outer[1] = 'k';
  }
  EXPECT(inner == NULL);
  EXPECT(outer[0] == 'o' && outer[1] == 'k');
  EXPECT(bytes_in_use() >= before + 5000 && bytes_in_use() < before + 300000);
  free(outer);
}

/// Freed in the transaction that allocated it: given back once, whatever comes.
static void born_and_freed(void) {
  for (int round = 0; round < 3; ++round) {
    __transaction_atomic {
      char* memory = malloc(1000);
      memory[0] = 'b';
      free(memory);
      free(NULL);
      if (round == 1) __transaction_cancel;
    }
  }
  EXPECT(1);  // or malloc has ended the program
}

static int pushes(long value) {
  int done = 0;
  __transaction_atomic {
    struct node persistent* fresh = NULL;
    if (pmalloc(sizeof(struct node), &fresh) != NULL) {
      fresh->value = value;
      fresh->next = head;
      head = fresh;
      done = 1;
    }
  }
  return done;
}

static long pop(void) {
  long value = -1;
  __transaction_atomic {
    struct node persistent* first = head;
    if (first != NULL) {
      value = first->value;
      head = first->next;
      pfree(&first);
      if (first != NULL) value = -2;
    }
  }
  return value;
}

static void local_receivers(void) {
  for (long i = 0; i < 100; ++i) EXPECT(pushes(i));
  long sum = 0, nodes = 0;
  for (const struct node persistent* node = head; node != NULL; node = node->next) {
    sum += node->value;
    ++nodes;
    EXPECT(perdure_is_persistent(node));
  }
  EXPECT(nodes == 100 && sum == 4950);
  for (long i = 100; i-- > 0;) EXPECT(pop() == i);
  EXPECT(head == NULL);
  EXPECT(pop() == -1);
}

/// Through a pointer, in a frame of the transaction's own, and in one that an inner cancel comes back to.
SAFE static long in_own_frame(int cancel) {
  void persistent* mine[2] = {NULL, NULL};
  long kept = 0;
  pmalloc(64, &mine[0]);
  __transaction_atomic {
    pmalloc(64, &mine[1]);
    pfree(&mine[0]);
    if (cancel) __transaction_cancel;
  }
  kept = (mine[0] != NULL) * 10 + (mine[1] != NULL);
  pfree(&mine[0]);
  pfree(&mine[1]);
  return kept;
}

static void receivers_in_own_frames(void) {
  long kept = 0;
  __transaction_atomic { kept = in_own_frame(0); }
  EXPECT(kept == 1);
  __transaction_atomic { kept = in_own_frame(1); }
  EXPECT(kept == 10);
}

static void persistent_receivers(void) {
  __transaction_atomic {
    for (int i = 0; i < 64; ++i) {
      pmalloc(100, &slots[i]);
      memset(slots[i], i, 100);
    }
  }
  for (int i = 0; i < 64; ++i) EXPECT(slots[i] != NULL && ((char*)slots[i])[99] == i);
  __transaction_atomic {
    for (int i = 0; i < 64; ++i) pfree(&slots[i]);
    if (shared == 0) __transaction_cancel;
  }
  for (int i = 0; i < 64; ++i) EXPECT(slots[i] != NULL && ((char*)slots[i])[99] == i);
  long conflicts = 0;
  rival_arm();
  __transaction_atomic {
    for (int i = 0; i < 64; ++i) pfree(&slots[i]);
    conflicts += conflict_once();
    shared = 0;
  }
  EXPECT(rival_struck() && conflicts == 0);
  for (int i = 0; i < 64; ++i) EXPECT(slots[i] == NULL);

  // Outside transactions, with a persistent receiver only.
  EXPECT(pmalloc(100, &slots[0]) != NULL && slots[0] != NULL);
  EXPECT(pfree(&slots[0]) == 0 && slots[0] == NULL);
  EXPECT(pfree(&slots[0]) == 0);
  void persistent* local = NULL;
  EXPECT(pmalloc(100, &local) == NULL && local == NULL);
  EXPECT(strstr(perdure_error(), "must be persistent") != NULL);
}

static void double_pfree_is_refused(void) {
  void persistent* copy = NULL;
  EXPECT(pmalloc(48, &slots[1]) != NULL);
  __transaction_atomic { copy = slots[1]; }
  int first = 0, second = 0, third = 0;
  __transaction_atomic {
    first = pfree(&slots[1]);
    second = pfree(&copy);
    shared = 5;
  }
  EXPECT(first == 0 && second == -1 && shared == 5);
  EXPECT(slots[1] == NULL && copy != NULL);
  EXPECT(strstr(perdure_error(), "double free") != NULL);
  __transaction_atomic {
    void persistent* again = copy;
    third = pfree(&again);
    shared = 6;
  }
  EXPECT(third == -1 && shared == 6);
  // A pointer that is none of the heap's.
  int foreign = 0;
  void persistent* inside = &slots[3];
  __transaction_atomic { foreign = pfree(&inside); }
  EXPECT(foreign == -1 && inside == &slots[3]);
  shared = 0;
}

static void too_much_is_null_and_the_transaction_goes_on(void) {
  void* result = &shared;
  void* nothing = &shared;
  __transaction_atomic {
    shared = 1;
    result = pmalloc((size_t)1 << 60, &slots[2]);
    nothing = pmalloc(0, &slots[2]);
    shared += 1;
    pmalloc(32, &slots[4]);
  }
  EXPECT(result == NULL && nothing == NULL);
  EXPECT(slots[2] == NULL && slots[4] != NULL);
  EXPECT(shared == 2);
  EXPECT(pfree(&slots[4]) == 0);
  shared = 0;
}

extern __attribute__((transaction_pure)) uint32_t _ITM_inTransaction(void);
static uint32_t in_transaction = 0;
__attribute__((transaction_pure, noinline)) static void look(void) {
  in_transaction += _ITM_inTransaction();
}

/// Nothing but allocations is a transaction, too: gcc must not leave it out.
static void transactions_that_only_allocate(void) {
  in_transaction = 0;
  __transaction_atomic {
    pmalloc(64, &slots[10]);
    pmalloc(64, &slots[11]);
    look();
  }
  EXPECT(in_transaction == 1);
  EXPECT(slots[10] != NULL && slots[11] != NULL);
  __transaction_atomic {
    pfree(&slots[10]);
    look();
    pfree(&slots[11]);
  }
  EXPECT(in_transaction == 2);
  EXPECT(slots[10] == NULL && slots[11] == NULL);
}

/// Much more than there is, were it not given back: the heap must not have grown.
static void cancel_gives_persistent_memory_back(void) {
  enum { kBytes = 1 << 20 };
  uintptr_t lowest = UINTPTR_MAX, highest = 0;
  for (int round = 0; round < 300; ++round) {
    void persistent* seen[4] = {NULL, NULL, NULL, NULL};
    int all = 0;
    __transaction_atomic {
      all = 1;
      for (int i = 0; i < 4; ++i) {
        if (pmalloc(kBytes, &slots[i]) == NULL) all = 0;
        seen[i] = slots[i];
        ((char*)slots[i])[kBytes - 1] = 1;
      }
      if (round % 2 == 0) __transaction_cancel;
      for (int i = 0; i < 4; ++i) pfree(&slots[i]);
    }
    if (round % 2 == 0) {
      EXPECT(all == 0 && seen[0] == NULL);
      continue;
    }
    EXPECT(all == 1);
    for (int i = 0; i < 4; ++i) {
      EXPECT(slots[i] == NULL);
      if ((uintptr_t)seen[i] < lowest) lowest = (uintptr_t)seen[i];
      if ((uintptr_t)seen[i] > highest) highest = (uintptr_t)seen[i];
    }
  }
  EXPECT(highest - lowest < (uintptr_t)64 * kBytes);
}

int main(void) {
  malloc_is_taken_back_by_cancel();
  malloc_is_taken_back_by_a_conflict();
  free_waits_for_the_commit();
  inner_cancel_keeps_what_the_outer_has();
  born_and_freed();
  local_receivers();
  receivers_in_own_frames();
  persistent_receivers();
  double_pfree_is_refused();
  transactions_that_only_allocate();
  too_much_is_null_and_the_transaction_goes_on();
  cancel_gives_persistent_memory_back();
  return expect_status();
}
