// SPDX-License-Identifier: BSD-3-Clause
// PoolCore: region, heap, logs and engine of one open pool. Users meet it through perdure/pool.h;
// tools, tests and engines outside the library use it directly.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "perdure/api/scrubber.h"
#include "perdure/engine/engine.h"
#include "perdure/heap/heap.h"
#include "perdure/pool.h"

namespace perdure {

class PoolCore {
 public:
  using Context = PoolContext;

  /// Recovers and opens. `findings`, when given, collects damage of heap and root table instead of
  /// refusing the pool. `storage`: what the engine's domain refers to, kept until the pool is
  /// closed.
  static Result<std::unique_ptr<PoolCore>> open(std::unique_ptr<Region> region,
                                                const EngineSource& source, unsigned lock_bits,
                                                std::shared_ptr<void> storage = nullptr,
                                                std::vector<std::string>* findings = nullptr);
  ~PoolCore();
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

  /// The calling thread's context; made on first use. Errors: throws Exception kMisuse after fork
  /// or, if the engine lends no slots, with more threads than the pool has logs.
  Context& context();
  /// The same for a transaction. Errors: also kMisuse for an update inside a transaction on another
  /// pool.
  Context& context_for(bool read_only);
  /// Errors: throws Exception kMisuse in a forked child, which has the pool's memory neither mapped
  ///         nor locked.
  void refuse_after_fork() const;
  /// Called before begin(): lets a transaction of another thread through that has had many
  /// Conflicts.
  /// Requires: the calling thread holds nothing that a transaction could wait for.
  void make_way(Context& context) {
    // The cache line is written when a transaction starves, else only read.
    if (starving_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      wait_for_starving(context);
  }
  /// Errors: throws Exception kBusy when an update finds no slot for kSlotPatience.
  void begin(Context& context, bool read_only);
  /// Commits what the context's transaction did. Throws Conflict or Exception (see Engine::commit).
  void commit(Context& context, Durability durability = Durability::kStrict);
  /// Called before an exception leaves a transaction: rolls back. The exception may tell what was
  /// read: returns when that is durable, or when the storage has failed.
  void abandon(Context& context) noexcept;
  /// Called after a Conflict: rolls back, then waits a little, longer each time, so that one of the
  /// rivals gets through. After kPatience Conflicts the others make way.
  void retry_later(Context& context);
  /// After the last attempt.
  void forget_attempts(Context& context) {
    if (context.attempts == 0) return;
    context.attempts = 0;
    const Context* me = &context;
    starving_.compare_exchange_strong(me, nullptr, std::memory_order_relaxed);
  }
  static constexpr unsigned kPatience = 24;
  static constexpr std::chrono::seconds kSlotPatience{10};

  /// Returns when every transaction that announced itself has begun after `timestamp`, or seen that
  /// what it read by then still holds: from then on, what the commit of that timestamp made private
  /// belongs to its thread alone, and what it freed is read by nobody. Requires: the calling thread
  /// is in no transaction.
  void quiesce(std::uint64_t timestamp) const;

  /// Makes sure that recovery stores nothing to [begin, begin + bytes) that was committed before
  /// this call: what a program writes there outside transactions stays. Without it a record that is
  /// still in a log would be replayed over newer data.
  /// Requires: the calling thread is in no transaction.   Errors: throws Exception kPoisoned.
  /// Cost:     a look at each line's lock; a truncation if transactions have written there since
  ///           the last one.
  void settle(Offset begin, std::uint64_t bytes);
  /// Whether the logs still hold what recovery found there. Words that are written outside
  /// transactions must not be in it: truncate first.
  bool holds_recovered_records() const { return logs_->retired_timestamp() < recovery_.last_stamp; }

  /// Compares pages with their checksums from now on, as PoolOptions::scrub says.
  Result<void> scrub_every(Milliseconds interval);
  const Scrubber* scrubber() const { return scrubber_.get(); }
  std::string damage() const { return scrubber_ ? scrubber_->damage() : std::string(); }
  /// Of the pools that this process opens, each has another. Never 0.
  std::uint64_t id() const { return id_; }
  Region& region() { return *region_; }
  bool lost_a_page() const { return detail::any_lost_page() && region_->loss(); }
  Heap& heap() { return *heap_; }
  LogArea& logs() { return *logs_; }
  Engine& engine() { return *engine_; }
  const TxWorld& world() const { return world_; }
  const RecoveryReport& recovery() const { return recovery_; }
  std::uint64_t heap_rebuild_nanoseconds() const { return heap_nanoseconds_; }

  struct Root {
    void* object;
    bool created;
  };
  /// Finds a root or, with `bytes`, makes it, zeroed. Runs inside the caller's transaction.
  /// Errors: throws Exception kTypeMismatch, kNoSpace (table full), kInvalid (name), kCorrupt.
  std::optional<Root> find_root(Tx& tx, std::string_view name, std::uint64_t type,
                                std::uint64_t bytes, bool create);
  /// Removes a root's name (its object must have been freed by the caller). False when there is
  /// none.
  bool remove_root(Tx& tx, std::string_view name);
  /// The entries that are in use and whole.
  std::vector<RootEntry> roots(Tx& tx);

 private:
  struct Hub;
  struct ThreadEntries;
  explicit PoolCore(std::unique_ptr<Region> region, unsigned lock_bits);
  Context& attach();
  /// `inside_another`: set if the thread is in a transaction on another pool, and in none on this.
  Context& find_context(bool& inside_another);
  /// Gives the context a slot that no running update has; waits for one.
  void take_slot(Context& context);
  /// Called after an update, when threads wait for slots: gives its slot to the first of them.
  void pass_slot_on(Context& context);
  void pass_slot_on_if_wanted(Context& context) {
    // The cache line is written when threads wait for slots, else only read.
    if (slots_wanted_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      pass_slot_on(context);
  }
  void wait_for_starving(const Context& me) const;
  /// Every root in use must name an object of the heap. Errors: kCorrupt, unless `findings`
  /// collects it.
  Result<void> check_roots(std::vector<std::string>* findings) const;

  std::shared_ptr<void> storage_;  // first: gone last
  std::unique_ptr<Region> region_;
  LockTable locks_;
  CommitClock clock_;
  BiasedLocking biased_locking_{clock_};
  TxWorld world_{};
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<LogArea> logs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Scrubber> scrubber_;
  std::shared_ptr<Hub> hub_;
  std::atomic<Context*> newest_{nullptr};          // of all contexts, which are linked
  std::atomic<const Context*> starving_{nullptr};  // for whom the others make way
  std::atomic<std::size_t> slots_wanted_{0};       // so many threads wait for one
  std::uint64_t id_;
  std::uint64_t fork_generation_;
  RecoveryReport recovery_;
  std::uint64_t heap_nanoseconds_ = 0;
};

/// What the pool is made of.
PoolCore& core_of(const Pool& pool);

/// The second half of Pool::open(), for an address space.   Errors: as there.
Result<Pool> open_region(std::unique_ptr<Region> region, const ExpertOptions& options);
/// Pool::inspect(). `findings` collects damage of heap and root table instead of refusing the pool.
Result<Pool> inspect_pool(const std::string& path, std::vector<std::string>* findings);
/// Pool::inspect() for those whose copy is to take the pool's place: kBusy while it is open.
Result<Pool> inspect_closed(const std::string& path);
/// The same, with the damage of its logs, too, of which it recovers what comes before.
Result<Pool> inspect_wreck(const std::string& path, std::vector<std::string>& findings);
/// Its second half, for an address space.
Result<Pool> inspect_region(std::unique_ptr<Region> region, std::vector<std::string>* findings);
/// Opens a pool for a caller that brings a region and an engine (papers/engines.h). `storage` as in
/// PoolCore::open().
Result<Pool> adopt_region(std::unique_ptr<Region> region, const EngineSource& source,
                          unsigned lock_bits = 20, std::shared_ptr<void> storage = nullptr);

}  // namespace perdure
