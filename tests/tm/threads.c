// SPDX-License-Identifier: BSD-3-Clause
// Transactions of several threads: one after the other, as far as anybody can see; and what a transaction takes out of a
// structure is its own.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"

#define SAFE __attribute__((transaction_safe, noinline))

enum { kThreads = 4 };

/// Runs `body(0)` ... `body(kThreads - 1)`, each in a thread, and waits for them.
static void in_threads(void* (*body)(void*)) {
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i)
    EXPECT(pthread_create(&threads[i], NULL, body, (void*)i) == 0);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

static unsigned next_random(unsigned* seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

// ---- counters -----------------------------------------------------------------------------------

enum { kTurns = 5000 };
pstatic long durable_counter = 0;
static long counter = 0;
static char bytes[16];

static void* count(void* unused) {
  (void)unused;
  for (int i = 0; i < kTurns; ++i) {
    __transaction_atomic {
      counter += 1;
      durable_counter += 1;
    }
  }
  return NULL;
}

static void counters_end_exact(void) {
  in_threads(count);
  EXPECT(counter == (long)kThreads * kTurns);
  EXPECT(durable_counter == (long)kThreads * kTurns);
}

/// Neighbours in one word: some are stored by transactions, some plainly by another thread. None is lost.
static void* store_bytes(void* which) {
  const long mine = (long)which;
  for (int i = 0; i < kTurns; ++i) {
    if (mine % 2 == 0) {
      __transaction_atomic {
        bytes[mine] = (char)(bytes[mine] + 1);
        bytes[mine + 8] = (char)(bytes[mine + 8] + 1);
      }
    } else {
      const char expected = (char)i;
      EXPECT(((volatile char*)bytes)[mine] == expected);
      EXPECT(((volatile char*)bytes)[mine + 8] == expected);
      ((volatile char*)bytes)[mine] = (char)(expected + 1);
      ((volatile char*)bytes)[mine + 8] = (char)(expected + 1);
    }
  }
  return NULL;
}

static void bytes_beside_are_not_lost(void) {
  memset(bytes, 0, sizeof(bytes));
  in_threads(store_bytes);
  for (int i = 0; i < kThreads; ++i)
    EXPECT(bytes[i] == (char)kTurns && bytes[i + 8] == (char)kTurns);
}

// ---- opacity ------------------------------------------------------------------------------------

/// Whoever reads left and right sees a sum of kSum. The table has room for nothing else, and nothing behind it.
enum { kSum = 100, kPairs = 8 };
static struct {
  long left;
  char line[120];
  long right;
  char another[120];
} pairs[kPairs];
static long* table[kSum + 1];
static long the_only_entry = 1;
static int moving = 0;
static long wrong_sums = 0;

__attribute__((transaction_pure, noinline)) static void note_a_wrong_sum(void) {
  __atomic_fetch_add(&wrong_sums, 1, __ATOMIC_RELAXED);
}

static void* move_or_look(void* which) {
  unsigned seed = 7 + (unsigned)(long)which;
  if ((long)which % 2 == 0) {
    for (int i = 0; i < kTurns; ++i) {
      const unsigned pair = next_random(&seed) % kPairs;
      const long amount = (long)(next_random(&seed) % 50);
      __transaction_atomic {
        pairs[pair].left = amount;
        pairs[pair].right = kSum - amount;
      }
    }
    __atomic_fetch_sub(&moving, 1, __ATOMIC_RELEASE);
    return NULL;
  }
  long looked = 0;
  while (__atomic_load_n(&moving, __ATOMIC_ACQUIRE) > 0 || looked < 1000) {
    const unsigned pair = next_random(&seed) % kPairs;
    long found = 0;
    __transaction_atomic {
      const long left = pairs[pair].left;
      const long right = pairs[pair].right;
      // Also in an attempt that is doomed: any other sum than kSum finds NULL, or what is not the table's.
      if (left + right != kSum) note_a_wrong_sum();
      found = *table[left + right];
    }
    if (found != 1) note_a_wrong_sum();
    ++looked;
  }
  return NULL;
}

static void no_attempt_sees_a_mixture(void) {
  for (int i = 0; i < kPairs; ++i) pairs[i].left = kSum;
  table[kSum] = &the_only_entry;
  moving = kThreads / 2;
  in_threads(move_or_look);
  EXPECT(wrong_sums == 0);
}

// ---- a bank -------------------------------------------------------------------------------------

enum { kAccounts = 128, kDeposit = 1000, kAudits = 150 };
pstatic long accounts[kAccounts] = {0};
static long wrong_audits = 0;
static long audits = 0;

SAFE static void transfer(long* from, long* to, long amount) {
  if (*from < amount) return;
  *from -= amount;
  *to += amount;
}

SAFE static long total(void) {
  long sum = 0;
  for (int i = 0; i < kAccounts; ++i) sum += accounts[i];
  return sum;
}

/// Transfers, and now and then a long transaction that only reads, against the transfers of the others.
static void* bank(void* which) {
  unsigned seed = 99 + (unsigned)(long)which;
  for (int i = 0; i < kTurns; ++i) {
    long* const from = &accounts[next_random(&seed) % kAccounts];
    long* const to = &accounts[next_random(&seed) % kAccounts];
    const long amount = (long)(next_random(&seed) % 300);
    __transaction_atomic { transfer(from, to, amount); }
    if (i % (kTurns / kAudits) != 0) continue;
    long sum = 0;
    __transaction_atomic { sum = total(); }
    __atomic_fetch_add(&audits, 1, __ATOMIC_RELAXED);
    if (sum != (long)kAccounts * kDeposit) __atomic_fetch_add(&wrong_audits, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void money_is_neither_made_nor_lost(void) {
  __transaction_atomic {
    for (int i = 0; i < kAccounts; ++i) accounts[i] = kDeposit;
  }
  in_threads(bank);
  EXPECT(total() == (long)kAccounts * kDeposit);
  for (int i = 0; i < kAccounts; ++i) EXPECT(accounts[i] >= 0);
  EXPECT(audits >= kThreads * kAudits);
  EXPECT(wrong_audits == 0);
}

// ---- privatization ------------------------------------------------------------------------------

struct node {
  struct node* next;
  long value;
  long copy;        // of value, always
  char room[2000];  // freed, it goes back to malloc's common store, not only to the thread's own
};
static struct node* list = NULL;
static int taking = 0;
static long torn = 0;

static void* take_or_traverse(void* which) {
  unsigned seed = 5 + (unsigned)(long)which;
  if ((long)which % 2 == 0) {
    for (int i = 0; i < 2000; ++i) {
      struct node* mine = NULL;
      __transaction_atomic {
        mine = list;
        if (mine != NULL) list = mine->next;
      }
      if (mine != NULL) {
        // Nobody else has it now: plain stores, which no traversal may see, and free.
        mine->next = (struct node*)8;
        mine->value = -1;
        mine->copy = -2;
        memset(mine->room, 0xff, sizeof(mine->room));
        if (i % 2 == 0) {
          free(mine);
          mine = malloc(sizeof(struct node));
        }
      } else {
        mine = malloc(sizeof(struct node));
      }
      if (mine == NULL) break;
      // Still its own, until it is in the list.
      mine->value = mine->copy = (long)(next_random(&seed) % 1000);
      __transaction_atomic {
        mine->next = list;
        list = mine;
      }
    }
    __atomic_fetch_sub(&taking, 1, __ATOMIC_RELEASE);
    return NULL;
  }
  while (__atomic_load_n(&taking, __ATOMIC_ACQUIRE) > 0) {
    long differences = 0, length = 0;
    __transaction_atomic {
      length = 0;
      differences = 0;
      for (struct node* node = list; node != NULL; node = node->next) {
        if (node->value != node->copy || node->value < 0) differences += 1;
        length += 1;
      }
    }
    if (differences != 0 || length > 100) __atomic_fetch_add(&torn, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void what_is_taken_out_is_private(void) {
  for (int i = 0; i < 20; ++i) {
    struct node* fresh = malloc(sizeof(struct node));
    fresh->value = fresh->copy = i;
    fresh->next = list;
    list = fresh;
  }
  taking = kThreads / 2;
  in_threads(take_or_traverse);
  EXPECT(torn == 0);
  long length = 0;
  while (list != NULL) {
    struct node* const first = list;
    EXPECT(first->value == first->copy);
    list = first->next;
    free(first);
    ++length;
  }
  EXPECT(length >= 20 && length <= 20 + kThreads);
}

// ---- other threads' stacks ------------------------------------------------------------------------

struct Mailbox {
  long sent;
  long answered;
  long sum;
};

static void* answer(void* argument) {
  struct Mailbox* const box = argument;
  for (long done = 0; done < kTurns / 5;) {
    int answered = 0;
    __transaction_atomic {
      answered = 0;
      if (box->sent > box->answered) {
        box->answered += 1;
        box->sum += box->answered;
        answered = 1;
      }
    }
    if (answered) {
      ++done;
    } else {
      sched_yield();
    }
  }
  return NULL;
}

/// A variable of one thread's stack that another has a pointer to is shared like any other.
static void a_stack_variable_is_shared(void) {
  struct Mailbox box = {0, 0, 0};
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, answer, &box) == 0);
  for (long sent = 0; sent < kTurns / 5;) {
    int room = 0;
    __transaction_atomic {
      room = 0;
      if (box.sent - box.answered < 3) {
        box.sent += 1;
        room = 1;
      }
    }
    if (room) {
      ++sent;
    } else {
      sched_yield();
    }
  }
  pthread_join(thread, NULL);
  EXPECT(box.sent == kTurns / 5 && box.answered == kTurns / 5);
  EXPECT(box.sum == (long)(kTurns / 5) * (kTurns / 5 + 1) / 2);
}

/// Threads come and go: what one has for its transactions is there for the next.
static void* one_transaction(void* unused) {
  (void)unused;
  __transaction_atomic { durable_counter += 1; }
  return NULL;
}
static void many_short_threads(void) {
  durable_counter = 0;
  for (int i = 0; i < 100; ++i) in_threads(one_transaction);
  EXPECT(durable_counter == 100 * kThreads);
}

int main(void) {
  counters_end_exact();
  bytes_beside_are_not_lost();
  no_attempt_sees_a_mixture();
  money_is_neither_made_nor_lost();
  what_is_taken_out_is_private();
  a_stack_variable_is_shared();
  many_short_threads();
  return expect_status();
}
