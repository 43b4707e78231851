// SPDX-License-Identifier: BSD-3-Clause
// Pool: one file that holds data structures which survive crashes.
//
//   auto pool = perdure::Pool::open_or_create("words.pool").value();
//   auto* counter = pool.root<std::uint64_t>("counter");
//   pool.atomically([&](auto& tx) { tx.store(*counter, tx.load(*counter) + 1); });
//
// When atomically() returns, the update survives what `pool.guarantee()` says: on a disk or on
// persistent memory, a power failure. When the process or the machine dies before, nothing of the
// update is there.
//
// Not for: sharing a pool between processes (a second opener is refused), or data larger than its
// capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "perdure/engine/transaction.h"
#include "perdure/error.h"
#include "perdure/lost_pages.h"
#include "perdure/options.h"
#include "perdure/persistable.h"
#include "perdure/pptr.h"
#include "perdure/tx.h"
#include "perdure/type_id.h"

namespace perdure {

class PoolCore;
struct ExpertOptions;  // perdure/expert.h

/// How full a pool is.
struct PoolUsage {
  std::uint64_t roots = 0;
  std::uint64_t objects = 0;       // allocated, including roots
  std::uint64_t object_bytes = 0;  // that these take, rounded up to the allocator's sizes
  std::uint64_t file_bytes = 0;
  std::uint64_t capacity_bytes = 0;  // the most that the file may grow to
};

/// Threads: any, for all of it but moving, closing and destroying.
class Pool {
 public:
  /// Creates the file, whole or not at all, and opens it.
  /// Durable: on return.
  /// Errors:  kExists (never overwritten), kInvalid, kIo, kNoSpace.
  static Result<Pool> create(const std::string& path, const PoolOptions& options = {});
  static Result<Pool> create(const std::string& path, const ExpertOptions& options);
  /// Opens, validates and recovers: what was committed before a crash is there, and nothing else.
  /// Errors: kNotFound, kBusy (with the holder's pid), kForeign, kVersion, kTruncated, kCorrupt,
  ///         kIo. Superblock, tables and logs are judged before anything is written; heap and roots
  ///         after the logs were replayed, as by any open.
  static Result<Pool> open(const std::string& path, const PoolOptions& options = {});
  static Result<Pool> open(const std::string& path, const ExpertOptions& options);
  /// Opens the pool that is there, else creates it.   Errors: those of both.
  static Result<Pool> open_or_create(const std::string& path, const PoolOptions& options = {});
  static Result<Pool> open_or_create(const std::string& path, const ExpertOptions& options);
  /// Opens a private copy: recovery, reads and even writes happen in memory only; the file stays as
  /// it is.
  /// In use:  while another process, or this one, has the pool open (on memory only if it lets others
  ///          look: PoolOptions), the copy is what was committed and durable at the moment of the
  ///          call. Nobody waits for it, and what is committed later does not change it: open another
  ///          one to see that. When the other closes the pool, a copy of more than 64 MiB may find
  ///          pages missing: what reads them throws kBusy.
  /// Cost:    in use, up to 64 MiB are read at once, larger pools page by page; the other process
  ///          copies each page once before it first changes it.
  /// Errors:  as open(); kBusy where others cannot look on.
  static Result<Pool> inspect(const std::string& path);
  /// Copies a pool to a new file, also while it is open, as of the moment of the call.
  /// Durable: the copy, on return. It was opened once, and appears under its name whole or not at all.
  /// Errors:  as inspect(); kExists, kIo, kNoSpace; kBusy, if the pool was closed meanwhile: repeat it.
  static Result<void> back_up(const std::string& from, const std::string& to);

  Pool(Pool&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), id_(std::exchange(other.id_, 0)) {}
  Pool& operator=(Pool&& other) noexcept;
  /// Closes the pool: writes everything home, so that the next open has nothing to replay.
  /// Threads: no other thread may use the pool.
  ~Pool();

  /// Runs `body(tx)` as one durable, isolated transaction and returns what it returns.
  /// Effect:   all or nothing. A Conflict with another thread runs `body` again, so it must not
  ///           have effects outside the pool. An exception that leaves `body` rolls back and is
  ///           rethrown.
  /// Durable:  on return.   Cost: one fence, and none if nothing was written.
  /// Nesting:  flat; an inner call is part of the outer transaction.
  /// Errors:   throws Exception kNoSpace, kMisuse (rolled back) or kPoisoned (the storage failed);
  ///           kMisuse inside a transaction on another pool, which could run again and not take
  ///           this one back.
  /// Threads:  any number. Of updates up to the pool's log_slots run at the same time, more wait for
  ///           one of these to end (for at most ten seconds, then kBusy). Long transactions are not
  ///           starved by short ones: after some attempts the others make way for one (for at most
  ///           a second each).
  template <class Body>
  auto atomically(Body&& body) {
    return run(std::forward<Body>(body), false, Durability::kStrict);
  }
  /// The same, durable when `durability` says. A power cut may take the last relaxed transactions
  /// back, always the newest first and each as a whole; a strict one, or sync(), makes all before
  /// it durable. In a nested call the outermost transaction decides.
  template <class Body>
  auto atomically(Durability durability, Body&& body) {
    return run(std::forward<Body>(body), false, durability);
  }
  /// The same for transactions that only read: no flush, no fence, no log. On files it returns only
  /// when what it has read of other threads' strict transactions is durable. A store in it throws
  /// kMisuse.
  template <class Body>
  auto read_only(Body&& body) {
    return run(std::forward<Body>(body), true, Durability::kStrict);
  }

  /// The root object `name`, created zeroed if it is not there. Its address holds until the pool is
  /// closed.
  /// Durable: a new one on return or, in a transaction, with that.
  /// Errors:  throws Exception kTypeMismatch, kNoSpace, kInvalid, kCorrupt.
  template <class T>
  T* root(std::string_view name) {
    require_persistable<T>();
    return static_cast<T*>(
        atomically([&](Tx& tx) { return make_root(tx, name, type_id<T>(), sizeof(T)); }));
  }
  /// The root object if it is there, else null.
  /// Errors: throws Exception kTypeMismatch, kInvalid, kCorrupt.
  template <class T>
  T* find_root(std::string_view name) {
    require_persistable<T>();
    return static_cast<T*>(
        read_only([&](Tx& tx) { return look_for_root(tx, name, type_id<T>(), sizeof(T)); }));
  }

  /// Returns when every transaction that has returned is durable. Cost: one device write; nothing
  /// if none was relaxed.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child.
  void sync();
  /// Writes everything home and empties the logs. Never needed for durability.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child.
  void checkpoint();
  /// Changes when home words are written back and logs are emptied, from the next commit on.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child, and where the engine knows no
  ///         such truncation.
  void set_truncation(Truncation truncation);

  /// Where the pool was opened.
  const std::string& path() const;
  DomainKind domain() const;
  /// What an acknowledged transaction survives, in words.
  std::string_view guarantee() const;
  /// What opening the pool found and did.
  const RecoveryReport& recovery() const;
  /// What PoolOptions::scrub has found: which page differs from its checksum, and what to do. Empty:
  /// nothing so far.   Threads: any.
  std::string damage() const;
  /// How full the pool is.   Cost: a look at all of the allocator's tables in memory.
  /// Errors: throws Exception kMisuse in a
  /// forked child.
  PoolUsage usage();

  /// The memory that objects may lie in, as far as the file has grown by now. Its address stays the
  /// same until the pool is closed.
  std::span<const std::byte> memory() const;
  /// The address of what `to` refers to, until the pool is closed. (In a transaction: tx.at().)
  template <class T>
  T* at(pptr<T> to) const {
    return reinterpret_cast<T*>(base() + to.offset);
  }
  /// Fetches the word at `at`, and what a transaction needs to load it, into the caches. This is a
  /// hint: `at` may point anywhere.
  template <class T>
  void prefetch(pptr<T> at) const {
    prefetch_word(at.offset);
  }

 private:
  friend struct PoolAccess;  // of tools, tests and other engines: perdure/api/pool_core.h
  Pool(PoolCore* core, std::uint64_t id) noexcept : core_(core), id_(id) {}

  template <class Body>
  std::invoke_result_t<Body&, Tx&> run(Body&& body, bool read_only, Durability durability);
  void* make_root(Tx& tx, std::string_view name, std::uint64_t type, std::uint64_t bytes);
  void* look_for_root(Tx& tx, std::string_view name, std::uint64_t type, std::uint64_t bytes);
  std::byte* base() const;
  void prefetch_word(std::uint64_t offset) const;

  PoolCore* core_;    // its own
  std::uint64_t id_;  // no other pool of the process has had it; 0: moved from
};

// ---- What follows is how a transaction is run; nothing to call ----------------------------------

/// One thread's context in an open pool: its transaction and its log.
struct PoolContext {
  Tx& tx;
  const std::size_t number;  // of the pool's contexts
  PoolContext* const older;  // the next in the pool's list of them, or null
  unsigned attempts = 0;
};

namespace detail {

/// The pool that the thread has used last, and its context there. 0: none, as at first, in the
/// child of a fork, and when the thread ends.
struct LastUsed {
  std::uint64_t pool = 0;
  PoolContext* context = nullptr;
};
// Found without a call also by code that becomes part of a shared object.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local LastUsed last_used;

/// The calling thread's context; made on first use. Errors: throws Exception kMisuse after fork, for
/// an update inside a transaction on another pool, and by an engine with fewer logs than threads.
PoolContext& context_of(PoolCore& core, bool read_only);
void begin_attempt(PoolCore& core, PoolContext& context, bool read_only);
/// Throws Conflict or Exception (see Engine::commit).
void commit_attempt(PoolCore& core, PoolContext& context, Durability durability);
/// Called after a Conflict: rolls back, and waits a little.
void retry_later(PoolCore& core, PoolContext& context);
/// Called after an exception: rolls back, without another attempt. Errors: throws Exception
/// kPoisoned if the pool has lost a page; what the transaction complains of may come from that.
void abandon(PoolCore& core, PoolContext& context);

}  // namespace detail

/// Runs `body()` in the context's transaction, again after each Conflict, and commits. Returns what
/// it returns. `before_roll_back()` is called before what a failed attempt has allocated becomes
/// free again; it must not throw.
/// Errors: throws Exception, and whatever leaves `body`; rolled back then.
template <class Body, class BeforeRollBack>
std::invoke_result_t<Body&> attempt(PoolCore& core, PoolContext& context, bool read_only,
                                    Durability durability, Body&& body,
                                    BeforeRollBack before_roll_back) {
  Tx& tx = context.tx;
  for (;;) {
    // Who is alone makes way for nobody.
    if (!tx.begin_plain(read_only)) detail::begin_attempt(core, context, read_only);
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
        body();
        if (context.attempts != 0 || detail::any_lost_page() || !tx.end_unchanged())
          detail::commit_attempt(core, context, durability);
        return;
      } else {
        auto result = body();
        if (context.attempts != 0 || detail::any_lost_page() || !tx.end_unchanged())
          detail::commit_attempt(core, context, durability);
        return result;
      }
    } catch (const Conflict&) {
      before_roll_back();
      detail::retry_later(core, context);
    } catch (...) {
      before_roll_back();
      if (!tx.doomed()) {  // else user code turned our Conflict into something else
        detail::abandon(core, context);
        throw;
      }
      detail::retry_later(core, context);
    }
  }
}

template <class Body>
std::invoke_result_t<Body&, Tx&> Pool::run(Body&& body, bool read_only, Durability durability) {
  static_assert(!std::is_reference_v<std::invoke_result_t<Body&, Tx&>>,
                "perdure: a transaction returns a value or a pointer, not a reference");
  PoolContext& context = detail::last_used.pool == id_ ? *detail::last_used.context
                                                       : detail::context_of(*core_, read_only);
  Tx& tx = context.tx;
  if (tx.active()) return body(tx);
  return attempt(*core_, context, read_only, durability, [&] { return body(tx); }, [] {});
}

}  // namespace perdure
