// Redo: durable memory transactions by write-ahead redo logging.
// Paper:      Mnemosyne (ASPLOS 2011) §5. Its synchronous truncation is Truncation::kEachCommit, its asynchronous one
//             kBackground.
// Deviations: (1) The default on memory, kNextCommit, is *retention*: the home words of a commit are forced by the
//             thread's next commit, under the fence that its record needs anyway, and the log is emptied only when it is
//             full, by one persisted stamp for all threads' logs. It saves the paper's two fences for home words and
//             truncation. (Flushing at the end of the commit itself would be no cheaper to wait for: the next locked
//             instruction, a lock or a stamp, waits for flushes under way like a fence.)
//             (2) An aborted transaction writes nothing to the log: records are appended at commit.
//             (3) The default on files, kWhenFull, writes home words when the log is emptied: forcing random pages at
//             each commit would cost a second device write.
//
// A second column, `kInLog`, is execution in log: Blurred Persistence (TOS 2016) §3.2. A transaction's values stand in its
// XilLog from the store on, and step 1 has only the heap's to add; 4 closes them by a commit record; 5 reads them back. With
// kEachCommit it is the paper's BP(XIL); with kWhenFull or kBackground, its volatile checkpoint with bulk persistence,
// BPPM. (BP(VCBP) is the other column with the same truncation.) Deviations: (1) home words are forced at each commit with
// kEachCommit, but records retired when the ring is full: an XilLog has no head on the media. (2) What an open transaction
// needs committed at once, and a transaction that is too large for half its ring, or was rolled back in part, goes to the
// TornbitLog beside it.
//
// The commit of a transaction that wrote anything:
//   1. make room       a full log is emptied first, while no stamp is held
//   2. draw a stamp    from here on a truncation waits for this commit
//   3. validate        reads still hold, or Conflict
//   4. append, fence   cut before the fence ⇒ the record is torn, nothing happened
//                      cut after it ⇒ recovery replays it: the durability point, the only wait
//   5. store home      their write-back is left to the next commit or to a truncation;
//                      kEachCommit: flush them and fence; cut here ⇒ replayed; drop the record; cut here ⇒ either
//   6. release locks   others see it only now, so nobody acts on what a cut could take back
//   7. give back       freed space, when no truncation waits for this commit any more
// From 2 to 6 nothing can fail but the storage (and memory at 4), and that poisons the pool.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "perdure/base/word_buffer.h"
#include "perdure/engine/engine.h"

namespace perdure {

template <Domain D, RingLayout kLayout>
class Redo final : public Engine {
  static constexpr bool kInLog = kLayout == RingLayout::kInLog;

 public:
  Redo(const EngineParts& parts, D domain)
      : parts_(parts), domain_(std::move(domain)), mode_(resolved(Truncation::kAuto)) {
    if (kInLog) {
      for (std::size_t i = 0; i < parts_.logs->slot_count(); ++i)
        executing_.push_back(std::make_unique<Executing>(*this, i));
    }
  }
  ~Redo() override { stop_consumer(); }

  /// What another engine left is recovered from the logs that it wrote; then, while all are empty, the rings become ours.
  Result<RecoveryReport> recover() override {
    auto report = parts_.logs->recover(domain_);
    if (report && !parts_.logs->lay_out(domain_, kLayout))
      return Error{Code::kIo, parts_.region->path() +
                                  ": a sync failed during recovery; nothing was lost, reopen"};
    return report;
  }

  void attach(Tx& tx, std::size_t slot_index) override {
    if (kInLog) tx.execute_in(executing_[slot_index].get());
  }

  void commit(Tx& tx, std::size_t slot_index) override {
    refuse_if_poisoned();
    LogSlot& slot = parts_.logs->slot(slot_index);
    if (kInLog && tx.in_log()) {
      if (append_heap_writes(tx, slot_index)) return commit_in_log(tx, slot_index);
      tx.go_buffered();
    }
    std::span<Word> record = encode(tx.writes());
    Spill spill(*this);
    spill.write_if_large(tx, slot.log, record);

    make_room(slot_index, record.size(), tx.writes().size());  // 1
    {
      const Window window(*this, slot);  // 2
      const std::uint64_t stamp = window.stamp();
      if (stamp != tx.snapshot() + 1 && !tx.validate()) throw Conflict{};  // 3
      append(slot, stamp, record);                                         // 4
      store_home(slot_index, tx.writes());                                 // 5
      tx.make_visible(stamp);                                              // 6
    }
    tx.finish();  // 7
    if (spill.used())
      truncate();  // the ring names the spilled entries: both go before their space is reused
  }

  void publish(std::span<const MaskedWrite> writes, std::size_t slot_index) override {
    refuse_if_poisoned();
    LogSlot& slot = parts_.logs->slot(slot_index);
    // Its own: this may run while a commit's record is being spilled.
    std::vector<Word> record(1, 0);
    record::encode_entries(writes, record);
    make_room(slot_index, record.size(), writes.size());
    const Window window(*this, slot);
    append(slot, window.stamp(), record);
    store_home(slot_index, writes);
  }

  void truncate() override {
    const std::lock_guard lock(truncation_);
    refuse_if_poisoned();
    empty_logs();
  }

  void set_truncation(Truncation truncation) override {
    const std::lock_guard one_at_a_time(mode_mutex_);
    stop_consumer();
    {
      const std::lock_guard lock(truncation_);
      refuse_if_poisoned();
      const Gate gate(*this);
      empty_closed_logs();
      // Relaxed: commits read it after drawing a stamp, and none can before the gate opens again.
      mode_.store(resolved(truncation), std::memory_order_relaxed);
    }
    if (mode() == Truncation::kBackground) start_consumer();
  }
  Truncation truncation() const override { return mode(); }

  Result<void> grow(std::uint64_t segments, Word fresh) override {
    auto grown = parts_.region->grow(domain_, segments, fresh);
    if (!grown && grown.error().code == Code::kPoisoned)
      poisoned_.store(true, std::memory_order_release);
    return grown;
  }

  bool poisoned() const override { return poisoned_.load(std::memory_order_acquire); }

  void store(Word* home, Word value) override { domain_.store(home, value); }
  void merge(Word* home, Word value, Word mask) override { domain_.merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) override {
    domain_.write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) override {
    domain_.flush(address, bytes, site);
  }
  bool fence(Site site) override {
    if (domain_.fence(site)) return true;
    poisoned_.store(true, std::memory_order_release);
    return false;
  }

 private:
  /// The record of `writes`, in memory of this thread; append() fills in its first word.
  static std::span<Word> encode(std::span<const MaskedWrite> writes) {
    thread_local WordBuffer buffer;
    Word* const begin = buffer.room(1 + record::most_words(writes.size()));
    return {begin, record::encode_entries(writes, begin + 1)};
  }

  /// A record larger than half a ring goes to space reserved in the heap; the ring then only names
  /// it.
  ///   1. reserve space; empty the logs    no older record may, at replay, write into that space
  ///   2. write the entries there; fence   cut here ⇒ nobody names them; never allocated
  ///   3. the ring record names them       from here on as any other record
  ///   4. empty the logs again             then the space may be reused
  class Spill {
   public:
    explicit Spill(Redo& engine) : engine_(&engine) {}
    ~Spill() {
      if (used()) engine_->parts_.heap->cancel(space_);
    }
    Spill(const Spill&) = delete;
    Spill& operator=(const Spill&) = delete;
    bool used() const { return space_ != 0; }

    void write_if_large(Tx& tx, const TornbitLog& log, std::span<Word>& record) {
      Redo& engine = *engine_;
      const std::size_t limit = log.ring().count / 2;
      if (TornbitLog::log_words(record.size()) <= limit) return;
      const std::span<const Word> entries(record.data() + 1, record.size() - 1);
      space_ = engine.parts_.heap->reserve(tx.heap_cache(), entries.size_bytes());
      tx.outdate(space_, entries.size_bytes());
      engine.truncate();
      Word* to = engine.parts_.region->word(space_);
      engine.domain_.write_through(to, entries.data(), entries.size(), Site::kSpillBody);
      // Orders: the entries before the record that names them.
      if (!engine.domain_.fence(Site::kSpillFence)) engine.fail();
      const Word crc = crc32c(entries.data(), entries.size_bytes());
      const Word count = entries.size();
      record[1] = record::entry_head(space_, 1, record::Kind::kSpill) | record::kLast;
      record[2] = count;
      record[3] = crc;
      record = record.first(4);
    }

   private:
    Redo* engine_;
    Offset space_ = 0;
  };

  /// The time of a commit in which a truncation waits for it: from drawing a stamp to having stored
  /// home. The slot announces itself before it draws: see CommitClock.
  class Window {
   public:
    Window(Redo& engine, LogSlot& slot) : slot_(&slot) {
      CommitClock& clock = *engine.parts_.clock;
      for (;;) {
        // Sequenced before the draw: a truncation that sees the draw sees the announcement.
        next_phase();
        const CommitClock::Draw draw = clock.draw();
        stamp_ = draw.stamp;
        if (!draw.gate_closed) return;
        leave();
        while (clock.gate_closed()) std::this_thread::yield();
      }
    }
    ~Window() { leave(); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    std::uint64_t stamp() const { return stamp_; }

   private:
    void leave() { next_phase(); }
    // Release: a truncation that sees the commit gone also sees its log tail and home stores. No locked addition, which
    // would wait for the home stores' cache misses: the phase is this thread's alone to change.
    void next_phase() {
      slot_->phase.store(slot_->phase.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
    }

    LogSlot* slot_;
    std::uint64_t stamp_ = 0;
  };

  /// Errors: throws Exception kPoisoned when the storage failed, or memory: whether the record is
  /// durable is then not known, and decided at the next open.
  void append(LogSlot& slot, std::uint64_t stamp, std::span<Word> record) {
    try {
      record[0] = record::header(stamp, {record.data() + 1, record.size() - 1});
      const std::uint64_t start = slot.log.tail();
      flush_last_homes(slot);
      slot.log.append(domain_, record);
      // Orders: all log words before the home stores below. Without it a cut may keep a home store
      // whose record is torn, and recovery could not take it back. The same wait makes the home
      // words of the last commit durable.
      if (slot.log.make_durable(domain_)) {
        if (mode() == Truncation::kNextCommit) {
          slot.unfenced_from = start;
          if (slot.xil) slot.xil_unfenced_from = slot.xil->begin();
        }
        slot.unflushed_lines.clear();
        return;
      }
    } catch (const std::bad_alloc&) {  // ends as a storage that failed
    }
    fail();
  }
  /// Starts the write-back of the home words of the commit before.
  void flush_last_homes(LogSlot& slot) {
    if (slot.empty()) slot.unflushed_lines.clear();  // a truncation saw to them
    for (const Offset line : slot.unflushed_lines)
      domain_.flush(parts_.region->at<std::byte>(line), kLineBytes, Site::kHome);
  }

  void store_home(std::size_t slot_index, std::span<const MaskedWrite> writes) {
    store_home_of(slot_index, [&](auto store) {
      for (const MaskedWrite& write : writes) store(write);
    });
  }
  /// `for_each_write` calls what it is given for each word.
  template <class ForEachWrite>
  void store_home_of(std::size_t slot_index, ForEachWrite for_each_write) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    const Truncation when = mode();
    const bool forced = when == Truncation::kNextCommit || when == Truncation::kEachCommit;
    for_each_write([&](const MaskedWrite& write) {
      parts_.logs->apply(domain_, write);
      const Offset line = round_down(write.offset, kLineBytes);
      if (forced && (slot.unflushed_lines.empty() || slot.unflushed_lines.back() != line))
        slot.unflushed_lines.push_back(line);
    });
    if (when == Truncation::kEachCommit) force_home(slot_index);
    if (when == Truncation::kBackground) wake_consumer(slot);
  }

  /// Step 5 of a synchronous commit.
  void force_home(std::size_t slot_index) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    for (const Offset line : slot.unflushed_lines)
      domain_.flush(parts_.region->at<std::byte>(line), kLineBytes, Site::kHome);
    slot.unflushed_lines.clear();
    // Orders: the home words before the head that drops their record; in the log, before whatever retires it.
    if (!domain_.fence(Site::kTruncateHome)) fail();
    if (!kInLog) {
      if (!parts_.logs->drop(domain_, slot_index)) fail();
      return;
    }
    // Nothing is dropped yet, not from the TornbitLog either: a record of the XilLog that stays would be replayed over what
    // a later one stored. Truncations need not look at either again.
    slot.unfenced_from = slot.log.tail();
    slot.xil_unfenced_from = slot.xil->begin();
  }

  // ---- execution in log -------------------------------------------------------------------------

  /// A slot's log, as its Tx sees it.
  class Executing final : public UncommittedLog {
   public:
    Executing(Redo& engine, std::size_t slot_index)
        : UncommittedLog(engine.parts_.logs->slot(slot_index)),
          engine_(&engine),
          slot_index_(slot_index) {}
    bool append(Offset at, Word value, std::uint8_t bytes, xil::Place& place) override {
      if (!has_room()) return false;
      place = slot_->xil->append(engine_->domain_, at, value, bytes);
      return true;
    }
    bool rewrite(xil::Place& place, Word value, std::uint8_t bytes) override {
      if (!has_room()) return false;  // the record may have to move
      place = slot_->xil->rewrite(engine_->domain_, place, value, bytes);
      return true;
    }
    void give_up() noexcept override {
      if (!slot_->xil) return;
      try {
        slot_->xil->abort(engine_->domain_);
      } catch (const std::bad_alloc&) {
        engine_->poisoned_.store(true,
                                 std::memory_order_release);  // nothing may follow half an abort
      }
    }

   private:
    bool has_room() {
      if (slot_->ready && slot_->xil->free_records() > 0) [[likely]]
        return true;
      return engine_->make_room_in_log(slot_index_, 1);
    }
    Redo* engine_;
    std::size_t slot_index_;
  };

  /// Step 1 in the log. False: there is no room for a transaction of this size.
  bool append_heap_writes(Tx& tx, std::size_t slot_index) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    std::uint64_t records = 0;
    for (const MaskedWrite& write : tx.heap_writes()) records += XilLog::records_for(write);
    slot.unflushed_lines.reserve(tx.words_in_log() + tx.heap_writes().size());
    if (!make_room_in_log(slot_index, records)) return false;
    for (const MaskedWrite& write : tx.heap_writes()) slot.xil->append(domain_, write);
    return true;
  }

  void commit_in_log(Tx& tx, std::size_t slot_index) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    {
      const Window window(*this, slot);  // 2
      const std::uint64_t stamp = window.stamp();
      if (stamp != tx.snapshot() + 1 && !tx.validate()) throw Conflict{};  // 3
      if (slot.xil->too_far_apart(stamp)) throw Conflict{};  // make_room_in_log() saw it coming
      close_in_log(slot, stamp);                             // 4
      store_home_of(slot_index, [&](auto store) { tx.for_each_in_log(store); });  // 5
      tx.make_visible(stamp);                                                     // 6
    }
    tx.finish();  // 7
  }

  /// append() for what is in the log already.
  void close_in_log(LogSlot& slot, std::uint64_t stamp) {
    try {
      const xil::Place start = slot.xil->begin();
      flush_last_homes(slot);
      slot.xil->commit(domain_, stamp);
      // Orders: as in append().
      if (slot.xil->make_durable(domain_)) {
        if (mode() == Truncation::kNextCommit) {
          slot.xil_unfenced_from = start;
          slot.unfenced_from = slot.log.tail();
        }
        slot.unflushed_lines.clear();
        return;
      }
    } catch (const std::bad_alloc&) {  // ends as a storage that failed
    }
    fail();
  }

  /// Room for `records` more of the open transaction, which keeps its locks meanwhile: a truncation waits for no lock.
  /// False: the transaction has, or then would have, more than half the ring.
  bool make_room_in_log(std::size_t slot_index, std::uint64_t records) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    const auto too_old = [&] {
      return slot.xil->too_far_apart(parts_.clock->now() + xil::kMaxAge / 2);
    };
    if (slot.ready && slot.xil->free_records() >= records && !too_old()) return true;
    const std::lock_guard lock(truncation_);
    refuse_if_poisoned();
    if (!slot.ready) ready(slot_index);
    if (slot.xil->open_records() + records > slot.xil->capacity_records() / 2) return false;
    if (slot.xil->free_records() < records || too_old()) empty_full_log();
    return true;
  }

  /// Room in the log for a record of `payload` words, and in memory for what a commit of `writes`
  /// words needs once it may not fail any more.
  void make_room(std::size_t slot_index, std::size_t payload, std::size_t writes) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    const std::uint64_t words = TornbitLog::log_words(payload);
    slot.log.reserve_memory(words);
    slot.unflushed_lines.reserve(writes);
    if (slot.ready && slot.log.free_words() >= words) return;
    const std::lock_guard lock(truncation_);
    refuse_if_poisoned();
    if (!slot.ready) ready(slot_index);
    if (slot.log.free_words() < words) empty_full_log();
  }

  /// Before the first append of a thread's log; not when the thread arrives: one that only reads needs no log.
  /// Requires: truncation_ held.
  void ready(std::size_t slot_index) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    const Ring& ring = slot.log.ring();
    const auto at =
        static_cast<Offset>(reinterpret_cast<std::byte*>(ring.words) - parts_.region->base());
    parts_.region->backing().allocate(at, parts_.region->geometry().ring_bytes).value();
    if (!parts_.logs->prepare(domain_, slot_index)) fail();
    slot.ready = true;
  }

  /// Requires: as empty_logs().
  void empty_full_log() {
    if (mode() == Truncation::kNextCommit || (kInLog && mode() == Truncation::kEachCommit)) {
      empty_logs();  // quick: little is left to write back
    } else {
      consume();  // this thread stalls, and does the work; the others go on
    }
  }

  /// While it lives no commit is under way.
  struct Gate {
    explicit Gate(Redo& engine) : clock(engine.parts_.clock) {
      clock->close_gate();
      LogArea& logs = *engine.parts_.logs;
      for (std::size_t i = 0; i < logs.slot_count(); ++i) {
        while (logs.slot(i).committing()) std::this_thread::yield();
      }
    }
    ~Gate() { clock->open_gate(); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    CommitClock* clock;
  };

  /// Requires: truncation_ held, this thread not committing.
  void empty_logs() {
    const Gate gate(*this);
    empty_closed_logs();
  }
  /// Requires: a Gate.
  void empty_closed_logs() {
    const Site site = mode() == Truncation::kNextCommit ? Site::kHome : Site::kHomeBulk;
    if (!parts_.logs->truncate(domain_, parts_.clock->now(), site)) fail();
  }

  // ---- asynchronous truncation ------------------------------------------------------------------

  /// Drops what has been committed by now from the logs while commits go on.
  /// Requires: truncation_ held, this thread not committing.
  void consume() {
    const std::uint64_t last_stamp = parts_.clock->now();
    LogArea& logs = *parts_.logs;
    // A commit with a stamp up to the last announced itself before it drew. Those under way now may be among them.
    for (std::size_t i = 0; i < logs.slot_count(); ++i) {
      const std::uint64_t phase = logs.slot(i).phase.load(std::memory_order_acquire);
      while ((phase & 1) != 0 && logs.slot(i).phase.load(std::memory_order_acquire) == phase)
        std::this_thread::yield();
    }
    if (!logs.consume(domain_, last_stamp)) fail();
  }

  void start_consumer() {
    stop_ = false;
    consumer_pid_ = ::getpid();
    consumer_ = std::thread([this] { run_consumer(); });
  }
  void stop_consumer() {
    if (!consumer_.joinable()) return;
    if (::getpid() != consumer_pid_) {
      // Forked: the thread is not there, but the condition knows it as a waiter, and its destructor would wait for it.
      (void)wake_.release();
      return consumer_.detach();
    }
    {
      const std::lock_guard lock(wake_mutex_);
      stop_ = true;
    }
    wake_->notify_one();
    consumer_.join();
  }
  void run_consumer() {
    std::uint64_t done = 0;
    std::unique_lock lock(wake_mutex_);
    while (!stop_) {
      if (parts_.clock->now() == done) {
        asleep_.store(true, std::memory_order_seq_cst);
        // The time limit is for logs that stay less than half full, and for a commit that looked at `asleep_` just
        // before: nobody waits for it, unless the log is full, and then the waiting thread helps itself.
        wake_->wait_for(lock, std::chrono::milliseconds(10));
        asleep_.store(false, std::memory_order_relaxed);
        if (parts_.clock->now() == done) continue;
      }
      lock.unlock();
      done = parts_.clock->now();
      try {
        const std::lock_guard truncation(truncation_);
        consume();
      } catch (const std::exception&) {
        // Out of memory or a storage that failed: the engine is poisoned, and the next commit says so.
        poisoned_.store(true, std::memory_order_release);
      }
      lock.lock();
      if (poisoned()) return;
    }
  }
  /// Only when the log is half full: waking a thread takes longer than most commits, and a consumer
  /// that comes later writes a line that many of them changed once. It comes by itself, too.
  void wake_consumer(const LogSlot& slot) {
    const bool half_full =
        slot.log.free_words() < slot.log.ring().count / 2 ||
        (slot.xil && slot.xil->free_records() < slot.xil->capacity_records() / 2);
    if (half_full && asleep_.load(std::memory_order_relaxed)) wake_->notify_one();
  }

  Truncation mode() const { return mode_.load(std::memory_order_relaxed); }
  Truncation resolved(Truncation truncation) const {
    if (truncation != Truncation::kAuto) return truncation;
    return parts_.region->domain() == DomainKind::kSync ? Truncation::kWhenFull
                                                        : Truncation::kNextCommit;
  }

  void refuse_if_poisoned() {
    if (poisoned()) fail();
  }
  [[noreturn]] void fail() {
    poisoned_.store(true, std::memory_order_release);
    throw Exception(
        Code::kPoisoned,
        parts_.region->path() +
            ": a write or sync to the storage failed, so nothing more is accepted; what "
            "was acknowledged is safe, fix the device and reopen the pool");
  }

  EngineParts parts_;
  [[no_unique_address]] D domain_;
  std::vector<std::unique_ptr<Executing>> executing_;  // in the log: by slot
  std::atomic<Truncation> mode_;
  std::mutex truncation_;
  std::atomic<bool> poisoned_{false};
  std::mutex mode_mutex_;
  std::thread consumer_;
  int consumer_pid_ = 0;
  std::mutex wake_mutex_;
  std::unique_ptr<std::condition_variable> wake_ = std::make_unique<std::condition_variable>();
  std::atomic<bool> asleep_{false};
  bool stop_ = false;  // under wake_mutex_
};

/// The yardsticks: no log. With `kFlush` home words are flushed and fenced once, at the end (a cut
/// in between leaves half a transaction); without it nothing is made durable at all.
template <Domain D, bool kFlush>
class Unlogged final : public Engine {
 public:
  Unlogged(const EngineParts& parts, D domain) : parts_(parts), domain_(std::move(domain)) {}
  Result<RecoveryReport> recover() override { return parts_.logs->recover(domain_); }
  void commit(Tx& tx, std::size_t) override {
    const std::uint64_t stamp = parts_.clock->draw().stamp;
    if (stamp != tx.snapshot() + 1 && !tx.validate()) throw Conflict{};
    publish(tx.writes(), 0);
    tx.make_visible(stamp);
    tx.finish();
  }
  void publish(std::span<const MaskedWrite> writes, std::size_t) override {
    for (const MaskedWrite& write : writes) {
      parts_.logs->apply(domain_, write);
      if (kFlush) domain_.flush(parts_.region->word(write.offset), kWordBytes, Site::kHome);
    }
    if (kFlush) (void)domain_.fence(Site::kLogCommit);  // a yardstick: it promises nothing
  }
  void truncate() override {}
  void set_truncation(Truncation) override {
    throw Exception(Code::kMisuse, "this engine keeps no logs that could be truncated");
  }
  Truncation truncation() const override { return Truncation::kAuto; }
  Result<void> grow(std::uint64_t segments, Word fresh) override {
    return parts_.region->grow(domain_, segments, fresh);
  }
  bool poisoned() const override { return false; }
  void store(Word* home, Word value) override { domain_.store(home, value); }
  void merge(Word* home, Word value, Word mask) override { domain_.merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) override {
    domain_.write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) override {
    domain_.flush(address, bytes, site);
  }
  bool fence(Site site) override { return domain_.fence(site); }

 private:
  EngineParts parts_;
  [[no_unique_address]] D domain_;
};

/// Stamps the engine of `kind` for one domain.
template <Domain D>
std::unique_ptr<Engine> make_engine(EngineKind kind, const EngineParts& parts, D domain) {
  switch (kind) {
    case EngineKind::kMnemosyne:
      return std::make_unique<Redo<D, RingLayout::kTornbit>>(parts, std::move(domain));
    case EngineKind::kBlurred:
      return std::make_unique<Redo<D, RingLayout::kInLog>>(parts, std::move(domain));
    case EngineKind::kNonatomic:
      return std::make_unique<Unlogged<D, true>>(parts, std::move(domain));
    case EngineKind::kVolatile:
      return std::make_unique<Unlogged<D, false>>(parts, std::move(domain));
  }
  return nullptr;
}

}  // namespace perdure
