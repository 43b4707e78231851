// SPDX-License-Identifier: BSD-3-Clause
// A rival thread that makes a transaction's attempt fail at a chosen point, once, so that "what happens at a conflict" is
// tested without luck:
//
//   rival_arm();
//   __transaction_atomic {
//     ...                          // runs twice
//     sum += conflict_once();      // adds 0; the first attempt ends here
//     ...
//   }
//   EXPECT(rival_struck());
//
// For C and C++. One transaction at a time may be armed.
#pragma once

#include <pthread.h>
#include <sched.h>

// Changed by the rival's transactions only. A line of its own: transactions lock lines, and one that has stored to the same
// line would keep the rival waiting for the transaction that waits for the rival.
static struct {
  long word;
  char rest[56];
} rival_line __attribute__((aligned(64))) = {0, {0}};
// The next conflict_once() is to fail. Volatile, because gcc takes it that a cancelled transaction has changed nothing, and
// rival_strike() does.
static volatile int rival_armed = 0;
static int rival_requests = 0;  // strikes asked for since the start
static int rival_running = 0;

/// Waits at its end for the transaction that is about to fail, which must therefore not wait for this end.
static __attribute__((noinline)) void rival_changes_the_word(void) {
  __transaction_atomic { rival_line.word = rival_line.word + 1; }
}

static inline void* rival_run(void* unused) {
  (void)unused;
  for (int served = 0;; ++served) {
    while (__atomic_load_n(&rival_requests, __ATOMIC_ACQUIRE) == served) sched_yield();
    rival_changes_the_word();
  }
  return NULL;
}

static inline void rival_arm(void) {
  if (!rival_running) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, rival_run, NULL) == 0) {
      pthread_detach(thread);
      rival_running = 1;
    }
  }
  rival_armed = rival_running;
}

/// Has the rival change the word, if armed, and returns when the change is visible.
__attribute__((transaction_pure, noinline)) static void rival_strike(void) {
  if (!rival_armed) return;
  rival_armed = 0;
  const long before = __atomic_load_n(&rival_line.word, __ATOMIC_ACQUIRE);
  __atomic_fetch_add(&rival_requests, 1, __ATOMIC_RELEASE);
  while (__atomic_load_n(&rival_line.word, __ATOMIC_ACQUIRE) == before) sched_yield();
}

/// Whether the conflict asked for by the last rival_arm() has happened.
static inline int rival_struck(void) { return rival_running && !rival_armed; }

/// Returns 0: what it reads before and after the strike is one consistent state, in the attempt after the armed one.
__attribute__((transaction_safe, noinline)) static long conflict_once(void) {
  const long before = rival_line.word;
  rival_strike();
  return rival_line.word - before;
}
