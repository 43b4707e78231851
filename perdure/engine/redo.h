// SPDX-License-Identifier: BSD-3-Clause
// Redo: durable memory transactions by write-ahead redo logging.
// Paper:      Mnemosyne (ASPLOS 2011) §5. Its synchronous truncation is Truncation::kEachCommit,
//             its asynchronous one kBackground.
// Deviations: (1) The default on memory, kNextCommit, is *retention*: the home words of a commit
//             are forced by the thread's next commit, under the fence that its record needs anyway,
//             and the log is emptied only when it is full, by one persisted timestamp for all
//             threads' logs. It saves the paper's two fences for home words and truncation.
//             (Flushing at the end of the commit itself would be no cheaper to wait for: the next
//             locked instruction, a lock or a timestamp, waits for flushes under way like a fence.)
//             (2) An aborted transaction writes nothing to the log: records are appended at commit.
//             (3) The default on files, kBackground, writes home words when the log is half full:
//             forcing random pages at each commit would cost a second device write. Where pages
//             take more writing than records, the log doubles, as far as recovery may take time.
//             (4) On files all threads append to one log, under a latch: threads that wait for the
//             device together then share one write of one range, and the log keeps the order of
//             commits, so that a commit need not be durable before another builds on it
//             (engine/durable_horizon.h). The latch costs nothing compared with the device.
//
// Over a private mapping of memory (domain/in_private_pages.h; Placement::kPrivatePages) step 5
// stores in private pages, and a truncation, by default in the background, copies the words home
// from the records. This is SoftWrAP (MSST 2015) with the MMU for its alias table.
//
// An engine that differs in nothing but its log passes another `Log`; papers/ has such engines.
//
// The commit of a transaction that wrote anything:
//   0. force in place  (on memory, if it made large objects) what it stored into them is flushed
//                      and waited for; crash here ⇒ they are free space. The record names them, so
//                      that recovery does not replay what older records say of that space
//   1. make room       a full log is emptied first, while no timestamp is held; on files the commit
//                      then takes the log latch
//   2. draw timestamp  from here on a truncation waits for this commit
//   3. validate        reads still hold, or Conflict
//   4. append, fence   crash before the fence ⇒ the record is torn, nothing happened
//                      crash after it ⇒ recovery replays it: the durability point, the only wait
//                      on files: append, post, release the log latch, and wait later: home words
//                      that reach the device find the record there, because it was posted before
//                      (domain/sync.h), and so do records that build on this one
//   5. store home      their write-back is left to the next commit or to a truncation;
//                      kEachCommit: flush them and fence; crash here ⇒ replayed; drop the record;
//                      crash here ⇒ either
//   6. release locks   others see it only now; what they then return waits until it is durable
//                      (engine/durable_horizon.h)
//   7. wait            on files: until the log is durable up to the record; relaxed: not at all.
//                      Nobody waits for this thread meanwhile
//   8. give back       freed space, when no truncation waits for this commit any more
// From 2 to 6 nothing can fail but the storage (and memory at 4), and that poisons the pool.
#pragma once

#include <mutex>
#include <thread>

#include "perdure/base/waiting.h"
#include "perdure/engine/commit_window.h"
#include "perdure/engine/engine_on.h"
#include "perdure/engine/spill.h"
#include "perdure/engine/tx_record.h"
#include "perdure/engine/worker.h"

namespace perdure {

/// The part of Redo that depends on the log of a slot. Here each record is one append of one log,
/// which waits once for it.
struct RecordCommits {
  static constexpr std::string_view kName = "redo";
  static constexpr bool kSideLogs = false;
  /// Whether records may stand in line logs on memory.
  static constexpr bool kLines = true;
  /// Whether the records of all threads stand in one log on files.
  static constexpr bool kSharedOnFiles = true;
  static constexpr Truncation kOnMemory = Truncation::kNextCommit;
  static constexpr Truncation kOnFiles = Truncation::kBackground;

  /// False: the storage failed.
  template <Domain D>
  static bool append(LogSlot& slot, D& domain, std::span<const Word> record, std::uint32_t crc) {
    return slot.log.append(domain, record, crc);
  }
  /// Whether nothing that was committed is in the ring, or everything is retired.
  static bool is_empty(const LogSlot& slot) { return slot.log->is_empty(); }
  /// What was committed from `start` on may have home words that are not durable; what came before
  /// has none.
  static void open_from(LogSlot& slot, std::uint64_t start) { slot.unfenced_from = start; }
  /// Whether a log that may hold `usable(count)` of its `count` words is half full.
  template <class Usable>
  static bool is_half_full(const LogSlot& slot, Usable usable) {
    const std::uint64_t count = slot.log->ring().count;
    return slot.log->free_words() < count - usable(count) + usable(count) / 2;
  }
};

template <Domain D, class Log = RecordCommits>
class Redo : public EngineOn<D> {
  using Base = EngineOn<D>;

 protected:
  using Base::domain_, Base::fail, Base::parts_, Base::poison, Base::refuse_if_poisoned;
  /// What is stored home stands in private pages, and the records are brought home from there.
  static constexpr bool kPrivatePages = kPrivatePagesOverMemory<D>;
  /// Whether records can be built in their ring. Files keep the torn-bit log, whose words may come
  /// in any order; private pages take a record's words home from it.
  static constexpr bool kInOnePass = Log::kLines && !kPrivatePages;

 public:
  using Base::poisoned;

  Redo(const EngineParts& parts, D domain)
      : Base(parts, std::move(domain)),
        shared_(Log::kSharedOnFiles && parts.region->domain() == DomainKind::kSync),
        horizon_(durable_mark(domain_)),
        ring_words_(parts.region->geometry().ring_bytes / kWordBytes),
        usable_part_(usable_part(parts)),
        mode_(resolved(Truncation::kAuto)) {}

  std::string_view name() const override { return Log::kName; }
  Result<RecoveryReport> recover() override {
    // They cannot stay where commits drop their own record with all before it, or where programs
    // write words past the records.
    const bool records_stay =
        shared_ && !forces_home() && parts_.region->range_bytes() == ~std::uint64_t{0};
    return Base::recover_into(layout(),
                              records_stay ? LogArea::Records::kKeep : LogArea::Records::kRetire);
  }

  std::unique_ptr<Tx> make_tx(const TxWorld& world, std::size_t slot_index) override {
    auto tx = Base::make_tx(world, slot_index);
    initialise_in_place(*tx);
    if (shared_) tx->heed(horizon_);
    // On memory what is shorter is committed in one pass.
    const std::size_t least = shared_ ? kPageBytes : kMostInOnePass * kWordBytes;
    tx->write_in_bulk_from(parts_.tuning.bulk_bytes != 0 ? parts_.tuning.bulk_bytes : least);
    return tx;
  }

  /// What an engine keeps beside a log may be of transactions that have not committed.
  bool lends_slots() const override { return !Log::kSideLogs; }

  void commit(Tx& tx, std::size_t slot_index, Durability durability) override {
    refuse_if_poisoned();
    if constexpr (kInOnePass) {
      if (commit_in_one_pass(tx, slot_index)) return;
    }
    if constexpr (PrivatePagesDomain<D>) make_pages_few();
    commit_buffered(tx, slot_index, durability);
    if constexpr (PrivatePagesDomain<D>) truncate_soon(slot_index);
  }

  /// The commit told above.
  void commit_buffered(Tx& tx, std::size_t slot_index, Durability durability) {
    force_in_place(tx);  // 0
    Spill<Redo> spill(*this);
    const RecordLog& log = log_slot(slot_index).log;
    // (Where threads share a log, its length may be changing.)
    const std::uint64_t limit = usable(shared_ ? ring_words_ : log->ring().count) / 2;
    const bool leave_out_bulk = tx.has_bulk() && log.log_words(most_record_words(tx)) > limit;
    std::span<Word> record = encode(tx, leave_out_bulk);
    spill.write_if_large(tx, log, limit, record, leave_out_bulk);
    // What a thread alone commits nobody waits to see, and nobody would see its version.
    const bool waits_late = shared_ && durability == Durability::kStrict && !forces_home() &&
                            !tx.alone() && !spill.used();
    const bool waits =
        !waits_late && (durability == Durability::kStrict || !shared_ || forces_home());
    if (durability == Durability::kRelaxed && !waits) start_flusher();

    LogLatch latch = make_room(slot_index, record.size(), most_lines(tx));  // 1
    {
      const CommitWindow window(*parts_.clock, parts_.logs->slot(slot_index));  // 2
      const std::uint64_t timestamp = window.timestamp();
      tx.validate_at(timestamp);                            // 3
      append(slot_index, latch, timestamp, record, waits);  // 4
      if (waits_late) horizon_.strict_commit(timestamp);
      store_home(slot_index, tx);  // 5
      tx.make_visible(timestamp);  // 6
    }
    if (waits_late) {
      tx.let_go();       // 8, as nobody is to wait for 7
      await_commit(tx);  // 7
    }
    tx.finish();  // 8
    if (durability == Durability::kRelaxed && !waits) flusher_.nudge();
    if (spill.used()) spill.truncate_logs();
  }

  /// The same on memory, for what most transactions are: the record is built in the ring, and of
  /// what several threads share only the clock is asked. False: nothing has happened; the record
  /// needs something that only commit_buffered() sees to.
  bool commit_in_one_pass(Tx& tx, std::size_t slot_index)
    requires(Log::kLines)
  {
    const std::span<const MaskedWrite> writes(tx.writes().data(), tx.writes().size());
    LogSlot& slot = parts_.logs->slot(slot_index);
    LineLog* const log = slot.log.lines();
    const std::uint64_t most = LineLog::log_words(1 + record::most_words(writes.size()));
    if (log == nullptr || !has_crc_step_ || writes.size() > kMostInOnePass ||
        !tx.in_place().empty() || tx.has_bulk() || !slot.ready.load(std::memory_order_acquire) ||
        !has_room(*log, most))
      return false;
    const bool plain = tx.plain();
    GrowingArray<Offset>& lines = slot.unflushed_lines;
    lines.reserve(writes.size());
    {
      const CommitWindow window(*parts_.clock, slot);       // 2
      if (mode() != Truncation::kNextCommit) return false;  // relaxed: as told in set_truncation()
      if (!plain) tx.validate_at(window.timestamp());       // 3
      const std::uint64_t start = log->tail();
      const bool was_empty = log->is_empty();
      LineLog::Writer<D> record(domain_, *log, Site::kLogRecord);  // 4
      std::uint64_t crc = crc32c_step(~std::uint32_t{0}, window.timestamp());
      record::for_each_entry_word(writes, [&](Word word) __attribute__((always_inline)) {
        crc = crc32c_step(crc, word);
        record.put(word);
      });
      const auto checksum = ~static_cast<std::uint32_t>(crc);
      record.finish(record::header(window.timestamp(), checksum), checksum);
      flush_last_homes(slot, was_empty);
      // Orders: as in append().
      if (!log->make_durable(domain_)) fail();
      Log::open_from(slot, start);
      std::byte* const base = parts_.region->base();  // 5
      Offset* line = lines.data();
      Offset last = ~Offset{0};
      for (const MaskedWrite& write : writes) {
        LogArea::apply(domain_, reinterpret_cast<Word*>(base + write.offset), write);
        const Offset here = round_down(write.offset, kLineBytes);
        *line = here;
        line += here != last ? 1 : 0;
        last = here;
      }
      lines.assume_size(static_cast<std::size_t>(line - lines.data()));
      if (!plain) tx.make_visible(window.timestamp());  // 6
    }
    tx.finish();  // 8
    return true;
  }

  void publish(std::span<const MaskedWrite> writes, std::size_t slot_index) override {
    refuse_if_poisoned();
    // Its own: this may run while a commit's record is being spilled.
    std::vector<Word> words(record::kStatementWords + 1, 0);
    record::encode_entries(writes, words);
    const std::span<Word> record = std::span(words).subspan(record::kStatementWords);
    LogLatch latch = make_room(slot_index, record.size(), writes.size());
    const CommitWindow window(*parts_.clock, parts_.logs->slot(slot_index));
    append(slot_index, latch, window.timestamp(), record, true);
    store_home(slot_index, writes);
  }

  void await(std::uint64_t seen) override {
    if constexpr (PostingDomain<D>) {
      if (shared_ && !domain_.wait_for(horizon_.wait_target(seen), Site::kLogSeen)) fail();
    }
  }

  void sync() override {
    refuse_if_poisoned();
    if (shared_ && !domain_.fence(Site::kLogCommit)) fail();
  }

  void persist(std::uint64_t timestamp) override {
    if constexpr (PostingDomain<D>) {
      if (shared_ && !domain_.wait_for(timestamp, Site::kLogCommit)) fail();
    } else {
      sync();
    }
  }

  void truncate() override {
    const std::lock_guard lock(truncation_);
    truncate_all();
    if (shared_) suit_log_to_work();
  }

  void set_truncation(Truncation truncation) override {
    if (kPrivatePages && truncation != Truncation::kAuto && truncation != Truncation::kBackground &&
        truncation != Truncation::kWhenFull)
      refuse_truncation();
    const std::lock_guard one_at_a_time(mode_mutex_);
    consumer_.stop();
    consuming_.store(false, std::memory_order_relaxed);
    {
      const std::lock_guard lock(truncation_);
      refuse_if_poisoned();
      const CommitGate gate(*parts_.clock, *parts_.logs);
      empty_closed_logs();
      // Relaxed: commits read it after drawing a timestamp, and none can before the gate opens
      // again.
      mode_.store(resolved(truncation), std::memory_order_relaxed);
    }
    if (mode() == Truncation::kBackground) start_consumer();
  }
  Truncation truncation() const override { return mode(); }
  void close() override {
    {
      const std::lock_guard one_at_a_time(mode_mutex_);
      consumer_.stop();
    }
    flusher_.stop();
    if (parts_.logs->is_unchanged()) return;
    const std::lock_guard lock(truncation_);
    truncate_all();
    PrimitivesOf<D> primitives(domain_);
    if (!parts_.logs->shorten(primitives)) fail();
  }
  PrivatePages* pages_for_open_words() override {
    if constexpr (kPrivatePages) {
      return &domain_.pages();
    } else {
      return nullptr;
    }
  }

 protected:
  friend class Spill<Redo>;
  RingLayout layout() const {
    if (Log::kSideLogs) return RingLayout::kSideLog;
    return kInOnePass && !shared_ && !parts_.tuning.tornbit_logs &&
                   parts_.region->superblock().version >= kLinesSinceVersion
               ? RingLayout::kLines
               : RingLayout::kTornbit;
  }
  void initialise_in_place(Tx& tx) {
    // On files a new object's pages would be a write of their own, beside the log's, that each
    // commit has to wait for. In a private mapping they would have to go home past the records.
    if (!kPrivatePages && parts_.region->domain() != DomainKind::kSync &&
        parts_.region->superblock().version >= kInPlaceSinceVersion)
      tx.initialise_through(this, parts_.tuning.in_place_bytes);
  }

  void forget(Offset, std::uint64_t) {}  // what was written there stands nowhere else
  /// Gives back the private pages, if there are any, of words that are durable at home.
  void give_back_pages([[maybe_unused]] const Word* from, [[maybe_unused]] std::size_t words) {
    if constexpr (PrivatePagesDomain<D>) {
      const std::lock_guard lock(truncation_);
      domain_.pages().give_back_within(from, words * kWordBytes);
    }
  }

  /// The log latch: the right to append to the log that all threads share. A commit holds it from
  /// making room on, so that nobody else takes that room; its holder never waits for a truncation.
  /// Empty where each thread has a log of its own.
  using LogLatch = std::unique_lock<Mutex>;
  /// The slot whose log the thread of `slot_index` appends to.
  LogSlot& log_slot(std::size_t slot_index) { return parts_.logs->slot(shared_ ? 0 : slot_index); }

  /// Step 0.
  void force_in_place(const Tx& tx) {
    bool any = false;
    for (const Tx::InPlace& object : tx.in_place()) {
      any = any || object.used();
      if (object.low < object.high)
        domain_.flush(parts_.region->template at<std::byte>(object.low), object.high - object.low,
                      Site::kInPlace);
    }
    // Orders: new objects before the record that leads to them. Torn bits vouch for the record
    //         only, and it cannot vouch for the objects, which later transactions change.
    if (any && !domain_.fence(Site::kInPlaceFence)) fail();
  }

  /// The record, with how far the log that all threads share is durable, once for each time that this
  /// changes: once for each write of the device at most.
  /// Requires: the log latch; room for kStatementWords before the record.
  std::span<Word> with_statement(std::span<Word> record) {
    if constexpr (PostingDomain<D>) {
      const std::uint64_t durable = shared_ ? horizon_.durable() : 0;
      if (durable <= stated_durable_) return record;
      // The place of a spilled record stands in a record of its own.
      if (record::entry_kind(record[1]) == record::Kind::kSpill) return record;
      stated_durable_ = durable;
      Word* const begin = record.data() - record::kStatementWords;
      record::state_durable(parts_.region->superblock().root_offset, durable, begin + 1);
      return {begin, record.size() + record::kStatementWords};
    } else {
      return record;
    }
  }

  /// Errors: throws Exception kPoisoned when the storage failed, or memory: whether the record is
  /// durable is then not known, and decided at the next open.
  void append(std::size_t slot_index, LogLatch& latch, std::uint64_t timestamp,
              std::span<Word> record, bool waits) {
    try {
      LogSlot& mine = parts_.logs->slot(slot_index);
      LogSlot& slot = log_slot(slot_index);
      record = with_statement(record);
      const std::uint32_t crc = record::checksum(timestamp, {record.data() + 1, record.size() - 1});
      record[0] = record::header(timestamp, crc);
      const std::uint64_t start = slot.log->tail();
      const bool was_empty = Log::is_empty(slot);
      if (!Log::append(slot, domain_, record, crc)) fail();
      if constexpr (PostingDomain<D>) {
        if (shared_) {
          // Orders: this record before the home stores below, whoever writes their pages, and
          // before every record that builds on it. Without it a crash may keep those and lose this
          // one.
          if (!domain_.post(Site::kLogPost, timestamp)) fail();
          shared_half_full_.store(Log::is_half_full(slot, usable_of()), std::memory_order_relaxed);
          latch.unlock();
        }
      }
      // Without a wait no home words may be flushed: they would be posted with the next record, and
      // home pages that are posted may reach the device before a record that they need.
      if (!waits) return;
      flush_last_homes(mine, was_empty);
      // Orders: all log words before the home stores below. Without it a crash may keep a home
      // store whose record is torn, and recovery could not take it back. The same wait makes the
      // home words of the last commit durable.
      if (slot.log->make_durable(domain_)) {
        if (mode() == Truncation::kNextCommit && !shared_) Log::open_from(slot, start);
        mine.unflushed_lines.clear();
        return;
      }
    } catch (const std::bad_alloc&) {  // ends as a storage that failed
    }
    fail();
  }
  /// Step 7: waits for the record of what is visible already.
  void await_commit(Tx& tx) {
    if constexpr (PostingDomain<D>) {
      // Orders: the record before the acknowledgement. Without it a crash may take back what was
      //         acknowledged.
      if (domain_.wait_for(tx.last_timestamp(), Site::kLogCommit)) return;
      // Before this transaction ends: a thread alone would read what may be lost.
      tx.forbid_biased_locking();
      tx.finish();
      fail();
    }
  }
  static const Shared<std::uint64_t>& durable_mark(const D& domain) {
    if constexpr (PostingDomain<D>) {
      return domain.durable_mark();
    } else {
      static const Shared<std::uint64_t> all{~std::uint64_t{0}};  // visible means durable
      return all;
    }
  }
  /// Starts the write-back of the home words of the previous commit.
  /// `was_empty`: whether the slot's log was empty before this commit.
  void flush_last_homes(LogSlot& mine, bool was_empty) {
    if (!shared_ && was_empty) mine.unflushed_lines.clear();  // a truncation has written them back
    const std::byte* const base = parts_.region->base();
    for (const Offset line : mine.unflushed_lines)
      domain_.flush(base + line, kLineBytes, Site::kHome);
  }

  /// How many lines its words may stand in.
  static std::size_t most_lines(Tx& tx) {
    std::size_t most = tx.writes().size();
    if (tx.has_bulk()) {
      for (const BulkWrites::Run& run : tx.bulk().runs())
        most += run.count * kWordBytes / kLineBytes + 2;
    }
    return most;
  }
  void store_home(std::size_t slot_index, Tx& tx) {
    store_home_of(slot_index, [&](auto store) {
      for (const MaskedWrite& write : tx.writes()) store(write);
      if (!tx.has_bulk()) return;
      for (const BulkWrites::Run& run : tx.bulk().runs()) {
        for (std::uint64_t i = 0; i < run.count; ++i)
          store(MaskedWrite{run.begin + i * kWordBytes, run.words[i], kWholeWord});
      }
    });
  }
  void store_home(std::size_t slot_index, std::span<const MaskedWrite> writes) {
    store_home_of(slot_index, [&](auto store) {
      for (const MaskedWrite& write : writes) store(write);
    });
  }
  /// `for_each_write` calls what it is given for each word.
  template <class ForEachWrite>
  void store_home_of(std::size_t slot_index, ForEachWrite for_each_write) {
    LogSlot& mine = parts_.logs->slot(slot_index);
    const Truncation when = mode();
    const bool forced = forces_home();
    for_each_write([&](const MaskedWrite& write) {
      parts_.logs->apply(domain_, write);
      const Offset line = round_down(write.offset, kLineBytes);
      if (forced && (mine.unflushed_lines.empty() || mine.unflushed_lines.back() != line))
        mine.unflushed_lines.push_back(line);
    });
    if (when == Truncation::kEachCommit) force_home(slot_index);
    if (when == Truncation::kBackground) wake_consumer(log_slot(slot_index));
  }

  /// Step 5 of a synchronous commit.
  void force_home(std::size_t slot_index) {
    LogSlot& mine = parts_.logs->slot(slot_index);
    for (const Offset line : mine.unflushed_lines)
      domain_.flush(parts_.region->template at<std::byte>(line), kLineBytes, Site::kHome);
    mine.unflushed_lines.clear();
    // Orders: the home words before the head that drops their record; in the log, before whatever
    //         drops it there.
    if (!domain_.fence(Site::kTruncateHome)) fail();
    if (!Log::kSideLogs) return drop(slot_index);
    // Nothing is dropped yet: a record of the side log that stays would be replayed over what a
    // later one stored. Truncations need not look at either again.
    Log::open_from(mine, mine.log->tail());
  }
  void drop(std::size_t slot_index) {
    // From a shared log only while nobody else commits, whose record may lie before this one; else
    // it waits for the next, or for a full log. (This does not wait for the latch either: its
    // holder may wait for a closed gate, which waits for this commit.)
    const LogLatch latch = shared_ ? LogLatch(log_latch_, std::try_to_lock) : LogLatch();
    if (shared_ && !(latch && alone(slot_index))) return;
    PrimitivesOf<D> primitives(domain_);
    if (!parts_.logs->drop(primitives, shared_ ? 0 : slot_index)) fail();
  }
  bool alone(std::size_t slot_index) const {
    for (std::size_t i = 0; i < parts_.logs->slot_count(); ++i) {
      if (i != slot_index && parts_.logs->slot(i).committing()) return false;
    }
    return true;
  }

  /// Makes room in the log for a record of `payload` words, and in memory for what a commit that
  /// stores to `most_lines` lines needs once it must not fail any more. Returns the latch under which
  /// that room may be used.
  LogLatch make_room(std::size_t slot_index, std::size_t payload, std::size_t most_lines) {
    auto& lines = parts_.logs->slot(slot_index).unflushed_lines;
    lines.reserve(lines.size() + most_lines);
    LogSlot& slot = log_slot(slot_index);
    const std::uint64_t words = slot.log.log_words(payload + record::kStatementWords);
    for (;;) {
      LogLatch latch;
      if (shared_) latch = LogLatch(log_latch_);
      // Acquire: a thread that sees the log ready sees its head.
      if (slot.ready.load(std::memory_order_acquire) && has_room(*slot.log, words)) {
        slot.log->reserve_memory(words);
        return latch;
      }
      if (shared_) latch.unlock();
      empty_log(slot_index, words);
    }
  }
  /// How much of a log of `count` words or records may be in use.
  std::uint64_t usable(std::uint64_t count) const { return (count * usable_part_) >> kPartBits; }
  std::uint64_t unused(std::uint64_t count) const { return count - usable(count); }
  static constexpr unsigned kPartBits = 32;  // a ring has at most 2^27 words
  /// Of 2^kPartBits. Both logs of a ring are limited in proportion.
  static std::uint64_t usable_part(const EngineParts& parts) {
    const std::uint64_t ring = parts.region->geometry().ring_bytes;
    const std::uint64_t limit =
        parts.tuning.log_limit_bytes == 0 ? ring : parts.tuning.log_limit_bytes;
    return (std::min(limit, ring) << kPartBits) / ring;
  }
  bool has_room(const RingLog& log, std::uint64_t words) const {
    return log.free_words() >= words + unused(log.ring().count);
  }
  auto usable_of() const {
    return [this](std::uint64_t count) { return usable(count); };
  }
  /// Makes the log ready for use, and empties it if `words` do not fit.
  void empty_log(std::size_t slot_index, std::uint64_t words) {
    LogSlot& slot = log_slot(slot_index);
    const std::lock_guard lock(truncation_);
    refuse_if_poisoned();
    if (!slot.ready.load(std::memory_order_relaxed)) Base::ready(shared_ ? 0 : slot_index);
    if (!has_room(*slot.log, words)) empty_full_log();
  }

  // ---- truncation (engine/redo_truncation.h) ----------------------------------------------------

  /// Requires: truncation_ held, this thread not committing.
  void truncate_all() {
    refuse_if_poisoned();
    if (kPrivatePages) return consume();
    empty_logs();
  }
  /// Requires: as truncate_all().
  void empty_logs();
  /// Requires: a CommitGate.
  void empty_closed_logs();
  /// Requires: as truncate_all().
  void empty_full_log();
  /// Drops what has been committed by now from the logs while commits go on.
  /// Requires: truncation_ held, this thread not committing.
  void consume();
  void consume_up_to(std::uint64_t last_timestamp);
  void start_consumer();
  /// So many areas come to rest at once, which takes some milliseconds each where they are not cached.
  static constexpr std::size_t kRestedWhenIdle = 64;
  static constexpr std::size_t kRestedWhenBusy = 4;
  bool is_truncation_due();
  void wake_consumer(const LogSlot& slot);
  /// On files it says so of the moment of an append: then nobody changes the log's length.
  bool is_half_full(const LogSlot& slot) const {
    if (shared_) return shared_half_full_.load(std::memory_order_relaxed);
    return Log::is_half_full(slot, usable_of());
  }
  /// Doubles the log that all threads share if the truncation that has just been made shows that
  /// this would save writing.
  /// Requires: as truncate_all().
  void suit_log_to_work();
  /// With private pages, after a commit: has them written back in the background if there are many.
  void truncate_soon(std::size_t slot_index)
    requires PrivatePagesDomain<D>;

  // ---- relaxed durability -----------------------------------------------------------------------

  /// Starts the thread that makes what is posted durable within PoolOptions::relaxed_delay of a
  /// nudge.
  void start_flusher() {
    if (parts_.tuning.relaxed_delay.count() == 0) return;
    std::call_once(flusher_started_, [this] {
      flusher_.start(
          [this] {
            if (!domain_.fence(Site::kLogCommit)) poison();
            return !poisoned();
          },
          parts_.tuning.relaxed_delay, std::chrono::nanoseconds(0));
    });
  }

  [[noreturn]] static void refuse_truncation() {
    throw Exception(
        Code::kMisuse,
        "private pages over memory are written back in the background or when there are "
        "many; no other truncation than background and when-full");
  }
  /// Writes private pages back and gives them back, before a commit that may need more of them.
  void make_pages_few()
    requires PrivatePagesDomain<D>
  {
    if (!domain_.pages().are_too_many()) return;
    const std::lock_guard lock(truncation_);
    if (!domain_.pages().are_too_many()) return;  // another thread has done it
    refuse_if_poisoned();
    empty_full_log();
  }
  bool forces_home() const {
    return mode() == Truncation::kNextCommit || mode() == Truncation::kEachCommit;
  }
  Truncation mode() const { return mode_.load(std::memory_order_relaxed); }
  Truncation resolved(Truncation truncation) const {
    if (truncation != Truncation::kAuto) return truncation;
    if (kPrivatePages) return Truncation::kBackground;
    return parts_.region->domain() == DomainKind::kSync ? Log::kOnFiles : Log::kOnMemory;
  }

  /// Words of a commit in one pass at most. Beyond, lines past the cache cost less.
  static constexpr std::size_t kMostInOnePass = 1024;

  const bool shared_;  // one log for all threads
  DurableHorizon horizon_;
  std::uint64_t stated_durable_ = 0;  // by the last record that does; under the log latch
  const bool has_crc_step_ = has_crc32c_step();
  Mutex log_latch_;  // the right to append to it
  Shared<bool> shared_half_full_{false};
  bool may_double_ = true;           // until there was no space for it; under truncation_
  const std::uint64_t ring_words_;   // of a slot
  const std::uint64_t usable_part_;  // of each log
  std::atomic<Truncation> mode_;
  std::mutex truncation_;
  std::mutex mode_mutex_;
  std::once_flag flusher_started_;
  std::uint64_t consumed_ = 0;          // by the consumer alone
  std::atomic<bool> consuming_{false};  // whether it was started; changed under mode_mutex_
  Worker consumer_;                     // last, as the next: they use all of the above
  Worker flusher_;
};

}  // namespace perdure

#include "perdure/engine/redo_truncation.h"
