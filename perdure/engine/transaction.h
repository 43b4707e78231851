// SPDX-License-Identifier: BSD-3-Clause
// Tx: the word STM of the pool's engine: locks of lines, write-back, validated reads
// (Mnemosyne §5). It knows nothing of persistence: a commit hands its writes to the engine, which
// decides when they are durable.
//
// Deviation: in its first attempt a transaction takes the ownership records of the whole words that
// it stores when it commits (lazy_). A locked instruction at each store would keep the processor
// from fetching what the loads behind it need: with several words it waited for one cache miss
// after the other. After a Conflict it locks at each store, as the paper does, so that whoever is
// quicker cannot take what it has stored to.
//
// Another engine brings a transaction type of its own, derived from this one (Engine::make_tx). Its
// differences hook into slow paths that this type has anyway. A transaction that made large new
// objects stores directly into them, and one that writes long runs keeps them apart
// (engine/bulk_writes.h), so each store tests whether there are any (apart_); a type
// that always stores apart from the write set sets that flag for good. A type whose committed words
// may stand elsewhere than at home says that no version is home (plain_until_). So the fast paths
// of this type have no test for either.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "perdure/base/offset_set.h"
#include "perdure/base/shared.h"
#include "perdure/engine/biased_locking.h"
#include "perdure/engine/durable_horizon.h"
#include "perdure/engine/lock_table.h"
#include "perdure/engine/write_set.h"
#include "perdure/error.h"
#include "perdure/heap/object.h"
#include "perdure/tx.h"

#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PERDURE_LOOKS_AT_EACH_USE 1
#else
#define PERDURE_LOOKS_AT_EACH_USE 0
#endif

namespace perdure {

class BulkWrites;
class Engine;
class Heap;
struct HeapCache;
class Primitives;
class Region;

/// What a Tx needs of the pool that it runs on.
struct TxWorld {
  std::byte* base;
  Offset heap_begin;
  const std::atomic<std::uint64_t>* heap_end;  // grows
  Region* region;
  LockTable* locks;
  CommitClock* clock;
  Heap* heap;
  Engine* engine;  // makes durable what the heap needs for a reservation
  /// How many bytes from base on are persistent. In an ordinary pool these are all, and a store
  /// elsewhere is refused; in a persistent address space what lies outside is volatile: isolated,
  /// but not logged.
  std::uint64_t range_bytes = ~std::uint64_t{0};
  /// Null: every transaction uses ownership records.
  BiasedLocking* biased_locking = nullptr;
};

/// One thread's transaction, reused from one to the next.
/// Opacity: every read is validated when it is made, so user code never sees a state that no commit
///          produced.
/// Threads: one.
class alignas(kLineBytes) Tx {
 public:
  /// `world` must outlive it. `slot`: of the thread's log; kNoSlot: it gets one later.
  /// Throws: std::bad_alloc.
  Tx(const TxWorld& world, std::size_t slot);
  virtual ~Tx();
  Tx(const Tx&) = delete;
  Tx& operator=(const Tx&) = delete;

  // ---- the face that containers see (perdure/tx.h) ----------------------------------------------
  template <Field T>
  [[gnu::always_inline]] T load(const T& field) {
    if constexpr (kIsWord<T>) {
      return std::bit_cast<T>(load_at(reinterpret_cast<const Word*>(&field)));
    } else {
      const Offset offset = offset_of(&field);
      const Word word = load_at(home(round_down(offset, kWordBytes)));
      T value;
      std::memcpy(&value, reinterpret_cast<const char*>(&word) + offset % kWordBytes, sizeof(T));
      return value;
    }
  }
  template <Field T>
  [[gnu::always_inline]] void store(T& field, std::type_identity_t<T> value) {
    expect_use();
    if constexpr (kIsWord<T>) {
      if (reinterpret_cast<std::uintptr_t>(&field) - plain_begin_ < plain_span_) [[likely]] {
        __builtin_prefetch(&field, 1);  // the commit does
        writes_.put_whole(offset_of(&field), std::bit_cast<Word>(value));
      } else {
        store_word(offset_of(&field), std::bit_cast<Word>(value));
      }
    } else {
      store_part(offset_of(&field), &value, sizeof(T));
    }
  }
  void read(void* to, const void* from, std::size_t bytes) {
    check(from, bytes);
    if (!plain_ || !writes_.empty()) return read_by_lines(to, from, bytes);
    copy_in_doubt(to, from, bytes);
    if (!still_alone()) [[unlikely]]
      end_in_conflict();
  }
  /// Calls `f` with a std::string_view of the bytes at `from`, and returns what that returns. They
  /// are not copied while nobody else can commit: an update that another thread wants to begin waits
  /// until `f` returns, so `f` must not wait for other threads. May end the attempt with a Conflict,
  /// before it calls `f`.
  template <class F>
  std::invoke_result_t<F&, std::string_view> view(const void* from, std::size_t bytes, F&& f);
  void write(void* to, const void* from, std::size_t bytes);
  /// Errors: throws Exception kCorrupt where no T of the pool can be: links are read from a file, and
  ///         may be damaged.
  template <class T>
  T* at(pptr<T> to) const {
    // Rotated, an odd place is a huge one.
    if (std::rotr(to.offset, 3) > links_end_ - words_of<T>()) [[unlikely]]
      look_at_link(to.offset, words_of<T>());
    return reinterpret_cast<T*>(base_ + to.offset);
  }
  /// Errors: throws Exception kCorrupt when the bytes begin in the pool, and do not end there.
  void check(const void* from, std::uint64_t bytes) const {
    const Offset offset = offset_of(from);
    if (const Offset end = links_end_ * kWordBytes; offset < end && bytes > end - offset)
        [[unlikely]]
      look_at_bytes(offset, bytes);
  }
  /// For what says itself how long it is.
  /// Errors: throws Exception kCorrupt when `object` was not allocated for so many bytes; may end the
  ///         attempt with a Conflict.
  void check_object(const void* object, std::uint64_t bytes);
  template <class T>
  pptr<T> link_to(const T* object) const {
    return {object == nullptr ? 0 : offset_of(object)};
  }
  /// Errors: Exception kNoSpace, which rolls back when it leaves the transaction.
  void* allocate(std::size_t bytes);
  /// Errors: Exception kMisuse on a double free or a foreign pointer. Two transactions that free
  ///         the same object at the same time conflict.
  void free(void* object);
  /// Errors: Exception kMisuse for a foreign pointer.
  std::size_t usable_bytes(const void* object);

  // ---- the face of structures that keep something outside transactions --------------------------
  /// Takes the ownership record of the word at `word`, which a store may leave to the commit: from
  /// now on whoever else reads the word meets this transaction, or has read it before.
  /// Errors: may end the attempt with a Conflict.
  void own_now(const Word& word) { own(offset_of(&word)); }

  // ---- the face of wraps (perdure/wraps.h) ------------------------------------------------------
  /// Stores the bytes of the value that the mask selects.
  void store_bytes(const MaskedWrite& write) {
    refuse_unless_storable(write.offset);
    lock(write.offset);
    put(write.offset, write.value, write.mask);
  }
  /// The commit publishes what the caller has reserved in the heap. Without a commit it stays the
  /// caller's.
  /// Requires: before the transaction allocates for itself.
  void publish_for_caller(Offset reserved);

  // ---- the face of compiled transactions: any address, byte by byte -----------------------------
  /// As read() and write(), but exactly these bytes are touched: what lies beside them in the same
  /// word may be written outside transactions at the same time, as C and C++ allow.
  void read_exact(void* to, const void* from, std::size_t bytes);
  void write_exact(void* to, const void* from, std::size_t bytes);
  /// At most 8 bytes inside one aligned word.
  Word load_piece(Offset offset, std::size_t bytes);
  void store_piece(Offset offset, Word value, std::size_t bytes);
  /// The state of the transaction, which roll_back_to() restores (closed nesting). Locks and reads
  /// stay.
  struct Savepoint {
    MaskedWrites writes;
    MaskedWrites volatile_writes;
    std::size_t allocated = 0;
    std::size_t freed = 0;
    std::size_t in_place = 0;
  };
  Savepoint save();
  void roll_back_to(const Savepoint& savepoint);
  /// Announces the transaction, so that others can wait until none older than a timestamp is
  /// running (PoolCore::quiesce). Call it before begin().
  void announce() {
    announcing_ = begins_specially_ = true;
    may_be_plain_ = false;
    announced_.store(0, std::memory_order_relaxed);
    // Orders: the announcement before the snapshot is drawn. Without it a committer could miss this
    //         transaction, which still reads what the committer then takes for its own.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  /// The snapshot of a running transaction that announced itself; else the largest number.
  std::uint64_t announced() const { return announced_.load(std::memory_order_acquire); }
  std::uint64_t last_timestamp() const { return last_timestamp_; }

  // ---- the face that engines and the pool see ---------------------------------------------------
  bool active() const { return active_.load(std::memory_order_relaxed); }
  /// The number of the log that the thread's commits go to. Requires: an update is running.
  std::size_t slot() const { return slot_; }
  /// Called before an update begins: from now on until it ends, nobody takes the slot away. False:
  /// it has none.
  bool keep_slot() {
    active_.store(true, std::memory_order_relaxed);
    // Orders: the mark before the look, as take_slot_away() does the other way round; that one's
    //         barrier on all CPUs does the rest.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return has_slot_.load(std::memory_order_relaxed);
  }
  /// Called instead of begin(), when there is no slot to be had.
  void rest() { active_.store(false, std::memory_order_release); }
  /// Requires: the pool's list of slots is locked, as for the next two.
  bool has_slot() const { return has_slot_.load(std::memory_order_relaxed); }
  void give_slot(std::size_t slot) {
    slot_ = slot;
    has_slot_.store(true, std::memory_order_relaxed);
  }
  /// Takes the slot of a thread that is in no transaction, and which meets others in the same
  /// place, or gets another slot, before its next update. kNoSlot: it is in one, or has none.
  std::size_t take_slot_away();
  /// The same by the thread itself.
  std::size_t let_slot_go() {
    if (!has_slot()) return kNoSlot;
    has_slot_.store(false, std::memory_order_relaxed);
    return slot_;
  }
  static constexpr std::size_t kNoSlot = ~std::size_t{0};
  /// From now on the calling thread's.
  void belongs_to_this_thread() { thread_ = __builtin_thread_pointer(); }
  /// All of begin(), where nothing but words of the heap is going to matter: the thread is alone,
  /// and each committed word is at home. False: nothing has happened.
  bool begin_plain(bool read_only) {
    if (!may_be_plain_ || !place_.begin_biased(*biased_locking_, read_only)) return false;
    if (!keep_slot() && !read_only) [[unlikely]] {
      rest();
      return false;
    }
    alone_ = plain_ = true;
    read_only_ = read_only;
    doomed_ = false;
    snapshot_ = world_->clock->now();
    if (!read_only) let_stores_be_plain();
    return true;
  }
  /// Whether the transaction has begun so. It may have allocated and freed since.
  bool plain() const { return plain_; }
  /// All of a commit of a transaction that has changed nothing. False: it has, or may not commit, or
  /// something else is special about it.
  bool end_unchanged() noexcept {
    if (doomed_ || !nothing_to_log() || !locks_.empty() || !is_simple()) return false;
    reads_.clear();
    end_plain();
    return true;
  }
  /// Begins the next attempt.
  /// `read_only`: stores are refused. `tracked`: reads are remembered, so that the snapshot may
  /// move (always for updates; for readers only after untracked attempts kept meeting newer data).
  /// `again`: the last attempt ended in a Conflict.
  void begin(bool read_only, bool tracked, bool again = false) {
    active_.store(true, std::memory_order_relaxed);
    read_only_ = read_only;
    tracked_ = tracked;
    lazy_ = may_be_plain_ && !again;
    if (lazy_ && !read_only) let_stores_be_plain();
    doomed_ = false;
    alone_ = biased_locking_ != nullptr && place_.begin(*biased_locking_, read_only);
    among_others_ = !alone_;
    // Whoever updates begins with the snapshot that its last transaction ended with: its reads say
    // where others have committed since, and then the snapshot moves (extend()). So the clock's
    // line, which every commit writes, is fetched once for a transaction, not twice.
    if (read_only || !may_be_plain_) snapshot_ = world_->clock->now();
    plain_until_ = snapshot_;
    if (begins_specially_) [[unlikely]]
      begin_specially();
  }
  bool read_only() const { return read_only_; }
  /// Whether it runs without isolation, because no other thread uses the pool
  /// (engine/biased_locking.h).
  bool alone() const { return alone_; }
  /// Called before a commit; returns whether it may go on. (It may not if it ran alone and another
  /// thread has come.) It may end the attempt with a Conflict.
  bool claim_commit() {
    if (alone_) return place_.claim(*biased_locking_);
    if (lazy_ && !writes_.empty()) own_writes();
    return true;
  }
  BiasedLocking::Place& place() { return place_; }
  bool has_updates() const {
    return !writes_.empty() || stored_apart_ || !allocated_.empty() || !freed_.empty();
  }
  /// Stores home what was written to volatile memory.
  void store_volatile() noexcept;
  bool has_volatile_updates() const { return !volatile_writes_.empty(); }
  /// Adds the heap's writes to heap_writes().
  void collect_heap_writes();
  bool nothing_to_log() const { return writes_.empty() && !stored_apart_; }
  MaskedWrites& writes() { return writes_.writes(); }

  // ---- initialisation in place ------------------------------------------------------------------
  /// A new object into which the transaction stores directly. Nobody else sees it before the
  /// commit; if the transaction never commits, the object is free space, so an abort has nothing to
  /// undo.
  struct InPlace {
    Offset begin;
    std::uint64_t bytes;
    Offset low = ~Offset{0};  // [low, high) was stored to, and has to be flushed
    Offset high = 0;
    bool streamed = false;  // more was written through
    bool used() const { return streamed || low < high; }
  };
  /// From the next allocation on, objects of at least `least_bytes` are initialised in place,
  /// through `stores`. The commit then makes in_place() durable before any record that leads there.
  void initialise_through(Primitives* stores, std::size_t least_bytes) {
    home_stores_ = stores;
    in_place_bytes_ = least_bytes;
  }
  const GrowingArray<InPlace>& in_place() const { return in_place_; }

  // ---- long runs of words -----------------------------------------------------------------------
  /// From now on a write() of at least `least_bytes` is kept apart from writes(): see bulk().
  void write_in_bulk_from(std::size_t least_bytes) { bulk_bytes_ = least_bytes; }
  bool has_bulk() const { return has_bulk_; }
  /// What writes() says of the same words is older. Requires: has_bulk(); something is in writes().
  const BulkWrites& bulk() const { return *bulk_; }

  // ---- commits that are visible before they are durable -----------------------------------------
  /// From the next transaction on, seen() says what has to be waited for.
  void heed(const DurableHorizon& horizon) {
    horizon_ = &horizon;
    begins_specially_ = true;
  }
  /// The newest version beyond the horizon that it has read; 0: none.
  std::uint64_t seen() const { return seen_; }
  /// Called when the storage has failed after others could see a commit: from now on every
  /// transaction of the pool looks at versions.
  void forbid_biased_locking() {
    if (biased_locking_ != nullptr) biased_locking_->forbid();
  }

  std::uint64_t snapshot() const { return snapshot_; }
  /// Called before a commit under `timestamp`, which has been drawn already. Throws Conflict unless
  /// everything read is still what it was.
  void validate_at(std::uint64_t timestamp) const {
    if (timestamp != snapshot_ + 1 && !validate())
      throw Conflict{};  // else nobody has committed since the snapshot
  }
  /// Called after the commit: makes it visible under `timestamp`.
  void make_visible(std::uint64_t timestamp) noexcept;
  /// Called then: gives freed space back and ends the transaction. It may wait for the heap's lock,
  /// whose holder may wait for commits under way. So this transaction must not be one of those any
  /// more.
  void finish() noexcept {
    if (!is_simple()) return finish_all();
    reads_.clear();
    end_plain();
  }
  /// The first part of finish(), where nothing is to wait for the rest of it: gives freed space back,
  /// and then releases the locks that a transaction keeps until the heap knows what it has freed.
  void let_go() noexcept;
  /// Undoes everything. Never fails.
  void roll_back() noexcept;
  /// Gives the small objects that the thread freed, and keeps for itself, to everyone. Called when
  /// the thread ends.
  void give_back() noexcept;
  /// Reserves space in the heap, which is the caller's until it is published or cancelled. What the
  /// heap needs for that becomes durable first.
  /// Errors: as Heap::reserve() and Engine::publish(); may end the attempt with a Conflict.
  Offset reserve(std::uint64_t bytes) { return reserve_object(bytes).offset; }
  /// Gives the lines of free space a new version, before something writes them outside
  /// transactions. Without it a reader that still holds a pointer to what was freed there would
  /// take the new bytes for the object's. May end the attempt with a Conflict.
  void outdate(Offset begin, std::uint64_t bytes);
  /// Set when an attempt ended in a Conflict; user code that swallows it does not get to commit.
  bool doomed() const { return doomed_; }

 protected:
  // ---- what the transaction type of another engine does differently -----------------------------
  /// Whether all stores of its transactions go through put_apart(), from the next one on. Call this
  /// in the constructor, or when no transaction of it is running.
  void always_store_apart(bool always = true) {
    always_apart_ = apart_ = always;
    begins_specially_ = begins_specially_ || always;
    may_be_plain_ = !always && !announcing_ && biased_locking_ != nullptr;
  }
  /// Committed words may stand elsewhere than at home: all loads go through committed_word().
  /// Requires: no biased locking.
  void always_look_apart() {
    always_store_apart();
    looks_apart_ = true;
  }
  /// Called in began(): this transaction stores as those of the library do.
  void store_plainly() { apart_ = false; }
  /// Says that there is something to commit besides the write set.
  void stored_apart() { stored_apart_ = true; }
  /// Takes the ownership record of `at`. May end the attempt with a Conflict.
  void own(Offset at);
  /// Takes those of all words in the write set. May end the attempt with a Conflict.
  void own_writes();
  /// Stores to a new object where it is. False: `at` is in none.
  bool put_in_place(Offset at, Word value, Word mask);
  WriteSet& write_set() { return writes_; }
  const WriteSet& write_set() const { return writes_; }
  /// Called when the transaction has begun, and when it has ended.
  virtual void began() {}
  virtual void ended() noexcept {}
  /// Stores to a word that the transaction owns. Called while apart_.
  virtual void put_apart(Offset at, Word value, Word mask);
  /// The value of one of writes().
  virtual Word own_value(const MaskedWrite& mine) const { return mine.value; }
  /// The word at an aligned offset, as it was committed last.
  virtual Word committed_word(Offset at) const { return load_word(home(at)); }
  /// Where the heap's writes go.
  virtual MaskedWrites& heap_writes() { return writes_.writes(); }
  /// Before the transaction is saved, or is rolled back to what was saved.
  virtual void expect_savepoint(bool /*back*/) {}
  /// Whether a new object may be initialised in place now.
  virtual bool initialises_in_place() const { return true; }
  /// Takes back what is stored apart. Returns whether others could have read any of it.
  virtual bool take_back() noexcept { return !in_place_.empty(); }

  struct Read {
    LockTable::Orec* orec;
    std::uint64_t seen;
  };
  struct Lock {
    LockTable::Orec* orec;
    std::uint64_t before;
  };

  Offset offset_of(const void* address) const {
    return static_cast<Offset>(static_cast<const std::byte*>(address) - base_);
  }
  std::uint64_t me() const { return reinterpret_cast<std::uint64_t>(this) | 1; }
  Word* home(Offset at) const { return reinterpret_cast<Word*>(base_ + at); }
  [[noreturn]] void conflict() {
    doomed_ = true;
    throw Conflict{};
  }
  /// Catches a Tx that is used after its end, or by another thread than that which began it. Loads
  /// and stores that are inline in a running transaction look only in code that is not optimized,
  /// or is run with a sanitizer: it would double what a look-up costs.
  void require_use() const {
    if (!active() || thread_ != __builtin_thread_pointer()) [[unlikely]]
      refuse_use();
  }
  [[noreturn, gnu::cold]] void refuse_use() const;
  /// What a link leads to, as far as it is known and needs to be.
  template <class T>
  static constexpr std::uint64_t words_of() {
    if constexpr (requires { sizeof(T); }) {
      constexpr std::uint64_t kMost = kPageBytes / kWordBytes;  // fewer than a pool has at least
      return std::min<std::uint64_t>(kMost, (sizeof(T) + kWordBytes - 1) / kWordBytes);
    } else {
      return 1;
    }
  }
  // The slow parts of at() and check(): the pool may have grown.
  [[gnu::noinline, gnu::cold]] void look_at_link(Offset to, std::uint64_t words) const;
  [[gnu::noinline, gnu::cold]] void look_at_bytes(Offset from, std::uint64_t bytes) const;
  void expect_use() const {
#if PERDURE_LOOKS_AT_EACH_USE
    require_use();
#endif
  }
  /// Whether a field of this type is a word of its own, wherever it stands.
  template <class T>
  static constexpr bool kIsWord = sizeof(T) == kWordBytes && alignof(T) == kWordBytes;
  [[gnu::always_inline]] Word load_at(const Word* from) {
    expect_use();
    if (!plain_) [[unlikely]]
      return load_among_others(offset_of(from));
    const Word word =
        writes_.may_hold(offset_of(from)) ? written_or_home(offset_of(from)) : load_word(from);
    if (!still_alone()) [[unlikely]]
      end_in_conflict();
    return word;
  }
  // Apart from the paths that lead here, whose code stands in the user's.
  [[noreturn, gnu::noinline, gnu::cold]] void end_in_conflict() { conflict(); }
  [[gnu::noinline]] Word written_or_home(Offset at) { return owned_word(at); }
  /// Stores `bytes` bytes at `offset`, in one word.
  void store_part(Offset offset, const void* value, std::size_t bytes);
  WriteSet& set_of(Offset at) { return at < world_->range_bytes ? writes_ : volatile_writes_; }
  /// The word at an aligned offset whose orec this transaction owns.
  Word owned_word(Offset at) {
    if (apart_) [[unlikely]]
      return owned_word_apart(at);
    const MaskedWrite* mine = set_of(at).find(at);
    if (mine == nullptr) return load_word(home(at));
    if (mine->mask == kWholeWord) return mine->value;
    return (load_word(home(at)) & ~mine->mask) | (mine->value & mine->mask);
  }
  Word owned_word_apart(Offset at);
  /// Null: it is not written in bulk.
  Word* word_in_bulk(Offset at);
  /// What `word_at(at)` returns for each word, for bytes of one line.
  template <class WordAt>
  static void copy_words(char* to, Offset from, std::size_t bytes, WordAt word_at);
  /// Stores to persistent memory.
  void put(Offset at, Word value, Word mask = kWholeWord) {
    if (apart_) [[unlikely]]
      return put_apart(at, value, mask);
    writes_.put(at, value, mask);
  }
  /// The object that `at` lies in, if it is being initialised in place; else null.
  InPlace* in_place_at(Offset at);
  /// Writes whole lines in place, if `at` starts one. Returns how many bytes of `from` it took, or
  /// 0.
  std::size_t stream_in_place(Offset at, const char* from, std::size_t bytes);
  /// The same for a long run of words that is to be kept apart.
  std::size_t write_in_bulk(Offset at, const char* from, std::size_t bytes);
  /// Where a word that is read stands.
  enum class Source : std::uint8_t {
    kHome,
    kOwned,  // this transaction has the orec, or may have written it
    kApart,  // committed_word() knows
  };
  /// What `take(source)` returns, as it was at one moment of the snapshot.
  template <class Take>
  Word validated(Offset at, Take take);
  /// read() when other threads may be there, or when the transaction may have written what is read.
  void read_by_lines(void* to, const void* from, std::size_t bytes);
  Word word_from(Source source, Offset at) {
    switch (source) {
      case Source::kOwned: return owned_word(at);
      case Source::kApart: return committed_word(at);
      default: return load_word(home(at));
    }
  }
  /// For when others may be there, or the words stand elsewhere than at home and in the write set.
  Word load_among_others(Offset at);
  [[gnu::noinline]] Word load_in_doubt(Offset at);
  void let_stores_be_plain() {
    plain_span_ = world_->heap_end->load(std::memory_order_relaxed) - world_->heap_begin;
  }
  /// Stores a whole word, not as in a plain transaction.
  void store_word(Offset at, Word value);
  /// For a store of a whole word: takes its ownership record, or sees to it that the commit does.
  void lock_for_word(Offset at) {
    if (!lazy_ || apart_) return lock(at);
    refuse_unless_storable(at);
    __builtin_prefetch(home(at), 1);
    __builtin_prefetch(&world_->locks->of(at), 1);
  }
  void lock(Offset at) {
    __builtin_prefetch(home(at), 1);  // the commit does
    own(at);
  }
  /// Whether a transaction may store at `at`: in the heap, the parts, volatile memory, and (for the
  /// pool itself) the root table.
  bool storable(Offset at) const {
    return inside(at, kWordBytes, world_->heap_begin,
                  world_->heap_end->load(std::memory_order_relaxed)) ||
           storable_elsewhere(at);
  }
  bool storable_elsewhere(Offset at) const;
  void refuse_unless_storable(Offset at) const {
    require_use();
    if (read_only_ || !storable(at)) [[unlikely]]
      refuse_store();
  }
  [[noreturn]] void refuse_store() const;
  void end() noexcept;
  /// Whether words, reads and locks are all that it has.
  bool is_simple() const {
    return may_be_plain_ && !apart_ && seen_ == 0 && allocated_.empty() && freed_.empty() &&
           volatile_writes_.empty();
  }
  void finish_all() noexcept;
  /// The rest of begin() for a transaction that announces itself, that may see what is not durable,
  /// or of another engine's type.
  void begin_specially();
  /// end() for a simple one that has released its locks and forgotten its reads.
  void end_plain() noexcept {
    writes_.clear();
    alone_ = among_others_ = plain_ = false;
    plain_span_ = 0;
    place_.end();
    active_.store(false, std::memory_order_release);
  }
  /// Whether everything read is still what it was.
  bool validate() const;
  HeapObject reserve_object(std::uint64_t bytes);
  void grow(std::uint64_t segments, std::uint64_t least);
  /// Returns the heap's answer about an object; a Conflict if the question came from a state that
  /// another commit has changed.
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
  bool stale() const {
    if (alone_) return !still_alone();
    return tracked_ ? !validate() : world_->clock->now() != snapshot_;
  }
  bool still_alone() const { return place_.still_biased(*biased_locking_); }
  void extend();
  /// Returns when nobody has the ownership record any more; a Conflict if that takes long.
  [[gnu::noinline, gnu::cold]] void await_owner(const LockTable::Orec& orec);
  /// Called when the snapshot has moved.
  void limit_plain_reads();

  const TxWorld* world_;
  std::byte* const base_;                // the world's, as the next: nearer
  mutable std::uint64_t links_end_;      // in words: links may lead so far; it may have grown
  BiasedLocking* const biased_locking_;  // null: none
  // Changed by the transaction's thread, and looked at by one that needs a slot.
  Shared<bool> active_{false};
  Shared<bool> has_slot_;
  bool read_only_ = false;
  bool tracked_ = true;
  bool doomed_ = false;
  bool alone_ = false;         // neither locks nor reads are kept
  bool among_others_ = false;  // running, and not alone
  bool lazy_ = false;          // words that are written may be owned by nobody until the commit
  bool plain_ = false;         // alone, and a word is in the write set or at home
  bool may_be_plain_;
  bool apart_ = false;         // stores are put_apart()
  bool stored_apart_ = false;  // there is something to commit besides the write set
  bool always_apart_ = false;
  bool looks_apart_ = false;
  bool begins_specially_ = false;
  /// Words that are stored in so many bytes from the heap's begin on go to the write set, and need
  /// no other question. 0: none do.
  std::uint64_t plain_span_ = 0;
  const std::uintptr_t plain_begin_;
  std::uint64_t snapshot_ = 0;
  /// What was committed up to this is home and durable: the snapshot, if everything is.
  std::uint64_t plain_until_ = 0;
  const DurableHorizon* horizon_ = nullptr;  // null: everything that is visible is durable
  std::uint64_t seen_ = 0;                   // beyond it
  GrowingArray<Read> reads_;
  GrowingArray<Lock> locks_;
  WriteSet writes_;
  WriteSet volatile_writes_;
  Primitives* home_stores_ = nullptr;  // null: nothing is initialised in place
  std::size_t in_place_bytes_ = 0;
  GrowingArray<InPlace> in_place_;
  std::size_t in_place_from_ = 0;  // objects before this one are buffered or logged like all others
  BulkWrites* const bulk_;         // its own
  std::size_t bulk_bytes_ = ~std::size_t{0};
  bool has_bulk_ = false;
  bool announcing_ = false;
  std::uint64_t last_timestamp_ = 0;
  std::atomic<std::uint64_t> announced_{~std::uint64_t{0}};
  SetByOffset<HeapObject> allocated_;
  std::size_t callers_ = 0;  // of allocated_, the first ones
  SetByOffset<HeapObject> freed_;
  HeapCache* const heap_cache_;  // its own
  std::size_t slot_;             // if has_slot_
  const void* thread_;           // whose it is
  BiasedLocking::Place place_;
};

template <class F>
std::invoke_result_t<F&, std::string_view> Tx::view(const void* from, std::size_t bytes, F&& f) {
  check(from, bytes);
  if (!plain_ || !writes_.empty()) {
    std::string copy(bytes, '\0');
    read_by_lines(copy.data(), from, bytes);
    return f(std::string_view(copy));
  }
  const BiasedLocking::Claim claim(place_, *biased_locking_);
  if (!claim) conflict();
  return f(std::string_view(static_cast<const char*>(from), bytes));
}

template <class Take>
inline Word Tx::validated(Offset at, Take take) {
  require_use();
  if (alone_) {
    const Word value = take(writes_.empty() ? Source::kHome : Source::kOwned);
    if (!still_alone()) [[unlikely]]
      conflict();
    return value;
  }
  LockTable::Orec& orec = world_->locks->of(at);
  for (;;) {
    // Acquire, then the word (acquire), then the orec again: an unchanged, unlocked orec brackets
    // the read.
    const std::uint64_t before = orec.load(std::memory_order_acquire);
    if (LockTable::locked(before)) [[unlikely]] {
      if (before == me()) return take(Source::kOwned);
      await_owner(orec);
      continue;
    }
    Word value = take(lazy_ && !writes_.empty() ? Source::kOwned : Source::kHome);
    if (LockTable::version(before) > plain_until_) [[unlikely]] {
      if (LockTable::version(before) > snapshot_) {
        extend();
        continue;
      }
      if (looks_apart_) value = take(Source::kApart);
      if (horizon_ != nullptr) seen_ = std::max(seen_, LockTable::version(before));
    }
    if (orec.load(std::memory_order_relaxed) != before) [[unlikely]]
      continue;
    // An untracked reader needs no read set: every read was valid at the one snapshot, which
    // extend() never moves.
    if (tracked_ && (reads_.empty() || reads_.back().orec != &orec))
      reads_.push_back({&orec, before});
    return value;
  }
}

inline void Tx::own(Offset at) {
  if (alone_) return refuse_unless_storable(at);
  LockTable::Orec& orec = world_->locks->of(at);
  for (;;) {
    std::uint64_t before = orec.load(std::memory_order_acquire);
    if (LockTable::locked(before)) {
      if (before == me()) return;
      await_owner(orec);
      continue;
    }
    refuse_unless_storable(at);
    if (LockTable::version(before) > snapshot_) {
      extend();
      continue;
    }
    // What it reads there from now on, it reads as its own.
    if (horizon_ != nullptr && LockTable::version(before) > plain_until_)
      seen_ = std::max(seen_, LockTable::version(before));
    // Acquire: pairs with the release of the last owner, whose home stores must be seen by
    //          owned_word().
    locks_.push_back({&orec, before});  // first: out of memory later, the lock would be for ever
    if (orec.compare_exchange_weak(before, me(), std::memory_order_acq_rel,
                                   std::memory_order_relaxed))
      return;
    locks_.pop_back();
  }
}

inline Word Tx::load_piece(Offset offset, std::size_t bytes) {
  const Offset at = round_down(offset, kWordBytes);
  return validated(at, [&](Source source) {
    const std::size_t shift = 8 * (offset - at);
    const Word here = source == Source::kApart ? (committed_word(at) >> shift) & byte_mask(0, bytes)
                                               : load_exact(base_ + offset, bytes);
    const MaskedWrite* mine = source == Source::kOwned ? set_of(at).find(at) : nullptr;
    if (mine == nullptr) return here;
    const Word mask = (mine->mask >> shift) & byte_mask(0, bytes);
    const Word value = at < world_->range_bytes ? own_value(*mine) : mine->value;
    return (here & ~mask) | ((value >> shift) & mask);
  });
}

inline void Tx::store_piece(Offset offset, Word value, std::size_t bytes) {
  const Offset at = round_down(offset, kWordBytes);
  const std::size_t skip = offset - at;
  lock(at);
  const Word shifted = value << (8 * skip);
  const Word mask = byte_mask(skip, bytes);
  if (at < world_->range_bytes) {
    put(at, shifted, mask);
  } else {
    volatile_writes_.put(at, shifted, mask);
  }
}

static_assert(Transaction<Tx>);

}  // namespace perdure
