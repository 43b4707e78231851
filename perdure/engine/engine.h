// SPDX-License-Identifier: BSD-3-Clause
// Engine: what makes a pool's transactions durable. The library has one, Redo (redo.h), compiled
// for each domain (instantiations.h); papers/engines.h lists those of the papers. The hot paths are
// compiled for their domain: all that a transaction's commit calls through this interface is
// commit().
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "perdure/engine/options.h"
#include "perdure/engine/transaction.h"
#include "perdure/log/log_area.h"

namespace perdure {

class PrivatePages;

/// Words that are committed and not home, as structures outside transactions find them
/// (perdure/wraps.h).
/// Threads: one; enter() and leave() pair up, load() between them.
class CommittedWords {
 public:
  virtual ~CommittedWords() = default;
  virtual void enter() = 0;
  virtual void leave() = 0;
  /// The word at `at`, whose home is `home`.
  virtual Word load(Offset at, const Word* home) const = 0;
};

/// One opened pool's engine; also the primitives themselves, for structures that bring their own
/// protocol (perdure::Log).
class Engine : public Primitives {
 public:
  /// The name that people use.
  virtual std::string_view name() const = 0;
  /// Whether the pool is consistent and complete after a crash; a baseline that benchmarks compare
  /// with may not be.
  virtual bool is_durable() const { return true; }
  /// Replays what the logs hold and makes them ready. This is the first call after construction.
  virtual Result<RecoveryReport> recover() = 0;
  /// Makes the transaction object of a thread whose log is `slot`; Tx::kNoSlot: it is lent one for
  /// each update. Errors: throws Exception kMisuse.
  virtual std::unique_ptr<Tx> make_tx(const TxWorld& world, std::size_t slot) = 0;
  /// Whether a thread's log is free for another one when no update of the thread is running. If not,
  /// each thread has one for as long as it lives.
  virtual bool lends_slots() const { return false; }
  /// Whether a transaction may run without ownership records while nobody else is there.
  virtual bool allows_biased_locking() const { return true; }
  /// Where a thread finds words that are committed and not home, outside transactions; null: all
  /// are home.
  /// Throws: std::bad_alloc.
  virtual std::unique_ptr<CommittedWords> committed_words() { return nullptr; }
  /// The private pages that open wraps may store to at once, because nothing reaches home from them
  /// but what records say; null: none.
  virtual PrivatePages* pages_for_open_words() { return nullptr; }
  /// Whether home words may be those of a transaction that has not committed. Then nobody may read
  /// them outside transactions.
  virtual bool changes_in_place() const { return false; }
  /// Makes `tx` durable and visible, and ends it. Throws Conflict (nothing happened; roll back and
  /// retry) or Exception kPoisoned (whether the transaction survives is decided at the next open).
  virtual void commit(Tx& tx, std::size_t slot, Durability durability) = 0;
  /// Called before a transaction that only read returns what it has Tx::seen(). Returns when that is
  /// durable, as far as strict commits wrote it. Errors: throws Exception kPoisoned. Threads: any.
  virtual void await(std::uint64_t /*seen*/) {}
  /// Returns when everything committed so far is durable. Errors: throws Exception kPoisoned.
  /// Threads: any.
  virtual void sync() = 0;
  /// Returns when the commit of `timestamp`, and all before it, is durable, even if it was relaxed.
  /// What is durable stays so: also after the storage has failed. Errors: throws Exception kPoisoned.
  /// Threads: any.
  virtual void persist(std::uint64_t /*timestamp*/) { sync(); }
  /// Makes `writes` durable and home as one record of its own, outside any transaction.
  virtual void publish(std::span<const MaskedWrite> writes, std::size_t slot) = 0;
  /// Writes all home words back and empties the logs. Errors: throws Exception kPoisoned.
  virtual void truncate() = 0;
  /// From the next commit on; the logs are emptied first. Errors: throws Exception
  /// kPoisoned; kMisuse by an engine that knows no such truncation. Threads: any.
  virtual void set_truncation(Truncation truncation) = 0;
  virtual Truncation truncation() const = 0;
  virtual Result<void> grow(std::uint64_t segments, Word fresh) = 0;
  virtual bool poisoned() const = 0;
  /// Closes the pool: writes everything home, and leaves the logs empty and in the library's own
  /// layout. The engine's background threads have ended on return, and before the logs are laid out
  /// anew.
  /// Threads: no other of the program's.
  virtual void close() { truncate(); }
};

struct EngineParts {
  Region* region;
  CommitClock* clock;
  Heap* heap;
  LogArea* logs;
  EngineTuning tuning{};
};

/// How a pool gets its engine.
struct EngineSource {
  std::function<std::unique_ptr<Engine>(const EngineParts&)> make;
  /// Set for an engine with side logs.
  const SideLogFormat* side_logs = nullptr;
  /// Set for a pool of which only what comes before damage in a log is wanted.
  std::vector<std::string>* log_damage = nullptr;
};

}  // namespace perdure
