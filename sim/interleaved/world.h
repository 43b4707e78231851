// SPDX-License-Identifier: BSD-3-Clause
// World: a tiny pool in memory whose threads are fibers of the interleaver: the heap and the engine
// as they are, each thread with the transaction object of a slot of its own.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "perdure/base/waiting.h"
#include "perdure/engine/biased_locking.h"
#include "perdure/engine/engine.h"
#include "perdure/engine/lock_table.h"
#include "perdure/engine/transaction.h"
#include "perdure/heap/heap.h"
#include "sim/interleave/interleaver.h"

namespace perdure::interleaved {

/// How the threads find biased locking.
enum class Bias : std::uint8_t {
  kNone,     // there is none: ownership records are taken at each store
  kEnded,    // each has begun before: first attempts take ownership records at the commit
  kToFirst,  // the first thread is the owner
  kToReaders,
};

/// What is under the pool.
enum class Medium : std::uint8_t {
  kMemory,
  kFile,  // all threads append to one log, and commits are visible before they are durable
};

/// What the threads of one schedule do, and what holds when all have ended.
struct Threads {
  std::vector<interleave::Body> bodies;
  std::function<void()> after = [] {};
};

/// A violation, unless it holds. It leaves a transaction's body as any exception does.
inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

class World {
 public:
  static constexpr std::size_t kThreads = 3;

  explicit World(Medium medium);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// As it was when it was made.
  void reset(Bias bias);

  /// A word of its own line, persistent and 0 at first.
  Word& cell(std::size_t index) { return cells_[index * kLineBytes / kWordBytes]; }
  static constexpr std::size_t kCells = 8;
  Tx& tx(std::size_t thread) { return *txs_[thread]; }
  Heap& heap() { return *heap_; }
  Engine& engine() { return *engine_; }
  LogArea& logs() { return *logs_; }
  CommitClock& clock() { return clock_; }
  /// The thread begins transactions until it may become the owner with its next one.
  void let_become_owner(std::size_t thread);
  /// The thread begins to read until it is about to favour readers, when it does so next.
  void let_favour_readers(std::size_t thread);
  /// On a file: up to which timestamp commits are durable.
  std::uint64_t durable() const;
  /// Whether the thread that runs has drawn a timestamp, and not yet ended its commit.
  static bool is_committing();

  struct Attempts {
    bool read_only = false;
    unsigned before = 0;  // so many have ended in a Conflict already
  };
  /// Runs `body(tx)` as Pool::atomically() and Pool::read_only() do.
  template <class Body>
  void transact(std::size_t thread, const Attempts& attempts, Body body);
  template <class Body>
  void update(std::size_t thread, Body body) {
    transact(thread, {}, body);
  }

 private:
  /// As PoolCore::commit().
  void commit(Tx& tx, std::size_t slot);
  /// The heap's first blocks: metadata, and all that the scenarios allocate.
  std::span<std::byte> used_heap() const;

  /// As PoolCore::abandon().
  void abandon(Tx& tx);

  struct Memory;
  struct Device;
  struct File;
  const Medium medium_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Region> region_;
  std::vector<std::byte> at_first_;
  CommitClock clock_;
  std::optional<LockTable> locks_;
  std::optional<BiasedLocking> biased_locking_;
  std::optional<Heap> heap_;
  std::unique_ptr<LogArea> logs_;
  std::unique_ptr<Engine> engine_;
  TxWorld world_{};
  std::array<std::unique_ptr<Tx>, kThreads> txs_;
  Word* cells_ = nullptr;
};

/// Runs what `make` returns for a world that is as at first, in every order.
interleave::Report explore(Bias bias, const std::function<Threads(World&)>& make,
                           const interleave::Limits& limits, Medium medium = Medium::kMemory);

template <class Body>
void World::transact(std::size_t thread, const Attempts& attempts, Body body) {
  Tx& me = tx(thread);
  for (unsigned failed = attempts.before;; ++failed) {
    // Once it tries again at once, and from then on when the others had time.
    if (failed > attempts.before + 1) interleave::give_way();
    if (!me.begin_plain(attempts.read_only))
      me.begin(attempts.read_only, !attempts.read_only || failed > 2, failed != 0);
    try {
      body(me);
      if (failed != 0 || !me.end_unchanged()) commit(me, thread);
      return;
    } catch (const Conflict&) {
      me.roll_back();
    } catch (...) {
      if (!me.doomed()) {
        abandon(me);
        throw;
      }
      me.roll_back();
    }
  }
}

}  // namespace perdure::interleaved
