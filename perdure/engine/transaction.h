// Tx: the word STM under every redo engine: encounter-time locking, write-back, validated reads
// (Mnemosyne §5). It knows nothing of persistence: a commit hands its writes to the pool's engine,
// which decides when they are durable.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "perdure/base/offset_set.h"
#include "perdure/engine/lock_table.h"
#include "perdure/engine/write_set.h"
#include "perdure/heap/heap.h"
#include "perdure/region/region.h"
#include "perdure/tx.h"

namespace perdure {

/// What a Tx needs of the pool that it runs on.
struct TxWorld {
  std::byte* base;
  Region* region;
  LockTable* locks;
  CommitClock* clock;
  Heap* heap;
};

/// One thread's transaction, reused from one to the next.
/// Opacity: every read is validated when it is made, so user code never sees a state that no commit
///          produced.
/// Threads: one.
class alignas(kLineBytes) Tx {
 public:
  explicit Tx(const TxWorld& world) : world_(&world) {}
  Tx(const Tx&) = delete;
  Tx& operator=(const Tx&) = delete;

  // ---- the face that containers see (perdure/tx.h) ----------------------------------------------
  template <Field T>
  T load(const T& field) {
    const Offset offset = offset_of(&field);
    const Word word = load_at(round_down(offset, kWordBytes));
    T value;
    std::memcpy(&value, reinterpret_cast<const char*>(&word) + offset % kWordBytes, sizeof(T));
    return value;
  }
  template <Field T>
  void store(T& field, std::type_identity_t<T> value) {
    const Offset offset = offset_of(&field);
    const Offset at = round_down(offset, kWordBytes);
    lock(at);
    Word word = 0;
    if constexpr (sizeof(T) < kWordBytes) word = owned_word(at);
    std::memcpy(reinterpret_cast<char*>(&word) + offset % kWordBytes, &value, sizeof(T));
    writes_.put(at, word);
  }
  void read(void* to, const void* from, std::size_t bytes);
  void write(void* to, const void* from, std::size_t bytes);
  template <class T>
  T* at(link<T> to) const {
    return reinterpret_cast<T*>(world_->base + to.offset);
  }
  template <class T>
  link<T> link_to(const T* object) const {
    return {object == nullptr ? 0 : offset_of(object)};
  }
  /// Errors: Exception kNoSpace, which rolls back when it leaves the transaction.
  void* allocate(std::size_t bytes);
  /// Errors: Exception kMisuse on a double free or a foreign pointer.
  void free(void* object);
  /// Errors: Exception kMisuse for a foreign pointer.
  std::size_t usable_bytes(const void* object) {
    const auto bytes = ask_heap([&] { return world_->heap->usable_bytes(offset_of(object)); });
    if (stale()) conflict();  // the answer is about now, the transaction about its snapshot
    return bytes;
  }

  // ---- the face that engines and the pool see ---------------------------------------------------
  bool active() const { return active_; }
  /// `read_only`: stores are refused. `tracked`: reads are remembered, so that the snapshot may
  /// move (always for updates; for readers only after untracked attempts kept meeting newer data).
  void begin(bool read_only, bool tracked);
  bool read_only() const { return read_only_; }
  bool has_updates() const { return !writes_.empty() || !allocated_.empty() || !freed_.empty(); }
  /// Adds the heap's writes; after it `writes()` is all that the commit makes durable.
  void collect_heap_writes();
  std::vector<MaskedWrite>& writes() { return writes_.writes(); }
  std::uint64_t snapshot() const { return snapshot_; }
  /// Whether everything read is still what it was.
  bool validate() const;
  /// After the commit: makes it visible under `stamp`.
  void make_visible(std::uint64_t stamp) noexcept;
  /// Then: gives freed space back and ends the transaction. It may wait for the heap, and whoever has
  /// the heap may wait for commits under way: not one of those any more.
  void finish() noexcept;
  /// Undoes everything. Never fails.
  void roll_back() noexcept;
  Heap::Cache& heap_cache() { return heap_cache_; }
  /// Gives the lines of free space a new version, before something writes them past the
  /// transactions. Without it a reader that still holds a pointer to what was freed there would
  /// take the new bytes for the object's. May end the attempt with a Conflict.
  void outdate(Offset begin, std::uint64_t bytes);
  /// Set when an attempt ended in a Conflict; user code that swallows it does not get to commit.
  bool doomed() const { return doomed_; }

 private:
  struct Read {
    LockTable::Orec* orec;
    std::uint64_t seen;
  };
  struct Lock {
    LockTable::Orec* orec;
    std::uint64_t before;
  };

  Offset offset_of(const void* address) const {
    return static_cast<Offset>(static_cast<const std::byte*>(address) - world_->base);
  }
  std::uint64_t me() const { return reinterpret_cast<std::uint64_t>(this) | 1; }
  Word* home(Offset at) const { return reinterpret_cast<Word*>(world_->base + at); }
  [[noreturn]] void conflict() {
    doomed_ = true;
    throw Conflict{};
  }
  /// The word at an aligned offset whose orec this transaction owns.
  Word owned_word(Offset at) {
    const MaskedWrite* mine = writes_.find(at);
    return mine != nullptr ? mine->value : load_word(home(at));
  }
  Word load_at(Offset at);
  void lock(Offset at);
  /// Where a transaction may store: the heap, and (for the pool itself) the root table.
  bool storable(Offset at) const {
    const Superblock& super = world_->region->superblock();
    return inside(at, kWordBytes, super.heap_offset, world_->region->grown_bytes()) ||
           inside(at, kWordBytes, super.root_offset, super.head_offset);
  }
  /// The heap's answer about an object, unless the question came from a state that another commit
  /// has overtaken.
  template <class Question>
  std::invoke_result_t<Question&> ask_heap(Question question) {
    try {
      return question();
    } catch (const Exception&) {
      if (stale()) conflict();
      throw;
    }
  }
  /// Whether another commit may have changed what this transaction has read.
  bool stale() const { return tracked_ ? !validate() : world_->clock->now() != snapshot_; }
  void extend();

  const TxWorld* world_;
  bool active_ = false;
  bool read_only_ = false;
  bool tracked_ = true;
  bool doomed_ = false;
  std::uint64_t snapshot_ = 0;
  std::vector<Read> reads_;
  std::vector<Lock> locks_;
  WriteSet writes_;
  OffsetSet allocated_;
  OffsetSet freed_;
  Heap::Cache heap_cache_;
};

inline Word Tx::load_at(Offset at) {
  LockTable::Orec& orec = world_->locks->of(at);
  for (;;) {
    // Acquire, then the word (acquire), then the orec again: an unchanged, unlocked orec brackets
    // the read.
    const std::uint64_t before = orec.load(std::memory_order_acquire);
    if (LockTable::locked(before)) [[unlikely]] {
      if (before == me()) return owned_word(at);
      conflict();
    }
    const Word value = load_word(home(at));
    if (orec.load(std::memory_order_relaxed) != before) [[unlikely]]
      continue;
    if (LockTable::version(before) > snapshot_) [[unlikely]] {
      extend();
      continue;
    }
    // An untracked reader needs no read set: every read was valid at the one snapshot, which
    // extend() never moves.
    if (tracked_ && (reads_.empty() || reads_.back().orec != &orec))
      reads_.push_back({&orec, before});
    return value;
  }
}

inline void Tx::lock(Offset at) {
  __builtin_prefetch(home(at), 1);  // the commit will store there
  LockTable::Orec& orec = world_->locks->of(at);
  for (;;) {
    std::uint64_t before = orec.load(std::memory_order_acquire);
    if (LockTable::locked(before)) {
      if (before == me()) return;
      conflict();
    }
    if (read_only_) [[unlikely]]
      throw Exception(Code::kMisuse, "a store in a read_only() transaction; use atomically()");
    if (!storable(at)) [[unlikely]]
      throw Exception(
          Code::kMisuse,
          "a store to an address outside the pool; transactions store to persistent objects");
    if (LockTable::version(before) > snapshot_) {
      extend();
      continue;
    }
    // Acquire: pairs with the release of the last owner, whose home stores must be seen by
    //          owned_word().
    locks_.push_back({&orec, before});  // first: out of memory later, the lock would be for ever
    if (orec.compare_exchange_weak(before, me(), std::memory_order_acq_rel,
                                   std::memory_order_relaxed))
      return;
    locks_.pop_back();
  }
}

static_assert(Transaction<Tx>);

}  // namespace perdure
