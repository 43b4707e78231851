// SPDX-License-Identifier: BSD-3-Clause
// Tables: SoftWrAP with the paper's alias tables (private pages instead: perdure/engine/redo.h). What a
// transaction wrote goes to the log, and to a table in DRAM where everybody looks first; from there it goes home in the
// background, each word once for all transactions that wrote it.
// Paper:      SoftWrAP (MSST 2015) §III, §IV. The tables are the room perdure/alias/.
// Deviations: (1) Transactions are isolated by the ownership records that every engine has; the paper leaves that to the
//             caller. So a table never holds a word whose record is not durable.
//             (2) Words of the heap's bitmaps go home at the commit, as with Redo: the heap reads them there. They are
//             flushed with the table.
//
// The commit of a transaction that wrote anything:
//   1. make room       in the log: what the tables hold is forced home first, and the logs are pruned
//   2. draw a timestamp    from here on a change of tables waits for this commit
//   3. validate        reads still hold, or Conflict
//   4. append, fence   cut before the fence ⇒ the record is torn, nothing happened
//                      cut after it ⇒ recovery replays it: the durability point, the only wait
//   5. store           in the active table
//   6. release locks
//
// Retirement, by a thread of its own (Truncation::kBackground) or by the commit that finds the table full (kWhenFull):
//   1. change tables   while no commit is under way: everything up to this timestamp is in the table that is Full now
//   2. close           when the transactions that began before have ended
//   3. write home      every word of the table; fence         crash here ⇒ all records are replayed
//   4. prune the logs  retire the timestamp of 1, move the heads   crash here ⇒ either; what is replayed is home already
//   5. clear           when the transactions that began before 3 have ended
//
// A transaction for which the active table has no room (it is large, or an old reader keeps the other table from being used
// again) goes home at 5, and the tables forget its words; a record that its log cannot take is spilled (spill.h). So no
// transaction ever waits for another to end.
#pragma once

#include <chrono>
#include <mutex>

#include "papers/softwrap/table_sizes.h"
#include "papers/softwrap/tables_tx.h"
#include "perdure/alias/aliases.h"
#include "perdure/engine/commit_window.h"
#include "perdure/engine/engine_on.h"
#include "perdure/engine/spill.h"
#include "perdure/engine/tx_record.h"
#include "perdure/engine/worker.h"

namespace perdure::softwrap {

template <Domain D>
class Tables final : public EngineOn<D> {
  using Base = EngineOn<D>;
  using Base::domain_, Base::fail, Base::parts_, Base::poison, Base::refuse_if_poisoned;

 public:
  using Base::poisoned;

  /// Throws: std::bad_alloc.
  Tables(const EngineParts& parts, D domain, const TableSizes& sizes = {})
      : Base(parts, std::move(domain)), sizes_(sizes), aliases_(sizes.limits, sizes.threshold) {
    for (std::size_t i = 0; i < parts_.logs->slot_count(); ++i)
      places_.push_back(std::make_unique<Place>());
  }

  std::string_view name() const override { return "softwrap-tables"; }
  Result<RecoveryReport> recover() override { return Base::recover_into(RingLayout::kTornbit); }

  std::unique_ptr<Tx> make_tx(const TxWorld& world, std::size_t slot) override {
    return std::make_unique<TablesTx>(world, slot, aliases_);
  }
  bool allows_biased_locking() const override { return false; }
  std::unique_ptr<CommittedWords> committed_words() override {
    return std::make_unique<CommittedInTables>(aliases_);
  }

  void commit(Tx& of_this, std::size_t slot, Durability /*durability*/) override {
    refuse_if_poisoned();
    auto& tx = static_cast<TablesTx&>(of_this);
    const Claim claim(*this, tx.own_writes());
    const std::span<Word> record = encode(tx);
    if (!claim || TornbitLog::log_words(record.size()) > most_logged(slot)) {
      commit_home(tx, slot, record);
    } else {
      make_room(slot, record.size());  // 1
      commit_record(tx, slot, record, [&] {
        store_in_table(tx);  // 5
        store_heap_words(tx, slot);
      });
      tx.finish();
    }
    retire_if_full(slot);
  }

  /// Past the transactions: what a table has of these words, though it was home already, must not be found, nor come home again.
  void store(Word* home, Word value) override {
    forget_words(home, 1);
    Base::store(home, value);
  }
  void merge(Word* home, Word value, Word mask) override {
    forget_words(home, 1);
    Base::merge(home, value, mask);
  }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) override {
    forget_words(home, count);
    Base::write_through(home, words, count, site);
  }

  /// The heap's own, outside transactions: in space that nobody reads, but of which a table may know what it was before.
  void publish(std::span<const MaskedWrite> writes, std::size_t slot) override {
    refuse_if_poisoned();
    std::vector<Word> record(1, 0);
    record::encode_entries(writes, record);
    const std::lock_guard lock(retiring_);
    make_room_locked(slot, record.size());
    for (const MaskedWrite& write : writes) aliases_.forget(write.offset);
    const CommitWindow window(*parts_.clock, parts_.logs->slot(slot));
    append(slot, window.timestamp(), record);
    store_home(writes, slot);
  }

  void sync() override { refuse_if_poisoned(); }

  /// Everything home, the logs empty; the tables keep what they hold until they are changed.
  void truncate() override {
    const std::lock_guard lock(retiring_);
    refuse_if_poisoned();
    force_home();
  }

  void set_truncation(Truncation truncation) override {
    const std::lock_guard one_at_a_time(mode_mutex_);
    if (truncation == Truncation::kAuto) truncation = Truncation::kBackground;
    if (truncation != Truncation::kBackground && truncation != Truncation::kWhenFull)
      throw Exception(
          Code::kMisuse,
          "softwrap-tables retires its table in the background or when it is full; no other "
          "truncation than background and when-full");
    mode_.store(truncation, std::memory_order_relaxed);
    if (truncation == Truncation::kWhenFull && retiring_in_background_.exchange(false))
      retirer_.stop();
  }
  Truncation truncation() const override { return mode_.load(std::memory_order_relaxed); }
  void close() override {
    {
      const std::lock_guard one_at_a_time(mode_mutex_);
      retirer_.stop();
    }
    truncate();
  }

 private:
  friend class Spill<Tables>;

  /// A thread's part.
  struct Place {
    std::mutex mutex;  // of the next; taken by its thread, and by who retires
    /// What was stored home at once: to be flushed before the records are pruned.
    std::vector<Offset> home_lines;
  };

  /// Entries of the active table that a commit may take; false: there are not enough. A change of tables meanwhile leaves more.
  class Claim {
   public:
    Claim(Tables& engine, std::uint64_t words) : engine_(&engine), words_(words) {
      const std::uint64_t claimed =
          engine.claimed_.fetch_add(words, std::memory_order_relaxed) + words;
      const std::uint64_t capacity = engine.sizes_.limits.words;
      granted_ = engine.aliases_.active().words() + claimed <= capacity - capacity / 8;
      if (!granted_) give_back();
    }
    ~Claim() {
      if (granted_) give_back();
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    explicit operator bool() const { return granted_; }

   private:
    void give_back() { engine_->claimed_.fetch_sub(words_, std::memory_order_relaxed); }
    Tables* engine_;
    std::uint64_t words_;
    bool granted_;
  };

  std::uint64_t usable_words(std::size_t slot) const {
    const std::uint64_t ring = parts_.logs->slot(slot).log->ring().count;
    return parts_.tuning.log_limit_bytes == 0
               ? ring
               : std::min(ring, parts_.tuning.log_limit_bytes / kWordBytes);
  }
  std::uint64_t most_logged(std::size_t slot) const { return usable_words(slot) / 2; }

  // ---- the commit ---------------------------------------------------------------------------------

  /// Room in the slot's log for a record of `payload` words, and memory for it.
  void make_room(std::size_t slot, std::size_t payload) {
    if (has_room(slot, payload)) return;
    const std::lock_guard lock(retiring_);
    make_room_locked(slot, payload);
  }
  bool has_room(std::size_t slot, std::size_t payload) {
    LogSlot& mine = parts_.logs->slot(slot);
    if (!mine.ready.load(std::memory_order_relaxed)) return false;
    const std::uint64_t words = TornbitLog::log_words(payload);
    const std::uint64_t unused = mine.log->ring().count - usable_words(slot);
    if (mine.log->free_words() < words + unused) return false;
    mine.log->reserve_memory(words);
    return true;
  }
  /// Requires: retiring_.
  void make_room_locked(std::size_t slot, std::size_t payload) {
    refuse_if_poisoned();
    LogSlot& mine = parts_.logs->slot(slot);
    if (!mine.ready.load(std::memory_order_relaxed)) Base::ready(slot);
    if (!has_room(slot, payload)) force_home();
    PERDURE_CHECK(has_room(slot, payload), "a record that its empty log cannot take");
  }

  /// Errors: throws Exception kPoisoned: whether the record is durable is decided at the next open.
  void append(std::size_t slot, std::uint64_t timestamp, std::span<Word> record) {
    TornbitLog& log = *parts_.logs->slot(slot).log.tornbit();
    record[0] = record::header(timestamp, {record.data() + 1, record.size() - 1});
    log.append(domain_, record);
    // Orders: the record before anybody may act on what it says. Nothing of it is home before that.
    if (!log.make_durable(domain_)) fail();
  }

  void store_in_table(TablesTx& tx) {
    const MaskedWrites& writes = tx.writes();
    for (std::size_t i = 0; i < tx.own_writes(); ++i)
      PERDURE_CHECK(aliases_.store(writes[i].offset, writes[i].value, writes[i].mask),
                    "an alias table has less room than was claimed");
  }
  void store_heap_words(TablesTx& tx, std::size_t slot) {
    store_home(std::span<const MaskedWrite>(tx.writes()).subspan(tx.own_writes()), slot);
  }
  void store_home(std::span<const MaskedWrite> writes, std::size_t slot) {
    if (writes.empty()) return;
    Place& place = *places_[slot];
    const std::lock_guard lock(place.mutex);
    for (const MaskedWrite& write : writes) {
      parts_.logs->apply(domain_, write);
      place.home_lines.push_back(round_down(write.offset, kLineBytes));
    }
  }

  /// Steps 2 to 6; `store` is the fifth. Requires: room in the log.
  template <class Store>
  void commit_record(TablesTx& tx, std::size_t slot, std::span<Word> record, Store store) {
    const CommitWindow window(*parts_.clock, parts_.logs->slot(slot));  // 2
    const std::uint64_t timestamp = window.timestamp();
    tx.validate_at(timestamp);        // 3
    append(slot, timestamp, record);  // 4
    store();                      // 5
    tx.make_visible(timestamp);   // 6
  }
  /// For a transaction that the tables, or the log, have no room for.
  void commit_home(TablesTx& tx, std::size_t slot, std::span<Word> record) {
    Spill<Tables> spill(*this);
    spill.write_if_large(tx, parts_.logs->slot(slot).log, most_logged(slot), record);
    {
      const std::lock_guard lock(retiring_);
      make_room_locked(slot, record.size());
      commit_record(tx, slot, record, [&] {
        for (std::size_t i = 0; i < tx.own_writes(); ++i) {
          MaskedWrite& write = tx.writes()[i];
          write = {write.offset, merged(write), kWholeWord};
          aliases_.forget(write.offset);
        }
        store_home(tx.writes(), slot);
      });
    }
    tx.finish();  // not before: it may wait for the heap, and whoever has the heap may wait for retiring_
    if (spill.used()) spill.truncate_logs();
  }
  /// What the word becomes by `write`, whose lock this thread has.
  Word merged(const MaskedWrite& write) const {
    const Word before = aliases_.load(
        write.offset, [this](Offset at) { return load_word(parts_.region->word(at)); });
    return (before & ~write.mask) | (write.value & write.mask);
  }
  /// Of free space that is written past the transactions: what the tables know of it must not go home.
  void forget(Offset begin, std::uint64_t bytes) {
    const std::lock_guard lock(retiring_);
    for (Offset at = begin; at < begin + bytes; at += kWordBytes) aliases_.forget(at);
  }

  /// The same of words that whoever has retiring_ never stores: the rings and their heads stand before the heap.
  void forget_words(const Word* home, std::size_t count) {
    const auto at =
        static_cast<Offset>(reinterpret_cast<const std::byte*>(home) - parts_.region->base());
    if (at >= parts_.region->superblock().heap_offset) forget(at, count * kWordBytes);
  }

  // ---- retirement ---------------------------------------------------------------------------------

  bool wants_change() {
    return aliases_.is_full() || log_half_full_.load(std::memory_order_relaxed);
  }

  /// After a commit.
  void retire_if_full(std::size_t slot) {
    const TornbitLog& log = *parts_.logs->slot(slot).log.tornbit();
    const std::uint64_t used = log.ring().count - log.free_words();
    if (used > usable_words(slot) / 2) log_half_full_.store(true, std::memory_order_relaxed);
    if (!wants_change()) return;
    if (truncation() == Truncation::kBackground) {
      if (!retiring_in_background_.load(std::memory_order_acquire)) start_retirer();
      return retirer_.nudge();
    }
    const std::unique_lock lock(retiring_, std::try_to_lock);
    if (lock) retire();
  }
  /// Goes as far as is possible now. Requires: retiring_.
  void retire() {
    while (!poisoned() && retire_step()) {
    }
  }
  /// False: nothing could be done. Requires: retiring_.
  bool retire_step() {
    auto& states = aliases_.states();
    const unsigned active = states.view().active;
    if (states.state(1 - active) != alias::TableState::kEmpty)
      return aliases_.advance([this](const auto& table) { return write_home(table); });
    if (!wants_change()) return false;
    const CommitGate gate(*parts_.clock, *parts_.logs);
    full_timestamp_ = parts_.clock->now();
    full_is_home_ = false;
    log_half_full_.store(false, std::memory_order_relaxed);
    return states.fill();
  }

  /// Steps 3 and 4 for one table. False: the storage failed.
  bool write_home(const alias::AliasTable<>& table) {
    if (full_is_home_) return true;
    begin_lines();
    table.for_each([this](const MaskedWrite& write) { bring_home(write); });
    if (flush_lines() && consume(full_timestamp_)) return true;
    poison();
    return false;
  }
  /// The same for all that the tables hold now, whoever is open: every word in them was committed.
  /// Requires: retiring_, this thread not committing.
  void force_home() {
    std::uint64_t timestamp = 0;
    {
      const CommitGate gate(*parts_.clock, *parts_.logs);
      timestamp = parts_.clock->now();
    }
    begin_lines();
    const auto bring = [this](const MaskedWrite& write) { bring_home(write); };
    if (!full_is_home_) aliases_.for_each_older(bring);
    aliases_.active().for_each(bring);
    if (!flush_lines() || !consume(timestamp)) fail();
    // Never again: a table that is full by now would go home over newer words of the active one, whose records are gone.
    full_is_home_ = true;
    log_half_full_.store(false, std::memory_order_relaxed);
  }

  /// First what was stored home at once: by every record up to the timestamp that is going to be retired.
  void begin_lines() {
    lines_.clear();
    for (auto& place : places_) {
      const std::lock_guard lock(place->mutex);
      for (const Offset line : place->home_lines) lines_.insert(line);
      place->home_lines.clear();
    }
  }
  void bring_home(const MaskedWrite& write) {
    parts_.logs->apply(domain_, write);
    lines_.insert(round_down(write.offset, kLineBytes));
  }
  bool flush_lines() {
    for (const Offset line : lines_)
      domain_.flush(parts_.region->template at<std::byte>(line), kLineBytes, Site::kHomeBulk);
    // Orders: the words of the table before the timestamp that retires their records.
    return domain_.fence(Site::kTruncateHome);
  }

  bool consume(std::uint64_t timestamp) {
    PrimitivesOf<D> primitives(domain_);
    return parts_.logs->consume(primitives, timestamp, LogArea::Homes::kDurable);
  }

  void start_retirer() {
    const std::lock_guard one_at_a_time(mode_mutex_);
    if (truncation() != Truncation::kBackground || retiring_in_background_.exchange(true)) return;
    retirer_.start(
        [this] {
          try {
            const std::lock_guard lock(retiring_);
            retire();
          } catch (const std::exception&) {
            poison();  // out of memory, or a storage that failed
          }
          return !poisoned();
        },
        std::chrono::nanoseconds(0), std::chrono::milliseconds(10));
  }

  const TableSizes sizes_;
  alias::Aliases<> aliases_;
  std::vector<std::unique_ptr<Place>> places_;  // by slot
  std::atomic<std::uint64_t> claimed_{0};       // entries of the active table, by commits under way
  std::atomic<bool> log_half_full_{false};
  std::mutex retiring_;  // who brings words home
  std::uint64_t full_timestamp_ = 0;
  bool full_is_home_ = false;  // what was stored in the table that is not active
  OffsetSet lines_;
  std::mutex mode_mutex_;
  std::atomic<Truncation> mode_{Truncation::kBackground};
  std::atomic<bool> retiring_in_background_{
      false};       // since a table was full; changed under mode_mutex_
  Worker retirer_;  // last: it uses all of the above
};

}  // namespace perdure::softwrap
