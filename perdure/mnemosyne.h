// SPDX-License-Identifier: BSD-3-Clause
/* Mnemosyne: persistent memory for C and C++ programs, with the paper's names (ASPLOS 2011, Table
 * 3).
 *
 *   #include <perdure/mnemosyne.h>
 *   struct node { struct node persistent *next; long value; };
 *   pstatic struct node persistent *persistent list;   // keeps its value from run to run
 *
 *   void push(long value) {
 *     __transaction_atomic {                            // all of it or nothing, after any crash
 *       struct node persistent *fresh = pmalloc(sizeof *fresh, &list_spare);
 *       ...
 *     }
 *   }
 *
 * Build with `perdure-gcc program.c` (a stock gcc with -fgnu-tm and this library instead of
 * libitm). Before main() the directory PERDURE_REGION_PATH (or MNEMOSYNE_REGION_PATH; default: the
 * current one) is opened and everything in it is back at the addresses it had. If it cannot be
 * opened, the program says why on stderr and ends with status 3.
 *
 * Environment:
 *   PERDURE_REGION_PATH       the directory
 *   PERDURE_STATICS           migrate, or migrate,drop, or reset: after the pstatic variables
 *                             changed
 *   PERDURE_DOMAIN            auto, adr, eadr, sync or dram
 *   PERDURE_TRUNCATION        auto, each-commit, next-commit, when-full or background
 *   PERDURE_RESERVED_BASE, PERDURE_RESERVED_BYTES
 *                             at creation: the reserved addresses
 *   PERDURE_BACKING_PATH, PERDURE_FRAMES_BYTES
 *                             at creation, for regions larger than memory: the other directory that
 *                             holds their files, and the size of the frames that their pages use
 *   PERDURE_IRREVOCABLE       volatile: allows irrevocable transactions that store nothing
 *                             persistent. That is the program's promise: code that gcc compiled
 *                             with barriers is checked, but a transaction that gcc itself made
 *                             irrevocable (because it sees I/O) has no barriers, and its stores to
 *                             persistent memory would be neither atomic nor durable.
 *
 * What gcc 12 gets wrong inside transactions, with its own runtime too: an access to a bit-field
 * goes to its whole bytes, and a store zeroes the neighbours (use masks); a struct that a
 * transaction_pure function takes or returns by value is loaded and stored past the transaction
 * (use a pointer to a local variable).
 *
 * Errors: functions that can fail return NULL or -1 and set errno; perdure_error() tells more.
 * Threads: all functions may be called by any thread, except where noted.
 * Define PERDURE_NO_SHORT_NAMES before including to get only names that begin with perdure_ (and
 * pstatic, persistent).
 */
#ifndef PERDURE_MNEMOSYNE_H
#define PERDURE_MNEMOSYNE_H

#include <stddef.h>
#include <stdint.h>

/* `persistent` is a part of types, like `const`: `long persistent *` points to persistent memory,
 * and so does what `struct node persistent *persistent` points to, wherever that itself is. It
 * means nothing to a compiler that makes code; `sparse`, and clang with -DPERDURE_CHECK_POINTERS
 * -fsyntax-only, report where persistent pointers meet volatile ones. `pstatic` is a storage class,
 * as `static` is, and no part of the type: what will be checked says `pstatic long persistent
 * count;` and `pstatic struct node persistent *persistent list;`. */
#if defined(__CHECKER__) || (defined(PERDURE_CHECK_POINTERS) && defined(__clang__))
#define PERDURE_CHECKED_NOT_COMPILED 1
#define persistent __attribute__((address_space(1)))
#define pstatic
/* What only gcc understands. Within attributes and after C++ declarators these may just as well be
 * absent. */
#define __transaction_atomic
#define __transaction_relaxed
#define __transaction_cancel ((void)0)
#define transaction_safe
#define transaction_pure
#define transaction_callable
#define transaction_unsafe
#else
#define persistent
/* A variable with static storage that keeps its value from run to run. The first run takes the
 * initial value. In C++ the initializer must be a constant expression: a constructor would run
 * again at every start. A plain store outside transactions counts once flush() and fence() have
 * followed; on files it is lost without them. Variables are known by name, in the symbol table of
 * the executable; a stripped one is known by its build id alone: it needs one (-Wl,--build-id, the
 * default of most distributions), and after a rebuild its variables can only start over. */
#if defined(__cplusplus) && defined(__cpp_constinit)
#define pstatic constinit __attribute__((section("persistent"), used))
#else
#define pstatic __attribute__((section("persistent"), used))
#endif
#endif

/* Callable inside __transaction_atomic, and part of the transaction there; or callable there, and
 * of no effect on anything. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CHECKER__)
#define PERDURE_IN_TRANSACTIONS __attribute__((transaction_safe))
#define PERDURE_BESIDE_TRANSACTIONS __attribute__((transaction_pure))
#else
#define PERDURE_IN_TRANSACTIONS
#define PERDURE_BESIDE_TRANSACTIONS
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- persistent heap (paper section 4.3) ----------------------------------------------------- */

/* Allocates `size` bytes (16-byte aligned, contents undefined) and stores their address in the
 * pointer variable at `pointer`, both or neither. Outside transactions `pointer` must be
 * persistent, so that a crash cannot leak the memory.
 * Durable: on return; inside a transaction, with it.
 * Errors:  NULL and ENOMEM (heap or device full), EINVAL (size 0, or `pointer` volatile); nothing
 *          has changed. */
void persistent* perdure_pmalloc(size_t size, void persistent* pointer) PERDURE_IN_TRANSACTIONS;

/* Frees what the pointer variable at `pointer` points to and stores NULL there, both or neither.
 * NULL there is fine.
 * Durable: as pmalloc.   Errors: -1 and EINVAL when it does not point to an allocated object. */
int perdure_pfree(void persistent* pointer) PERDURE_IN_TRANSACTIONS;

/* ---- persistent regions (section 4.2) -------------------------------------------------------- */

/* Makes a region of `length` bytes, zeroed, and stores its address in the pointer variable at
 * `address`, which must be persistent. If that holds NULL the address is chosen; else it says where
 * (a hint; with MAP_FIXED in `flags`, a must). `protection`: PROT_READ | PROT_WRITE as for mmap.
 * Durable: on return. Not inside transactions.
 * Errors:  NULL and EINVAL, EEXIST (MAP_FIXED, but taken), ENOMEM (reserved addresses, heap or
 *          device full), EPERM (inside a transaction), EIO; nothing has changed. */
void persistent* perdure_pmap(void persistent* address, size_t length, int protection, int flags);
/* Destroys the regions, or the parts of regions, in whole pages of [address, address + length).
 * Durable: on return. Not inside transactions.
 * Errors: -1 and EINVAL when no region is there; EIO. */
int perdure_punmap(void persistent* address, size_t length);

/* ---- hardware primitives (section 4.1). Not inside transactions. ----------------------------- */

/* What a killed process has stored and never fenced may be seen by the next one, and a power cut
 * may still take it back: flush and fence what you are going to rely on. Transactions may write the
 * same variables at other times: the first flush or wtstore of a line after a transaction has
 * written to it empties the logs, so that recovery writes nothing over it. */

/* Copies `size` bytes to persistent memory: by cached stores, visible at once and durable at some
 * unknown time; or past the cache, durable after fence(). Aligned objects of 1, 2, 4 or 8 bytes are
 * never torn.
 * Errors: end the program with a message when `to` is not persistent; so does flush(). */
void perdure_store(void persistent* to, const void* from, size_t size);
void perdure_wtstore(void persistent* to, const void* from, size_t size);
/* Starts to write back the cache line (on files, the page) of `address`. */
void perdure_flush(const void persistent* address);
/* Returns when all that this thread has flushed or wtstored is durable. Ends the program when the
 * storage failed. */
void perdure_fence(void);

/* ---- logs (section 4.4) ---------------------------------------------------------------------- */

typedef struct perdure_log perdure_log;
typedef void (*perdure_log_callback)(const void* record, size_t size, void* argument);
enum { PERDURE_LOG_TRUNCATE = 1 /* drop the records once the call-back has seen them */ };

/* Opens the log `name`, or makes it with room for about `size` bytes of records, and calls
 * `recover` (may be NULL) for each record that survived, oldest first. An append that was never
 * flushed is there whole or not at all. A log has one handle at a time: two would write over each
 * other's records.
 * Errors: NULL and EINVAL, ENOMEM, EBADMSG (damaged). */
perdure_log* perdure_log_create(const char* name, size_t size, int flags,
                                perdure_log_callback recover, void* argument);
/* Adds a record. Durable: after log_flush().
 * Errors: -1 and ENOSPC when the log is full; EPERM while another thread has not
 * flushed what it appended. Threads: one at a time, and the one that appends also flushes. */
int perdure_log_append(perdure_log* log, const void* record, size_t size);
/* Returns when every record appended so far is durable.
 * Errors: -1 and EIO; EPERM when another thread appended them. */
int perdure_log_flush(perdure_log* log);
/* Drops every record. Durable: on return.   Errors: -1 and EIO. */
int perdure_log_truncate(perdure_log* log);
/* Forgets the handle; the log stays. */
void perdure_log_close(perdure_log* log);

/* ---- beside the paper ------------------------------------------------------------------------ */

/* The address of a pstatic variable that is the same in every run, also in a position-independent
 * executable, whose own variables move: store this one in persistent memory. Other addresses are
 * returned as they are. */
void persistent* perdure_fixed_address(const void persistent* address) PERDURE_BESIDE_TRANSACTIONS;
/* Whether `address` is persistent memory of this program. */
int perdure_is_persistent(const void* address) PERDURE_BESIDE_TRANSACTIONS;
/* When logs are truncated, from now on: a name as in PERDURE_TRUNCATION. Not inside transactions.
 * Errors: -1 and EINVAL when there is no such; EIO. */
int perdure_set_truncation(const char* when);
/* The message of the last function that failed in this thread. Never NULL. */
const char* perdure_error(void);
/* What an acknowledged update survives, in words. */
const char* perdure_guarantee(void);

/* Makes the library part of every program that includes this. */
extern const char perdure_address_space_opens_before_main;
static const char* const perdure_anchor __attribute__((used)) =
    &perdure_address_space_opens_before_main;

#ifdef __cplusplus
}
#endif

/* ---- the paper's names ----------------------------------------------------------------------- */

#ifndef PERDURE_NO_SHORT_NAMES

#define pmalloc(size, pointer) perdure_pmalloc((size), (pointer))
#define pfree(pointer) perdure_pfree((pointer))
#define pmap(address, length, protection, flags) \
  perdure_pmap((address), (length), (protection), (flags))
#define punmap(address, length) perdure_punmap((address), (length))

#define log_create(name, size, flags, recover, argument) \
  perdure_log_create((name), (size), (flags), (recover), (argument))
#define log_append(log, record, size) perdure_log_append((log), (record), (size))
#define log_flush(log) perdure_log_flush((log))
#define log_truncate(log) perdure_log_truncate((log))

#ifdef PERDURE_CHECKED_NOT_COMPILED
/* Nothing is run: an assignment says what the checkers are to judge. */
#define store(address, value) \
  ((void)(*(address) = (value)), perdure_store((address), NULL, sizeof(*(address))))
#define wtstore(address, value) \
  ((void)(*(address) = (value)), perdure_wtstore((address), NULL, sizeof(*(address))))
#define flush(address) perdure_flush((address))
#define fence() perdure_fence()
#elif defined(__cplusplus)
/* Functions, because a macro would also hit std::atomic's store and every stream's flush. */
template <class T, class V>
inline void store(T* address, V value) {
  const T typed = static_cast<T>(value);
  perdure_store(address, &typed, sizeof(T));
}
template <class T, class V>
inline void wtstore(T* address, V value) {
  const T typed = static_cast<T>(value);
  perdure_wtstore(address, &typed, sizeof(T));
}
inline void flush(const void* address) { perdure_flush(address); }
inline void fence() { perdure_fence(); }
#else
#define store(address, value)                                        \
  do {                                                               \
    const __typeof__(*(address)) perdure_value = (value);            \
    perdure_store((address), &perdure_value, sizeof(perdure_value)); \
  } while (0)
#define wtstore(address, value)                                        \
  do {                                                                 \
    const __typeof__(*(address)) perdure_value = (value);              \
    perdure_wtstore((address), &perdure_value, sizeof(perdure_value)); \
  } while (0)
#define flush(address) perdure_flush((address))
#define fence() perdure_fence()
#endif

#endif /* PERDURE_NO_SHORT_NAMES */
#endif /* PERDURE_MNEMOSYNE_H */
