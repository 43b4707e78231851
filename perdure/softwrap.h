// SPDX-License-Identifier: BSD-3-Clause
/* SoftWrAP: atomic regions over persistent memory for C and C++ programs, with the paper's names
 * (MSST 2015, Algorithms 2, 3).
 *
 *   #include <perdure/softwrap.h>
 *   struct account { long balance; };
 *
 *   int main(void) {
 *     if (wrapAttach("bank.pool", NULL) != 0) return fprintf(stderr, "%s\n", wrapError()), 1;
 *     // zeroed the first time:
 *     struct account *accounts = wrapRoot("accounts", 100 * sizeof *accounts);
 *     wrapOpen(0);  // all of it or nothing, after any crash
 *     wrapStore(&accounts[1].balance, wrapLoad(&accounts[1].balance) - 5);
 *     wrapStore(&accounts[2].balance, wrapLoad(&accounts[2].balance) + 5);
 *     return wrapClose();  // durable when it returns 0
 *   }
 *
 * Build with `gcc program.c -lperdure -lstdc++`. The pool is an ordinary Perdure pool (perdure
 * check, dump and so on know it), on the engine softwrap. It is mapped at the same address in each
 * run, so pointers may be stored in it. Isolation is the program's: locks of any kind, held until
 * wrapClose() has returned. What a wrap has stored is seen by all threads at once, and by none
 * before it has closed if it was opened with WRAP_LOCAL. perdure/wraps.h has the whole contract.
 *
 * Errors: functions that can fail return NULL or -1 and set errno; wrapError() tells more. A store
 * that fails aborts the wrap; a program need not check each store, because wrapClose() then returns
 * -1.
 * Threads: any, each with a wrap of its own; wrapAttach() and wrapDetach() while no other function
 * runs. Define PERDURE_NO_SHORT_NAMES before including to get only names that begin with perdure_.
 */
#ifndef PERDURE_SOFTWRAP_H
#define PERDURE_SOFTWRAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the pool is opened with. Zero, in each member, stands for the default. */
struct perdure_wrap_settings {
  /* "private-pages": stores are plain ones, in place; "shared": in tables until the wrap closes */
  const char* placement;
  const char* domain; /* "auto"; "adr", "eadr", "sync", "dram": see PoolOptions */
  size_t
      capacity; /* when it is made: the most bytes that it may grow to; 64 GiB of address space */
  /* What follows is of no use with "private-pages" on memory: there are no tables. */
  size_t words, pages, page_bytes; /* of each table in DRAM, powers of two; 65536, 4096, 1024 */
  unsigned threshold; /* a table is full when 1 in so many of its entries is taken; 8 */
  unsigned
      patience_ms; /* how long a wrap without room holds new ones back before it is aborted; 100 */
};

/* Opens the pool `path`, or makes it. A process has one attached.   Settings: NULL for the
 * defaults.
 * Errors: -1 and EBUSY (one is attached already, another process has it open, or its addresses are
 *         taken, so that pointers in it would lead astray), EBADMSG (no pool, damaged, or of a
 *         newer release), EINVAL, EIO, ENOMEM. */
int perdure_wrap_attach(const char* path, const struct perdure_wrap_settings* settings);
/* Closes it: everything is home then.
 * Errors: -1 and EPERM when none is attached or this thread has a wrap open. */
int perdure_wrap_detach(void);
/* The named object of `size` bytes, zeroed when it is made. Its address holds until wrapDetach().
 * Errors: NULL and EINVAL (other size, or name), ENOMEM (128 names, or the device, full), EPERM. */
void* perdure_wrap_root(const char* name, size_t size);

enum {
  PERDURE_WRAP_LOCAL = 1, /* nobody else sees what it stores before it has closed (section IV-D) */
  PERDURE_WRAP_RELAXED =
      2, /* wrapClose() returns before it is durable: perdure/pool.h, Durability */
};
/* Opens a wrap. In an open one: a level of it; `options` do not count then.
 * Errors: -1 and EPERM. */
int perdure_wrap_open(int options);
/* Ends a level. The outermost makes all of it durable, and visible to later runs.
 * Errors: -1 and ECANCELED (aborted by wrapAbort()), EPERM (none open), ENOMEM, EIO; nothing of the
 *         wrap is there. */
int perdure_wrap_close(void);
/* Takes back what the wrap did, on all levels; they still have to be closed. */
void perdure_wrap_abort(void);
/* How many levels this thread has open. */
unsigned perdure_wrap_depth(void);

/* 1 to 8 bytes, in the lowest of the word. Addresses outside the pool are read as they are.
 * Errors of load: ends the
 * program with a message (nothing is attached; a forked child).   Errors of the others: -1 and
 * EPERM (no wrap open, or an address outside the pool's objects), EINVAL (size), ENOMEM (no room in
 * the tables). */
uint64_t perdure_wrap_load(const void* from, size_t size);
int perdure_wrap_store(void* to, uint64_t value, size_t size);
/* Extents of any size. */
int perdure_wrap_read(void* to, const void* from, size_t size);
int perdure_wrap_write(void* to, const void* from, size_t size);

/* In an open wrap, with which it takes effect. 16-byte aligned, contents undefined.
 * Errors: NULL; -1 (NULL is fine);
 * both with EPERM, EINVAL or ENOMEM, and abort the wrap. */
void* perdure_wrap_malloc(size_t size);
int perdure_wrap_free(void* object);

/* The message of the last function that failed in this thread. Never NULL. */
const char* perdure_wrap_error(void);
/* What a closed wrap survives, in words; NULL when nothing is attached. */
const char* perdure_wrap_guarantee(void);

#ifdef __cplusplus
}
#endif

#ifndef PERDURE_NO_SHORT_NAMES

#ifdef PERDURE_MNEMOSYNE_H
#error \
    "perdure/mnemosyne.h has a pmalloc of its own: define PERDURE_NO_SHORT_NAMES before one of the two"
#endif

typedef struct perdure_wrap_settings wrap_settings;
#define WRAP_LOCAL PERDURE_WRAP_LOCAL
#define WRAP_RELAXED PERDURE_WRAP_RELAXED
#define wrapAttach(path, settings) perdure_wrap_attach((path), (settings))
#define wrapDetach() perdure_wrap_detach()
#define wrapRoot(name, size) perdure_wrap_root((name), (size))
#define wrapOpen(options) perdure_wrap_open((options))
#define wrapClose() perdure_wrap_close()
#define wrapAbort() perdure_wrap_abort()
#define wrapRead(to, from, size) perdure_wrap_read((to), (from), (size))
#define wrapWrite(to, from, size) perdure_wrap_write((to), (from), (size))
#define wrapError() perdure_wrap_error()
#define pmalloc(size) perdure_wrap_malloc((size))
#define pfree(object) perdure_wrap_free((object))

/* Of any type with 1 to 8 bytes: the value comes back as that type. */
#ifdef __cplusplus
#include <cstring>
#include <type_traits>
template <class T>
inline std::remove_cv_t<T> wrapLoad(T* from) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  const uint64_t word = perdure_wrap_load(from, sizeof(T));
  std::remove_cv_t<T> value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
template <class T>
inline int wrapStore(T* to, std::common_type_t<T> value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return perdure_wrap_store(to, word, sizeof(T));
}
#else
#define wrapLoad(from)                                                \
  (__extension__({                                                    \
    _Static_assert(sizeof(*(from)) <= 8, "wrapLoad: use wrapRead()"); \
    const union {                                                     \
      uint64_t word;                                                  \
      __typeof__(*(from)) value;                                      \
    } perdure_loaded = {perdure_wrap_load((from), sizeof(*(from)))};  \
    perdure_loaded.value;                                             \
  }))
#define wrapStore(to, what)                                           \
  (__extension__({                                                    \
    _Static_assert(sizeof(*(to)) <= 8, "wrapStore: use wrapWrite()"); \
    union {                                                           \
      uint64_t word;                                                  \
      __typeof__(*(to)) value;                                        \
    } perdure_stored = {0};                                           \
    perdure_stored.value = (what);                                    \
    perdure_wrap_store((to), perdure_stored.word, sizeof(*(to)));     \
  }))
#endif

#endif /* PERDURE_NO_SHORT_NAMES */
#endif /* PERDURE_SOFTWRAP_H */
