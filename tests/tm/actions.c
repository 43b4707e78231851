// SPDX-License-Identifier: BSD-3-Clause
// What a transaction leaves for its commit or its end: user actions, in which order and how often they run; and what a program
// can ask about the transaction that it is in.
#include <stdint.h>
#include <string.h>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"

#define PURE __attribute__((transaction_pure))

// Of the ABI, for which gcc installs no header.
extern PURE void _ITM_addUserCommitAction(void (*action)(void*), uint32_t resuming, void* argument);
extern PURE void _ITM_addUserUndoAction(void (*action)(void*), void* argument);
extern PURE uint32_t _ITM_inTransaction(void);
extern PURE uint32_t _ITM_getTransactionId(void);
extern int _ITM_versionCompatible(int);
extern const char* _ITM_libraryVersion(void);
enum { kNoTransaction = 1 };

pstatic long durable = 0;
static char order[64];
static uint32_t inside_actions = 99;

static void note(void* letter) {
  const size_t length = strlen(order);
  if (length + 1 < sizeof(order)) order[length] = *(char*)letter;
  inside_actions = _ITM_inTransaction();
}
static char a[] = "a", b[] = "b", c[] = "c", d[] = "d", u[] = "u", v[] = "v", w[] = "w";

static PURE void at_commit(char* letter) { _ITM_addUserCommitAction(note, kNoTransaction, letter); }
static PURE void at_undo(char* letter) { _ITM_addUserUndoAction(note, letter); }

static const char* since_last(void) {
  static char result[64];
  memcpy(result, order, sizeof(result));
  memset(order, 0, sizeof(order));
  return result;
}

static void commit_runs_commit_actions_in_order(void) {
  since_last();
  __transaction_atomic {
    durable = 1;
    at_commit(a);
    at_undo(u);
    at_commit(b);
    __transaction_atomic { at_commit(c); }
    durable = 2;
  }
  EXPECT(strcmp(since_last(), "abc") == 0);
  EXPECT(inside_actions == 0);
}

static void cancel_runs_undo_actions_backwards(void) {
  since_last();
  __transaction_atomic {
    at_commit(a);
    at_undo(u);
    at_undo(v);
    durable = 5;
    __transaction_atomic { at_undo(w); }
    if (durable == 5) __transaction_cancel;
  }
  EXPECT(strcmp(since_last(), "wvu") == 0);
  EXPECT(durable == 2);
}

static void a_conflict_undoes_and_starts_afresh(void) {
  since_last();
  long conflicts = 0;
  rival_arm();
  __transaction_atomic {
    at_commit(a);
    at_undo(u);
    conflicts += conflict_once();
    at_commit(b);
    at_undo(v);
  }
  EXPECT(rival_struck() && conflicts == 0);
  EXPECT(strcmp(since_last(), "uab") == 0);
}

static void an_inner_cancel_drops_only_the_inner_actions(void) {
  since_last();
  __transaction_atomic {
    durable = 6;
    at_commit(a);
    at_undo(u);
    __transaction_atomic {
      at_commit(b);
      at_undo(v);
      durable = 7;
      if (durable == 7) __transaction_cancel;
    }
    at_commit(c);
  }
  EXPECT(strcmp(since_last(), "vac") == 0);
  EXPECT(durable == 6);
}

static void stores_durably(void* amount) {
  __transaction_atomic {
    durable += *(long*)amount;
    at_commit(d);
  }
}

static void a_commit_action_runs_a_transaction(void) {
  since_last();
  static long amount = 40;
  __transaction_atomic {
    durable = 2;
    _ITM_addUserCommitAction(stores_durably, kNoTransaction, &amount);
    at_commit(a);
  }
  EXPECT(durable == 42);
  EXPECT(strcmp(since_last(), "da") == 0);
}

static void many_actions(void) {
  since_last();
  static long one = 1;
  __transaction_atomic {
    durable = 0;
    for (int i = 0; i < 1000; ++i) _ITM_addUserCommitAction(stores_durably, kNoTransaction, &one);
  }
  EXPECT(durable == 1000);
  since_last();
}

/// gcc leaves this transaction out: there is nothing in it that it takes for transactional.
static void actions_alone(void) {
  since_last();
  __transaction_atomic {
    at_undo(u);
    at_commit(a);
    at_commit(b);
  }
  EXPECT(strcmp(since_last(), "ab") == 0);
  __transaction_atomic {
    durable = 3;
    if (durable == 3) __transaction_cancel;
  }
  EXPECT(strcmp(since_last(), "") == 0);
}

static void a_transaction_knows_itself(void) {
  uint32_t inside = 99, deep = 99, id = 0, deep_id = 0;
  EXPECT(_ITM_inTransaction() == 0);
  EXPECT(_ITM_getTransactionId() == kNoTransaction);
  __transaction_atomic {
    durable = 1;
    inside = _ITM_inTransaction();
    id = _ITM_getTransactionId();
    __transaction_atomic {
      deep = _ITM_inTransaction();
      deep_id = _ITM_getTransactionId();
    }
  }
  EXPECT(inside == 1 && deep == 1);
  EXPECT(id != kNoTransaction && deep_id == id);
  uint32_t next = 0;
  __transaction_atomic {
    durable = 2;
    next = _ITM_getTransactionId();
  }
  EXPECT(next != id && next != kNoTransaction);
  EXPECT(_ITM_inTransaction() == 0);
  EXPECT(_ITM_versionCompatible(90) == 1 && _ITM_versionCompatible(91) == 0);
  EXPECT(strstr(_ITM_libraryVersion(), "Perdure") != NULL);
}

int main(void) {
  commit_runs_commit_actions_in_order();
  cancel_runs_undo_actions_backwards();
  a_conflict_undoes_and_starts_afresh();
  an_inner_cancel_drops_only_the_inner_actions();
  a_commit_action_runs_a_transaction();
  many_actions();
  actions_alone();
  a_transaction_knows_itself();
  return expect_status();
}
