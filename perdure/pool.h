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
#include <type_traits>
#include <utility>

#include "perdure/api/attempts.h"
#include "perdure/domain/latency.h"
#include "perdure/error.h"
#include "perdure/link.h"
#include "perdure/persistable.h"
#include "perdure/tx.h"
#include "perdure/type_id.h"

namespace perdure {

struct PoolOptions {
  /// Where durability begins. kAuto looks at the file; override it to use tmpfs as if it were
  /// persistent memory.
  DomainKind domain = DomainKind::kAuto;
  EngineKind engine = EngineKind::kMnemosyne;
  /// When home words are written back and logs emptied; Pool::set_truncation changes it later.
  Truncation truncation = Truncation::kAuto;
  /// Count stores, flushes and fences (Pool::counts); costs some nanoseconds each.
  bool count = false;
  /// Emulate slower memory; on kAdr only. See perdure/domain/latency.h.
  std::optional<LatencyModel> latency;
  /// How long what a relaxed transaction did may stay volatile; zero: until somebody asks. See Durability.
  std::chrono::milliseconds relaxed_delay{10};
  /// Bounds recovery: a thread's log is emptied when it holds this much. 0: when it is full, at ring_bytes; else from
  /// 16 KiB.
  std::uint64_t log_limit_bytes = 0;
  /// On memory, new objects of at least so many bytes are initialised in place, at the price of a second fence; the largest
  /// number: none are. docs/adr/0012-large-new-objects-in-place.md
  std::size_t in_place_bytes = kInPlaceBytes;
  /// On files, and with EngineKind::kSoftwrap: how much of DRAM may be taken by pages that were changed. Those of open wraps
  /// and of structures with a protocol of their own (perdure::Log) come on top, and softwrap-tables and the yardsticks give none back.
  /// They are given back from half of it on. 0: a quarter of the machine's. From 64 KiB. Address spaces give none back.
  std::uint64_t private_bytes = 0;
  /// Of EngineKind::kSoftwrapTables: its two tables in DRAM (sizes are powers of two), and when one is full: when 1 in
  /// alias_threshold of its entries is taken.
  alias::AliasLimits aliases{};
  std::uint64_t alias_threshold = 8;
  /// 2^lock_bits ownership records, of 8 bytes each.
  unsigned lock_bits = 20;

  // At creation only:
  std::uint64_t capacity_bytes = std::uint64_t{64}
                                 << 30;  // address space; the file starts small and grows
  std::uint64_t segment_bytes = std::uint64_t{1} << 20;  // unit of growth
  /// Each thread's log. 0: 256 KiB on memory; on files, where one log is shared and home pages are written when it is full,
  /// up to 4 MiB.
  std::uint64_t ring_bytes = 0;
  std::uint32_t log_slots = 64;  // threads at the same time
  std::uint32_t root_entries = 128;
  unsigned mode = 0600;
};

class Pool {
 public:
  /// Creates the file, whole or not at all, and opens it.
  /// Errors: kExists (never overwritten), kInvalid, kIo, kNoSpace.
  static Result<Pool> create(const std::string& path, const PoolOptions& options = {});
  /// Opens, validates and recovers.
  /// Errors: kNotFound, kBusy (with the holder's pid), kForeign, kVersion, kTruncated, kCorrupt,
  /// kIo. Superblock, tables and logs are judged before anything is written; heap and roots after
  /// the logs were replayed, as by any open.
  static Result<Pool> open(const std::string& path, const PoolOptions& options = {});
  static Result<Pool> open_or_create(const std::string& path, const PoolOptions& options = {});
  /// Opens a private copy: recovery, reads and even writes happen in memory only; the file stays as
  /// it is. `findings`, when given, collects damage of heap and root table instead of refusing the
  /// pool.
  static Result<Pool> inspect(const std::string& path,
                              std::vector<std::string>* findings = nullptr);
  /// The second halves of open() and inspect(), for an address space.
  static Result<Pool> open_region(std::unique_ptr<Region> region, const PoolOptions& options);
  static Result<Pool> inspect_region(std::unique_ptr<Region> region,
                                     std::vector<std::string>* findings);
  /// For tools and tests that bring their own region and engine.
  static Result<Pool> adopt(std::unique_ptr<Region> region, const PoolCore::EngineFactory& factory,
                            unsigned lock_bits = 20);

  Pool(Pool&&) noexcept = default;
  Pool& operator=(Pool&& other) noexcept {
    core_.reset();  // closed before what its domain refers to
    counters_ = std::move(other.counters_);
    storage_ = std::move(other.storage_);
    engine_ = other.engine_;
    core_ = std::move(other.core_);
    return *this;
  }
  /// Closes: writes everything home, so that the next open has nothing to replay. No other thread
  ///         may use the pool.
  ~Pool() = default;

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
    return static_cast<T*>(atomically(
        [&](Tx& tx) { return core_->find_root(tx, name, type_id<T>(), sizeof(T), true)->object; }));
  }
  /// The root object if it is there, else null.
  template <class T>
  T* find_root(std::string_view name) {
    require_persistable<T>();
    return static_cast<T*>(read_only([&](Tx& tx) -> void* {
      const auto root = core_->find_root(tx, name, type_id<T>(), sizeof(T), false);
      return root ? root->object : nullptr;
    }));
  }

  /// Returns when every transaction that has returned is durable. Cost: one device write; nothing if none was relaxed.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child. Threads: any.
  void sync() {
    core_->refuse_after_fork();
    core_->engine().sync();
  }
  /// Writes everything home and empties the logs. Never needed for durability.
  /// Errors: throws Exception kPoisoned; kMisuse in a forked child. Threads: any.
  void checkpoint() {
    core_->refuse_after_fork();
    core_->engine().truncate();
  }
  /// Changes when home words are written back and logs emptied, from the next commit on.
  /// Errors: throws Exception kPoisoned; kMisuse on a yardstick engine and in a forked child. Threads: any.
  void set_truncation(Truncation truncation) {
    core_->refuse_after_fork();
    core_->engine().set_truncation(truncation);
  }

  DomainKind domain() const { return core_->region().domain(); }
  /// What an acknowledged transaction survives, in words.
  std::string_view guarantee() const;
  const RecoveryReport& recovery() const { return core_->recovery(); }
  /// Counts since the pool was opened. Requires: PoolOptions::count.
  DomainCounts counts() const { return counters_ ? counters_->total() : DomainCounts{}; }
  PoolCore& core() { return *core_; }

 private:
  Pool() = default;

  template <class Body>
  std::invoke_result_t<Body&, Tx&> run(Body&& body, bool read_only, Durability durability) {
    static_assert(!std::is_reference_v<std::invoke_result_t<Body&, Tx&>>,
                  "perdure: a transaction returns a value or a pointer, not a reference");
    PoolCore::Context& context = core_->context();
    Tx& tx = context.tx;
    if (tx.active()) return body(tx);
    return attempt(*core_, context, read_only, durability, [&] { return body(tx); }, [] {});
  }

  /// What an engine's domain refers to; outlives the core.
  struct Storage;
  struct StorageDelete {
    void operator()(Storage* storage) const;
  };
  std::unique_ptr<DomainCounters> counters_;
  std::unique_ptr<Storage, StorageDelete> storage_;
  EngineKind engine_ = EngineKind::kMnemosyne;
  std::unique_ptr<PoolCore> core_;  // last: closed first
};

}  // namespace perdure
