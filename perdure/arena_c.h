// SPDX-License-Identifier: BSD-3-Clause
/* Arenas for C: ordinary memory that survives. perdure/arena.h has the whole contract,
 * docs/ARENA.md what it costs.
 *
 *   #include <perdure/arena_c.h>
 *   struct words { long count; struct word *first; };
 *
 *   int main(void) {
 *     perdure_arena *arena = perdure_arena_open_or_create("words.arena", NULL);
 *     struct words *words = NULL;
 *     // zeroed the first time:
 *     if (arena != NULL) words = PERDURE_ARENA_MAKE_ROOT(arena, "words", struct words);
 *     if (words == NULL) return fprintf(stderr, "%s\n", perdure_arena_error()), 1;
 *     words->count++;                                           // plain stores, plain pointers
 *     int failed = perdure_arena_persist(arena);  // all of it survives when this returns 0
 *     return perdure_arena_close(arena) | failed;
 *   }
 *
 * Build with `gcc program.c -lperdure -lstdc++`. It is the same file, and the same roots, as C++
 * programs have. With a timer (epoch_ms), or with several threads, each change that belongs
 * together lies between enter and leave. The functions that change the arena themselves are whole
 * in any case.
 *
 * Errors: functions that can fail return NULL or -1 and set errno; perdure_arena_error() has the
 *         whole story.
 * Threads: any, for every function but close, which comes last.
 */
#ifndef PERDURE_ARENA_C_H
#define PERDURE_ARENA_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct perdure_arena perdure_arena;

/* What a committed epoch survives: a power cut as well; or only the end of the process. */
enum { PERDURE_ARENA_POWER = 0, PERDURE_ARENA_PROCESS = 1 };
/* How written pages are found: as the kernel allows; by userfaultfd (Linux 6.7); by mprotect,
 * slowly. */
enum { PERDURE_ARENA_AUTO = 0, PERDURE_ARENA_USERFAULT = 1, PERDURE_ARENA_MPROTECT = 2 };

/* Zero, in each member, stands for the default. */
struct perdure_arena_settings {
  unsigned epoch_ms; /* an epoch ends so often by itself; 0: by persist only */
  int durable;       /* PERDURE_ARENA_POWER */
  int tracking;      /* PERDURE_ARENA_AUTO */
  uint64_t log_bytes;
  int accept_older; /* 1: opens also if epochs that survived are lost by damage, with the newest
                       one that can be proved; else that is EBADMSG */
  /* At creation only: */
  uint64_t capacity_bytes; /* 256 MiB; it does not grow */
  uintptr_t address;       /* a multiple of 2 MiB; by default a free place is drawn */
  unsigned mode;           /* 0600 */
};

/* Three calls: one creates the file, whole or not at all, and opens it; one opens and recovers it;
 * one does whichever is needed. Settings: NULL for the defaults.
 * Errors: NULL and EEXIST, ENOENT, EBUSY (in use; or its addresses are taken in this process),
 *         EBADMSG (no arena, damaged, truncated, or of a newer release), EINVAL, EIO, ENOMEM (also:
 *         no room on the device). */
perdure_arena* perdure_arena_create(const char* path,
                                    const struct perdure_arena_settings* settings);
perdure_arena* perdure_arena_open(const char* path, const struct perdure_arena_settings* settings);
perdure_arena* perdure_arena_open_or_create(const char* path,
                                            const struct perdure_arena_settings* settings);
/* Closes it without ending an epoch: what was changed since the last one is not saved. Pointers
 * into it become invalid. NULL is fine.
 * Errors: -1 and EPERM when this thread has entered; it stays open. */
int perdure_arena_close(perdure_arena* arena);

/* Ends an epoch and waits until it is committed.
 * Errors: -1 and EPERM (this thread has entered; a forked child), EIO: a write or sync failed, now
 *         or before, and nothing is saved any more. */
int perdure_arena_persist(perdure_arena* arena);

/* No epoch ends between the two. They nest, and belong to one thread; a leave without an enter
 * stops the program. */
void perdure_arena_enter(perdure_arena* arena);
void perdure_arena_leave(perdure_arena* arena);

/* As malloc, aligned_alloc, realloc and free. Aligned to 16 bytes, or to `alignment`, a power of
 * two up to 16 KiB, which a resized object does not keep. An object that is plainly none of this
 * arena stops the program.
 * Errors: NULL and ENOMEM (an object to be resized is as it was), EINVAL (alignment). */
void* perdure_arena_allocate(perdure_arena* arena, size_t size);
void* perdure_arena_allocate_aligned(perdure_arena* arena, size_t size, size_t alignment);
void* perdure_arena_resize(perdure_arena* arena, void* object, size_t size);
void perdure_arena_free(perdure_arena* arena, void* object);

/* The object that was set as root `name`. A root remembers the name of its type, as it is written
 * in C or C++ (with or without "struct"), and its size.
 * Errors: NULL and ENOENT (none was), EINVAL (of another type; or a name that has not 1 to 39
 *         bytes). */
void* perdure_arena_root(perdure_arena* arena, const char* name, const char* type, size_t size);
/* The root, or an object of `size` zeros that becomes it.
 * Errors: NULL and EINVAL, ENOMEM (64 roots, or the arena, full). */
void* perdure_arena_make_root(perdure_arena* arena, const char* name, const char* type,
                              size_t size);
/* NULL takes the root away; the object stays.
 * Errors: -1 and EINVAL (also: an object outside), ENOMEM (64 roots). */
int perdure_arena_set_root(perdure_arena* arena, const char* name, const char* type, size_t size,
                           void* object);
#define PERDURE_ARENA_ROOT(arena, name, type) \
  ((type*)perdure_arena_root((arena), (name), #type, sizeof(type)))
#define PERDURE_ARENA_MAKE_ROOT(arena, name, type) \
  ((type*)perdure_arena_make_root((arena), (name), #type, sizeof(type)))
#define PERDURE_ARENA_SET_ROOT(arena, name, type, object) \
  perdure_arena_set_root((arena), (name), #type, sizeof(type), (object))

struct perdure_arena_counts {
  uint64_t epoch;                 /* the last one that is committed, ever */
  uint64_t ended;                 /* since the arena was opened: ends of epochs, */
  uint64_t late;                  /* of which so many waited for the commit before */
  uint64_t written_pages;         /* pages the program wrote to, in all epochs, */
  uint64_t whole_pages;           /* of which so many were recorded whole, */
  uint64_t blocks;                /* and of the others so many blocks of 64 bytes */
  uint64_t hot_pages;             /* in the last epoch: not watched, but compared each time */
  uint64_t log_bytes, home_bytes; /* written */
  uint64_t pause_p50_ns, pause_p99_ns, pause_max_ns; /* of the last 4096 */
  uint64_t capacity_bytes, used_bytes;
  int tracking; /* PERDURE_ARENA_USERFAULT or _MPROTECT */
};
struct perdure_arena_counts perdure_arena_stats(perdure_arena* arena);

/* What the last function that failed in this thread had to say. Never NULL. */
const char* perdure_arena_error(void);

#ifdef __cplusplus
}
#endif
#endif /* PERDURE_ARENA_C_H */
