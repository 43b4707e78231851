// Engine: what can be chosen when a pool is opened. Each is stamped from a template for its domain
// (redo.h, make_engine), so that the hot paths have no branch on it; one virtual call per commit
// remains.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "perdure/alias/alias_table.h"
#include "perdure/domain/counted.h"
#include "perdure/engine/mode_choice.h"
#include "perdure/engine/transaction.h"
#include "perdure/log/log_area.h"

namespace perdure {

enum class EngineKind : std::uint8_t {
  kMnemosyne,  // word STM, tornbit redo log, home words forced one commit later (files: in bulk)
  kBlurred,    // the same with execution in log: uncommitted values stand in the log, too
  kAdaptive,   // either, for each thread whichever it finds to be the quicker one (BPPM-A)
  kSoftwrap,  // write-aside: home words stand in private pages in DRAM, and go home in the background
  kSoftwrapTables,  // the same as in the paper: they stand in alias tables
  kUndoObjects,     // objects copied to the log, whole, and then changed where they are (NV-heaps)
  kBase,  // yardstick: what the papers improve on. Log, wait, commit word, wait; home words forced at each commit
  kUndo,  // yardstick: each word's old value logged and waited for before it is overwritten
  kNonatomic,  // yardstick: isolated, durable at the end, but a power cut may leave half of it
  kVolatile,   // yardstick: isolated only
};

/// When the home words of a commit become durable and its record leaves the log. Every choice is safe; they differ in
/// who waits for what, and for how long.
enum class Truncation : std::uint8_t {
  kAuto,  // kNextCommit on memory, kWhenFull on files; of the yardstick kBase, kEachCommit; of the softwrap engines, kBackground
  kEachCommit,  // Mnemosyne's synchronous truncation: at the end of the commit itself; three fences
  kNextCommit,  // home words under the fence of the thread's next commit; logs emptied together when one is full
  kWhenFull,  // both when a log is full
  kBackground,  // Mnemosyne's asynchronous truncation: by a thread of its own; commits wait only for a full log
};

constexpr std::string_view truncation_name(Truncation truncation) {
  switch (truncation) {
    case Truncation::kAuto: return "auto";
    case Truncation::kEachCommit: return "each-commit";
    case Truncation::kNextCommit: return "next-commit";
    case Truncation::kWhenFull: return "when-full";
    case Truncation::kBackground: return "background";
  }
  return "unknown";
}

/// When a commit returns. The order of commits is kept in either case: what survives is what was committed up to some
/// moment, and nothing later.
enum class Durability : std::uint8_t {
  kStrict,  // when it is durable, with all that was committed before it (at once, if it wrote nothing)
  kRelaxed,  // at once. On files it becomes durable with the next strict commit, Pool::sync() or checkpoint, at the
  // latest PoolOptions::relaxed_delay later; on memory, where a fence is no wait worth avoiding, as kStrict
};

constexpr std::string_view durability_name(Durability durability) {
  return durability == Durability::kStrict ? "strict" : "relaxed";
}

constexpr std::string_view engine_name(EngineKind kind) {
  switch (kind) {
    case EngineKind::kMnemosyne: return "mnemosyne";
    case EngineKind::kBlurred: return "blurred";
    case EngineKind::kAdaptive: return "adaptive";
    case EngineKind::kSoftwrap: return "softwrap";
    case EngineKind::kSoftwrapTables: return "softwrap-tables";
    case EngineKind::kUndoObjects: return "undo-objects";
    case EngineKind::kBase: return "base";
    case EngineKind::kUndo: return "undo";
    case EngineKind::kNonatomic: return "nonatomic";
    case EngineKind::kVolatile: return "volatile";
  }
  return "unknown";
}

/// Whether an engine keeps its promises after a power cut.
constexpr bool is_durable(EngineKind kind) {
  return kind != EngineKind::kNonatomic && kind != EngineKind::kVolatile;
}

/// Of the softwrap engines: when they retire what is aside. They know no other truncation.
constexpr bool retires_by(Truncation truncation) {
  return truncation == Truncation::kBackground || truncation == Truncation::kWhenFull;
}

/// Whether it empties its log at each commit, and knows no other truncation.
constexpr bool is_undo(EngineKind kind) {
  return kind == EngineKind::kUndo || kind == EngineKind::kUndoObjects;
}

constexpr bool is_softwrap(EngineKind kind) {
  return kind == EngineKind::kSoftwrap || kind == EngineKind::kSoftwrapTables;
}

/// One opened pool's engine. The only virtual calls of the house outside tools: one per update
/// transaction. (An interface rather than a hand-written table of pointers.)
class Engine : public HomeStores {
 public:
  /// Replays what the logs hold and readies them. First call after construction.
  virtual Result<RecoveryReport> recover() = 0;
  /// Prepares the Tx of a thread's place in the pool, whose log is `slot`, before its first transaction.
  virtual void attach(Tx& /*tx*/, std::size_t /*slot*/) {}
  /// Where a thread finds words that are committed and not home, outside transactions; null: all are home.
  /// Throws: std::bad_alloc.
  virtual std::unique_ptr<Aside> look_aside() { return nullptr; }
  /// Pages that open wraps may store to at once, because nothing but what records say goes home from them; null: none.
  virtual PrivatePages* pages_for_open_words() { return nullptr; }
  /// Whether home words may be those of a transaction that has not committed. Then nobody reads them without transactions.
  virtual bool changes_in_place() const { return false; }
  /// Makes `tx` durable and visible, and ends it. Throws Conflict (nothing happened; roll back and
  /// retry) or Exception kPoisoned (whether the transaction survives is decided at the next open).
  virtual void commit(Tx& tx, std::size_t slot, Durability durability) = 0;
  /// Returns when everything committed so far is durable. Errors: throws Exception kPoisoned. Threads: any.
  virtual void sync() = 0;
  /// Makes `writes` durable and home as one record of its own, outside any transaction.
  virtual void publish(std::span<const MaskedWrite> writes, std::size_t slot) = 0;
  /// Writes all home words back and empties the logs. Errors: throws Exception kPoisoned.
  virtual void truncate() = 0;
  /// From the next commit on; the logs are emptied first (softwrap-tables: they and the tables stay). Errors: throws Exception
  /// kPoisoned; kMisuse by an engine that knows no such truncation. Threads: any.
  virtual void set_truncation(Truncation truncation) = 0;
  virtual Truncation truncation() const = 0;
  virtual Result<void> grow(std::uint64_t segments, Word fresh) = 0;
  virtual bool poisoned() const = 0;

  // The persistence primitives themselves, for structures that bring their own protocol
  // (perdure::Log): those of HomeStores, and
  virtual void flush(const void* address, std::size_t bytes, Site site) = 0;
  virtual bool fence(Site site) = 0;
};

/// An Engine's primitives as a Domain, for templates over domains off the hot path.
class EngineDomain {
 public:
  explicit EngineDomain(Engine& engine) : engine_(&engine) {}
  void store(Word* home, Word value) { engine_->store(home, value); }
  void merge(Word* home, Word value, Word mask) { engine_->merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    engine_->write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    engine_->flush(address, bytes, site);
  }
  bool fence(Site site) { return engine_->fence(site); }

 private:
  Engine* engine_;
};

/// Below it a log takes an object's words faster than the wait of its own that initialisation in place takes.
inline constexpr std::size_t kInPlaceBytes = 256;

struct EngineParts {
  Region* region;
  CommitClock* clock;
  Heap* heap;
  LogArea* logs;
  /// How long a relaxed commit may stay volatile; zero: as long as nobody asks.
  std::chrono::nanoseconds relaxed_delay{0};
  /// Of the adaptive engine.
  ChoiceRules choice_rules{};
  /// Objects from this size on are initialised in place.
  std::size_t in_place_bytes = kInPlaceBytes;
  /// Of the engine softwrap-tables: its tables, and the share of one, 1 in `alias_threshold`, that makes it full.
  alias::AliasLimits aliases{};
  std::uint64_t alias_threshold = 8;
  /// Logs are emptied when one holds this many bytes, so that recovery has no more to replay; 0: when it is full.
  std::uint64_t log_limit_bytes = 0;
};

}  // namespace perdure
