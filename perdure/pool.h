// SPDX-License-Identifier: BSD-3-Clause
// Pool: one file that holds data structures which survive crashes.
//
//   auto pool = perdure::Pool::open_or_create("words.pool").value();
//   auto* counter = pool.root<std::uint64_t>("counter");
//   pool.atomically([&](auto& tx) { tx.store(*counter, tx.load(*counter) + 1); });
//
// When the call returns, the update survives what the pool's domain promises (`pool.guarantee()`);
// when the process or the machine dies before, nothing of it is there.
//
// Not for: sharing a pool between processes (a second opener is refused), or data larger than its
// capacity.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "perdure/api/attempts.h"
#include "perdure/domain/kind.h"
#include "perdure/error.h"
#include "perdure/link.h"
#include "perdure/log/recovery_report.h"
#include "perdure/persistable.h"
#include "perdure/tx.h"
#include "perdure/type_id.h"

namespace perdure {

class PoolCore;
class Region;
struct EngineSource;
struct ExpertOptions;  // perdure/expert.h

struct PoolOptions {
  /// Where durability begins. kAuto looks at the file; override it to use tmpfs as if it were
  /// persistent memory.
  DomainKind domain = DomainKind::kAuto;
  /// At creation only: address space. The file starts small and grows.
  std::uint64_t capacity_bytes = std::uint64_t{64} << 30;
  /// At creation only: how many threads may use the pool at the same time.
  std::uint32_t log_slots = 64;
  /// At creation only: permissions of the file, less the umask.
  unsigned mode = 0600;
  /// How much DRAM may be taken by copies of pages that were changed, where there are any: on files. They are given back from
  /// half of it on. 0: a quarter of the machine's. From 64 KiB. Address spaces give none back.
  std::uint64_t private_bytes = 0;
  /// Bounds recovery: a thread's log is emptied when it holds this much. 0: when it is full; else from 16 KiB.
  std::uint64_t log_limit_bytes = 0;
  /// How long what a relaxed transaction did may stay volatile; zero: until somebody asks. See Durability.
  std::chrono::milliseconds relaxed_delay{10};
};

class Pool {
 public:
  /// Creates the file, whole or not at all, and opens it.
  /// Errors: kExists (never overwritten), kInvalid, kIo, kNoSpace.
  static Result<Pool> create(const std::string& path, const PoolOptions& options = {});
  static Result<Pool> create(const std::string& path, const ExpertOptions& options);
  /// Opens, validates and recovers.
  /// Errors: kNotFound, kBusy (with the holder's pid), kForeign, kVersion, kTruncated, kCorrupt,
  /// kIo. Superblock, tables and logs are judged before anything is written; heap and roots after
  /// the logs were replayed, as by any open.
  static Result<Pool> open(const std::string& path, const PoolOptions& options = {});
  static Result<Pool> open(const std::string& path, const ExpertOptions& options);
  static Result<Pool> open_or_create(const std::string& path, const PoolOptions& options = {});
  static Result<Pool> open_or_create(const std::string& path, const ExpertOptions& options);
  /// Opens a private copy: recovery, reads and even writes happen in memory only; the file stays as
  /// it is. `findings`, when given, collects damage of heap and root table instead of refusing the
  /// pool.
  static Result<Pool> inspect(const std::string& path,
                              std::vector<std::string>* findings = nullptr);
  /// The second halves of open() and inspect(), for an address space.
  static Result<Pool> open_region(std::unique_ptr<Region> region, const ExpertOptions& options);
  static Result<Pool> inspect_region(std::unique_ptr<Region> region,
                                     std::vector<std::string>* findings);
  /// For other engines (papers/engines.h), tools and tests that bring their own region and engine. `storage`: what the engine's
  /// domain refers to, kept until the pool is closed.
  static Result<Pool> adopt(std::unique_ptr<Region> region, const EngineSource& source,
                            unsigned lock_bits = 20, std::shared_ptr<void> storage = nullptr);

  Pool(Pool&& other) noexcept;
  Pool& operator=(Pool&& other) noexcept;
  /// Closes: writes everything home, so that the next open has nothing to replay. No other thread
  ///         may use the pool.
  ~Pool();

  /// Runs `body(tx)` as one durable, isolated transaction and returns what it returns.
  /// Effect:   all or nothing. A Conflict with another thread runs `body` again, so it must not
  ///           have effects outside the pool. An exception that leaves `body` rolls back and is
  ///           rethrown.
  /// Durable:  on return.   Cost: one fence, and none if nothing was written.
  /// Nesting:  flat; an inner call is part of the outer transaction.
  /// Errors:   throws Exception kNoSpace, kMisuse (rolled back) or kPoisoned (the storage failed).
  /// Threads:  any number, up to the pool's log_slots at the same time. Long transactions are not starved by short ones:
  ///           after some attempts the others make way for one (for at most a second each).
  template <class Body>
  auto atomically(Body&& body) {
    return run(std::forward<Body>(body), false, Durability::kStrict);
  }
  /// The same, durable when `durability` says. A power cut may take the last relaxed transactions back, always the
  /// newest first and each as a whole; a strict one, or sync(), makes all before it durable. In a nested call the
  /// outermost transaction decides.
  template <class Body>
  auto atomically(Durability durability, Body&& body) {
    return run(std::forward<Body>(body), false, durability);
  }
  /// The same for transactions that only read: no flush, no fence, no log. A store in it throws
  /// kMisuse.
  template <class Body>
  auto read_only(Body&& body) {
    return run(std::forward<Body>(body), true, Durability::kStrict);
  }

  /// The root object `name`, created zeroed if it is not there. Its address holds until the pool is
  /// closed.
  /// Errors: throws Exception kTypeMismatch, kNoSpace, kInvalid, kCorrupt.
  template <class T>
  T* root(std::string_view name) {
    require_persistable<T>();
    return static_cast<T*>(
        atomically([&](Tx& tx) { return make_root(tx, name, type_id<T>(), sizeof(T)); }));
  }
  /// The root object if it is there, else null.
  template <class T>
  T* find_root(std::string_view name) {
    require_persistable<T>();
    return static_cast<T*>(
        read_only([&](Tx& tx) { return look_for_root(tx, name, type_id<T>(), sizeof(T)); }));
  }

  /// Returns when every transaction that has returned is durable. Cost: one device write; nothing if none was relaxed.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child. Threads: any.
  void sync();
  /// Writes everything home and empties the logs. Never needed for durability.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child. Threads: any.
  void checkpoint();
  /// Changes when home words are written back and logs emptied, from the next commit on.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child, and where the engine knows no such truncation. Threads: any.
  void set_truncation(Truncation truncation);

  DomainKind domain() const;
  /// What an acknowledged transaction survives, in words.
  std::string_view guarantee() const;
  /// What opening the pool found and did.
  const RecoveryReport& recovery() const;
  /// What the pool is made of, for tools and tests (perdure/api/pool_core.h).
  PoolCore& core() { return *core_; }

 private:
  explicit Pool(std::unique_ptr<PoolCore> core, std::shared_ptr<void> storage = nullptr) noexcept;

  template <class Body>
  std::invoke_result_t<Body&, Tx&> run(Body&& body, bool read_only, Durability durability) {
    static_assert(!std::is_reference_v<std::invoke_result_t<Body&, Tx&>>,
                  "perdure: a transaction returns a value or a pointer, not a reference");
    PoolContext& context = detail::context_of(*core_);
    Tx& tx = context.tx;
    if (tx.active()) return body(tx);
    return attempt(*core_, context, read_only, durability, [&] { return body(tx); }, [] {});
  }
  void* make_root(Tx& tx, std::string_view name, std::uint64_t type, std::uint64_t bytes);
  void* look_for_root(Tx& tx, std::string_view name, std::uint64_t type, std::uint64_t bytes);

  std::shared_ptr<void> storage_;   // what the engine's domain refers to
  std::unique_ptr<PoolCore> core_;  // last: closed first
};

}  // namespace perdure
