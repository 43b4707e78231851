/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A plugin of qemu-x86_64 that hands every access of an emulated program to another process, as
   records (papers/thynvm/memory/access.h) in a ring (papers/thynvm/memory/ring.h):

     qemu-x86_64 -plugin libperdure_emulator.so,ring=FD[,skip=N][,instructions=N] program ...

   ring=FD         the shared memory; must come from this process's parent
   skip=N          records nothing before N instructions have run; skip=mark: before the program
                   says so by the system call PERDURE_MARK_BEGIN (papers/thynvm/memory/marks.h)
   instructions=N  ends the program after N more

   Both counts are rounded up to whole blocks of code, and so are gaps: the instructions of a block
   are counted when it is entered. A repeated string instruction counts once for each element.
   Accesses of 16 bytes and more come as records of 8 bytes. An atomic read-modify-write is a load
   and a store, but only a store in a program with several threads.

   The end-of-epoch instruction (papers/thynvm/memory/marks.h) comes as a store to
   PERDURE_MARK_END_EPOCH_WORD.

   Only the process that qemu started is recorded, not its children. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "papers/thynvm/emulator/plugin_api.h"
#include "papers/thynvm/memory/marks.h"
#include "papers/thynvm/memory/ring.h"

PERDURE_EXPORT int qemu_plugin_version = 1;

#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum { LINE_SHIFT = 6, MOST_GAP = 2047, KNOWN_INFOS = 256 };
enum { FETCH = 0, LOAD = 1, STORE = 2, RUN = 3 };
static const uint64_t address_mask = ((uint64_t)1 << 48) - 1;

enum phase { SKIPPING, SKIPPED /* recording is about to begin */, RECORDING, SILENT /* a child */ };

#define TO_THE_MARK UINT64_MAX

static struct {
  uint64_t* cursor; /* where the next record goes, before `end` of the batch */
  uint64_t* end;
  uint64_t pending; /* instructions counted, in no record yet; at most MOST_GAP between callbacks */
  uint64_t line;    /* fetched last */
  uint64_t left;    /* instructions that are still to be recorded */
  uint32_t fast;    /* RECORDING, and there is one thread */
  enum phase phase;
  uint32_t threads;            /* more than one */
  pthread_mutex_t lock;        /* of everything here, once there are several */
  uint64_t skip, skipped;      /* skip may be TO_THE_MARK */
  uint64_t limit, above_limit; /* by the block that reached it */
  qemu_plugin_id_t id;
  struct perdure_ring* ring;
  struct {
    qemu_plugin_meminfo_t info;
    uint64_t bits; /* the size and the kind, where a record has them; 0: not known yet */
  } infos[KNOWN_INFOS];
} s;

static void begin_batch(void) {
  uint64_t* slot = s.ring->records[s.ring->published % PERDURE_RING_SLOTS];
  s.cursor = slot;
  s.end = slot + PERDURE_RING_RECORDS;
}

/* Publishes the batch, whole or not. */
static void publish(uint32_t last) {
  struct perdure_ring* ring = s.ring;
  const uint32_t published = ring->published;
  ring->lengths[published % PERDURE_RING_SLOTS] =
      last | (uint32_t)(s.cursor - ring->records[published % PERDURE_RING_SLOTS]);
  __atomic_store_n(&ring->published, published + 1, __ATOMIC_SEQ_CST);
  const uint32_t unread = published + 1 - __atomic_load_n(&ring->consumed, __ATOMIC_ACQUIRE);
  if (__atomic_load_n(&ring->consumer_sleeps, __ATOMIC_SEQ_CST) &&
      (last || unread >= PERDURE_RING_SLOTS / 2))
    perdure_ring_wake(&ring->published);
}

static __attribute__((noinline, cold)) void next_batch(void) {
  struct perdure_ring* ring = s.ring;
  publish(0);
  for (;;) {
    const uint32_t consumed = __atomic_load_n(&ring->consumed, __ATOMIC_SEQ_CST);
    if (ring->published - consumed < PERDURE_RING_SLOTS) break;
    __atomic_store_n(&ring->producer_sleeps, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ring->consumed, __ATOMIC_SEQ_CST) == consumed)
      perdure_ring_nap(&ring->consumed, consumed);
    __atomic_store_n(&ring->producer_sleeps, 0, __ATOMIC_RELAXED);
    if (getppid() != ring->consumer) _exit(1); /* It died: nobody will ever read on. */
  }
  begin_batch();
}

static inline void record(uint64_t bits) {
  *s.cursor++ = bits | s.pending << 53;
  s.pending = 0;
  if (UNLIKELY(s.cursor == s.end)) next_batch();
}

static void record_pending_run(void) {
  const uint64_t instructions = s.pending;
  s.pending = 0;
  if (instructions > 0) record(instructions | (uint64_t)RUN << 51);
}

/* Nothing is recorded after this. */
static void end(enum perdure_ring_state why) {
  struct perdure_ring* ring = s.ring;
  if (s.phase == RECORDING) {
    record_pending_run();
    ring->instructions = s.limit - s.left + s.above_limit;
  }
  ring->skipped = s.skipped;
  ring->state = why;
  s.phase = SILENT;
  s.fast = 0;
  publish(PERDURE_RING_LAST);
}

/* A block as one number, so that a callback loads nothing: instructions (10 bits), lines behind the
   first (7 bits), the first line. A block lies in two pages of 4 KiB at most. */
static void* pack_block(const struct qemu_plugin_tb* block) {
  const size_t count = qemu_plugin_tb_n_insns(block);
  const struct qemu_plugin_insn* last = qemu_plugin_tb_get_insn(block, count - 1);
  const uint64_t first_line =
      (qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(block, 0)) & address_mask) >> LINE_SHIFT;
  const uint64_t last_line =
      ((qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last) - 1) & address_mask) >>
      LINE_SHIFT;
  return (void*)(uintptr_t)(count | (last_line - first_line) << 10 | first_line << 17);
}

static inline void record_block(uint64_t block) {
  const uint64_t first = block >> 17;
  const uint64_t last = first + (block >> 10 & 127);
  s.pending += block & 1023;
  if (UNLIKELY(s.pending > MOST_GAP)) record_pending_run();
  for (uint64_t line = first; line <= last; ++line) {
    if (line == s.line) continue;
    s.line = line;
    record(line << LINE_SHIFT | (uint64_t)LINE_SHIFT << 48 | (uint64_t)FETCH << 51);
  }
}

static __attribute__((noinline)) uint64_t learn_info(qemu_plugin_meminfo_t info) {
  const uint64_t kind = qemu_plugin_mem_is_store(info) ? STORE : LOAD;
  const uint64_t bits = (uint64_t)qemu_plugin_mem_size_shift(info) << 48 | kind << 51;
  const unsigned index = (info ^ info >> 8) % KNOWN_INFOS;
  s.infos[index].info = info;
  s.infos[index].bits = bits;
  return bits;
}

static inline void record_access(qemu_plugin_meminfo_t info, uint64_t address) {
  const unsigned index = (info ^ info >> 8) % KNOWN_INFOS;
  uint64_t bits = s.infos[index].bits;
  if (UNLIKELY(s.infos[index].info != info || bits == 0)) bits = learn_info(info);
  record((address & address_mask) | bits);
}

static void lock_if_shared(void) {
  if (!__atomic_load_n(&s.threads, __ATOMIC_ACQUIRE)) return;
  pthread_mutex_lock(&s.lock);
}
static void unlock_if_shared(void) {
  if (s.threads) pthread_mutex_unlock(&s.lock);
}

static __attribute__((noinline, cold)) void end_at_limit(void) {
  end(PERDURE_RING_LIMITED);
  _exit(0);
}

static __attribute__((noinline)) void on_block_slow(uint64_t block) {
  lock_if_shared();
  const uint64_t count = block & 1023;
  if (s.phase == RECORDING) {
    if (s.left == 0) end_at_limit();
    if (count > s.left) s.above_limit = count - s.left;
    s.left -= count - s.above_limit;
    record_block(block);
  }
  unlock_if_shared();
}

static void on_block(unsigned vcpu, void* user) {
  const uint64_t block = (uintptr_t)user;
  const uint64_t count = block & 1023;
  (void)vcpu;
  if (UNLIKELY(!s.fast || s.left <= count)) {
    on_block_slow(block);
    return;
  }
  s.left -= count;
  record_block(block);
}

static __attribute__((noinline)) void on_access_slow(qemu_plugin_meminfo_t info, uint64_t address) {
  lock_if_shared();
  if (s.phase == RECORDING) record_access(info, address);
  unlock_if_shared();
}

static void on_access(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void* user) {
  (void)vcpu;
  (void)user;
  if (UNLIKELY(!s.fast)) {
    on_access_slow(info, address);
    return;
  }
  record_access(info, address);
}

static void on_end_of_epoch(unsigned vcpu, void* user) {
  (void)vcpu;
  (void)user;
  lock_if_shared();
  if (s.phase == RECORDING)
    record(PERDURE_MARK_END_EPOCH_WORD | (uint64_t)3 << 48 | (uint64_t)STORE << 51);
  unlock_if_shared();
}

static bool ends_epoch(const struct qemu_plugin_insn* instruction) {
  static const unsigned char bytes[] = PERDURE_END_EPOCH_BYTES;
  return qemu_plugin_insn_size(instruction) == sizeof bytes &&
         memcmp(qemu_plugin_insn_data(instruction), bytes, sizeof bytes) == 0;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  const size_t count = qemu_plugin_tb_n_insns(block);
  (void)id;
  if (s.phase == SILENT) return;
  qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS, pack_block(block));
  for (size_t i = 0; i < count; ++i) {
    struct qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    if (ends_epoch(instruction))
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_end_of_epoch, QEMU_PLUGIN_CB_NO_REGS,
                                             NULL);
    else
      qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS,
                                       QEMU_PLUGIN_MEM_RW, NULL);
  }
}

/* Called by the thread that makes another, before that runs. */
static void on_thread(qemu_plugin_id_t id, unsigned vcpu) {
  (void)id;
  if (vcpu == 0) return;
  s.fast = 0;
  __atomic_store_n(&s.threads, 1, __ATOMIC_RELEASE);
}

static void on_fork_in_child(void) {
  s.phase = SILENT;
  s.fast = 0;
  pthread_mutex_init(&s.lock, NULL); /* Another thread of the parent may have held it. */
}

static void on_exit_of_program(qemu_plugin_id_t id, void* user) {
  (void)id;
  (void)user;
  lock_if_shared(); /* And keeps it: other threads may still run. */
  if (s.phase != SILENT) end(PERDURE_RING_EXITED);
}

static void register_for_recording(qemu_plugin_id_t id) {
  qemu_plugin_register_vcpu_init_cb(id, on_thread);
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
  s.phase = RECORDING;
  s.fast = !s.threads;
}

/* Skipping is quick because blocks are translated without what records them; at its end all of them
   are forgotten, and translated again. */
static void end_skipping(qemu_plugin_id_t id) {
  s.phase = SKIPPED;
  qemu_plugin_reset(id, register_for_recording);
}

static void on_skipped_block(unsigned vcpu, void* count) {
  (void)vcpu;
  lock_if_shared();
  s.skipped += (uintptr_t)count;
  if (s.phase == SKIPPING && s.skipped >= s.skip) end_skipping(s.id);
  unlock_if_shared();
}

static void on_skipped_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  const uint64_t count = qemu_plugin_tb_n_insns(block);
  (void)id;
  if (s.skip == TO_THE_MARK)
    qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &s.skipped, count);
  else
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_skipped_block, QEMU_PLUGIN_CB_NO_REGS,
                                         (void*)(uintptr_t)count);
}

static void on_system_call(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1,
                           uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                           uint64_t a7, uint64_t a8) {
  (void)vcpu, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != SYS_getpid || a1 != PERDURE_MARK_BEGIN) return;
  lock_if_shared();
  if (s.phase == SKIPPING) end_skipping(id);
  unlock_if_shared();
}

static void register_for_skipping(qemu_plugin_id_t id) {
  qemu_plugin_register_vcpu_init_cb(id, on_thread);
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_skipped_translation);
  qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
  if (s.skip == TO_THE_MARK) qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
}

static int complain(const char* what, const char* value) {
  fprintf(stderr, "perdure: %s: %s\n", what, value);
  return -1;
}

static int map_ring(const char* descriptor) {
  char* rest;
  const long fd = strtol(descriptor, &rest, 10);
  if (*descriptor == 0 || *rest != 0) return complain("not the number of a file", descriptor);
  struct perdure_ring* ring =
      mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
  if (ring == MAP_FAILED) return complain("no ring in file", descriptor);
  if (ring->magic != PERDURE_RING_MAGIC)
    return complain("another release's ring in file", descriptor);
  /* A program that runs without an access would not notice the end of its reader. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (ring->consumer != getppid()) return complain("the parent does not own the ring", descriptor);
  close((int)fd); /* The program must not find it. */
  s.ring = ring;
  return 0;
}

PERDURE_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                       char** argv) {
  const char* ring = NULL;
  if (info->system_emulation || strcmp(info->target_name, "x86_64") != 0)
    return complain("made for qemu-x86_64, not for", info->target_name);
  s.limit = UINT64_MAX;
  for (int i = 0; i < argc; ++i) {
    char* value = strchr(argv[i], '=');
    char* rest = NULL;
    if (value == NULL) return complain("not an option of the form name=value", argv[i]);
    const size_t name = (size_t)(value++ - argv[i]);
    if (name == 4 && strncmp(argv[i], "ring", 4) == 0) {
      ring = value;
    } else if (strcmp(argv[i], "skip=mark") == 0) {
      s.skip = TO_THE_MARK;
    } else if (name == 4 && strncmp(argv[i], "skip", 4) == 0) {
      s.skip = strtoull(value, &rest, 10);
    } else if (name == 12 && strncmp(argv[i], "instructions", 12) == 0) {
      s.limit = strtoull(value, &rest, 10);
    } else {
      return complain("unknown option", argv[i]);
    }
    if (rest != NULL && (*rest != 0 || rest == value)) return complain("not a number", argv[i]);
  }
  if (ring == NULL) return complain("missing option", "ring=FD");
  if (map_ring(ring) != 0) return -1;

  begin_batch();
  s.line = UINT64_MAX;
  s.left = s.limit;
  s.id = id;
  pthread_mutex_init(&s.lock, NULL);
  pthread_atfork(NULL, NULL, on_fork_in_child);
  if (s.skip == 0)
    register_for_recording(id);
  else
    register_for_skipping(id);
  s.ring->state = PERDURE_RING_RUNNING;
  return 0;
}
