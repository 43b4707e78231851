// SPDX-License-Identifier: BSD-3-Clause
// The ring between the emulator's plugin (C) and EmulatedProgram (C++): shared memory with one
// producer and one consumer, who exchange batches of records (papers/thynvm/memory/access.h). They call the
// kernel only to sleep: the consumer when the ring is empty, the producer when it is full. Each is
// woken when the ring is half full, so that unequal speeds do not cost two calls for each batch.
//
// Batch i lies in slot i mod kSlots. `published` and `consumed` count batches and wrap around.
//
//   producer                                         consumer
//   wait until published - consumed < slots          wait until published != consumed
//   fill the slot, lengths[slot] = records (0: none) read the slot
//   ++published (release); wake a sleeping consumer  ++consumed (release); wake a sleeping producer
//
// The last batch is marked: its reader need not look at `state` to know that nothing follows.
//
// Who sleeps says so first (`*_sleeps`) and looks again; who counts looks at that word afterwards.
// All four accesses are sequentially consistent: were they not, each could miss the other, and the
// sleeper would only wake up by its timeout. Timeouts are there for the death of the other side.
#pragma once

#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PERDURE_RING_MAGIC 0x31474e4952445250ULL /* "PRDRING1": both sides come from one build */
#define PERDURE_RING_SLOTS 16U
#define PERDURE_RING_RECORDS 8192U /* of a batch: the whole ring is 1 MiB and fits into a cache */
#define PERDURE_RING_LAST 0x80000000U /* in a length: the last batch */
#define PERDURE_RING_NAP_MS 100

/* Names in the manner of C. NOLINTBEGIN(readability-identifier-naming) */
enum perdure_ring_state {
  PERDURE_RING_WAITING = 0, /* for the plugin */
  PERDURE_RING_RUNNING = 1, /* the plugin has found the ring */
  PERDURE_RING_EXITED = 2,  /* the program ended by itself */
  PERDURE_RING_LIMITED = 3, /* the plugin ended it after as many instructions as were asked for */
};

struct perdure_ring {
  uint64_t magic;
  int32_t consumer; /* process; the producer must be its child */
  uint32_t state;   /* enum perdure_ring_state */
  /* Written by the producer before it ends. */
  uint64_t skipped;      /* instructions before the first record */
  uint64_t instructions; /* recorded */
  uint32_t lengths[PERDURE_RING_SLOTS];
  /* Each side's words in lines of their own. */
  uint32_t published __attribute__((aligned(128)));
  uint32_t producer_sleeps;
  uint32_t consumed __attribute__((aligned(128)));
  uint32_t consumer_sleeps;
  uint64_t records[PERDURE_RING_SLOTS][PERDURE_RING_RECORDS] __attribute__((aligned(4096)));
};

/* Sleeps until `word` is no longer `seen`, but a nap at most. */
static inline void perdure_ring_nap(const uint32_t* word, uint32_t seen) {
  const struct timespec nap = {0, PERDURE_RING_NAP_MS * 1000000L};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &nap, 0, 0);
}

static inline void perdure_ring_wake(const uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
}
/* NOLINTEND(readability-identifier-naming) */
