// LogArea: the per-thread logs of a pool, seen as one. Records carry commit stamps; recovery merges
//          the logs by stamp.
//
// A thread's ring is one TornbitLog, or, for an engine that executes in the log, a small TornbitLog (for what must be
// committed while a transaction is open, or has no room in the log) and an XilLog behind it. Recovery reads either; the salt
// of the ring's head tells which. (A word for the whole pool could be cut off from the rings that it speaks of, and an
// older release would not look at it: it would take the new rings for its own. So it refuses them.)
//
// One persisted word, the retired stamp, says which records are history: "everything up to here is
// home". It is what makes per-thread logs safe. Without it, a record alone in an idle thread's log
// could be replayed over a newer value whose own record another thread has dropped already.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "perdure/base/offset_set.h"
#include "perdure/domain/paged.h"
#include "perdure/error.h"
#include "perdure/log/in_place_spans.h"
#include "perdure/log/record.h"
#include "perdure/log/tornbit_log.h"
#include "perdure/log/xil_log.h"
#include "perdure/region/region.h"

namespace perdure {

/// How a ring is divided.
enum class RingLayout : std::uint8_t {
  kTornbit,  // one TornbitLog
  kInLog,    // a small TornbitLog, then an XilLog
};

struct LogSlot {
  explicit LogSlot(const TornbitLog& from) : log(from) {}
  TornbitLog log;
  /// Transactions execute in it; there from prepare() or collect() on. In a ring without one: never.
  std::optional<XilLog> xil;
  Ring xil_ring{};  // of no words, where the layout has none
  /// Records from here on may have home words that are not durable yet.
  std::uint64_t unfenced_from = 0;
  xil::Place xil_unfenced_from = 0;
  /// Whether nothing that was committed is in the ring, or everything is retired.
  bool empty() const { return log.head() == log.tail() && !holds_closed(); }
  bool holds_closed() const { return xil && xil->head() != xil->begin(); }
  /// The lines of those home words, when the engine keeps count of them; void once the log has been emptied. Only the
  /// slot's own thread touches it: it makes room in it outside commits, while a truncation may be under way.
  std::vector<Offset> unflushed_lines;
  std::atomic<std::uint64_t> phase{0};  // odd between drawing a stamp and having stored home
  bool committing() const { return (phase.load(std::memory_order_acquire) & 1) != 0; }
  std::atomic<bool> ready{
      false};                     // since the pool was opened: prepared, with space behind its ring
  char padding[kLineBytes] = {};  // slots are written by different threads
};

/// What recovery found and did.
struct RecoveryReport {
  std::uint64_t records_replayed = 0;
  std::uint64_t words_replayed = 0;
  std::uint64_t logs_erased = 0;
  std::uint64_t last_stamp = 0;
  std::uint64_t nanoseconds = 0;
};

class LogArea {
 public:
  explicit LogArea(Region& region) : region_(&region) {}

  std::size_t slot_count() const { return slots_.size(); }
  LogSlot& slot(std::size_t index) { return *slots_[index]; }

  /// Reads all heads. Errors: kCorrupt.
  Result<void> open() {
    const Superblock& super = region_->superblock();
    for (std::uint32_t i = 0; i < super.geometry.log_slots; ++i) {
      const Offset head_at = super.head_offset + i * kLineBytes;
      const Word sealed = load_word(region_->word(head_at));
      RingLayout layout = RingLayout::kTornbit;
      auto head = unseal(sealed, kSaltHead);
      if (!head) {
        layout = RingLayout::kInLog;
        head = unseal(sealed, kSaltInLogHead);
      }
      if (!head)
        return damaged("log " + std::to_string(i) + "'s head (byte " + std::to_string(head_at) +
                       ") fails its check");
      slots_.push_back(std::make_unique<LogSlot>(log_at(i, layout, *head)));
      slots_.back()->xil_ring = xil_ring_at(i, layout);
    }
    return {};
  }

  /// Has every ring laid out as `layout` when a thread first uses it from now on.
  /// Requires: recover() came before, and no thread has used a log since.   False: the storage failed.
  ///
  ///   1. say of each ring of another layout that it was never used; fence   cut here ⇒ either: all are empty
  ///   2. prepare() each, later                                              cut here ⇒ as told there
  template <Domain D>
  [[nodiscard]] bool lay_out(D& domain, RingLayout layout) {
    bool changed = false;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      LogSlot& slot = *slots_[i];
      const bool other = (slot.xil_ring.count != 0) != (layout == RingLayout::kInLog);
      if (!other) continue;
      if (!is_virgin(i)) {
        Word* const head = slot.log.ring().head_word;
        domain.store(head, seal(0, kSaltHead));
        domain.flush(head, kWordBytes, Site::kLayout);
        changed = true;
      }
      slot.log = log_at(i, layout, 0);
      slot.xil.reset();
      slot.xil_ring = xil_ring_at(i, layout);
    }
    // Orders: "never used" before the ring is written for the other layout. Without it recovery could read what
    //         prepare() writes as records of the layout before.
    return !changed || domain.fence(Site::kLayoutFence);
  }

  /// Whether no thread has ever used the slot: nothing of its ring means anything yet.
  bool is_virgin(std::size_t index) const { return slots_[index]->log.head() == 0; }

  /// Readies a slot for the first append of its life; later, does nothing. False: the storage
  /// failed.
  ///
  ///   1. write the whole ring as "not yet written"; fence   cut here ⇒ the head says: never used
  ///   2. move the head to the ring's start; fence           cut here ⇒ either head: an empty log
  ///
  /// On files this also prewrites the ring: the first write into reserved space costs a journal
  /// commit that a rewrite does not.
  template <Domain D>
  [[nodiscard]] bool prepare(D& domain, std::size_t index) {
    if (!is_virgin(index)) return true;
    LogSlot& slot = *slots_[index];
    const std::uint64_t first = slot.log.first_position();
    slot.log.erase(domain, first, first + slot.log.ring().count);
    if (slot.xil_ring.count != 0) {
      slot.xil = XilLog::first_in(domain, slot.xil_ring);
      slot.xil_unfenced_from = slot.xil->begin();
    }
    // Orders: the ring before the head that vouches for it. Without it recovery could read as
    // records what was there.
    if (!domain.fence(Site::kEraseFence)) return false;
    slot.log.begin_at(first);
    slot.unfenced_from = first;
    slot.log.persist_head(domain);
    // Orders: the head before the first record. Without it recovery could skip an acknowledged one.
    return domain.fence(Site::kHeadFence);
  }

  struct Record {
    std::uint64_t stamp;
    std::vector<Word> entries;  // kRun and kMasked only, perhaps none: see collect()
  };

  /// Collects the records that are not retired, in commit order, fully checked; nothing is written. Spilled entries are
  /// copied in, and those left out whose words a later transaction initialised in place.
  /// `last_stamp` becomes the highest stamp ever seen. Errors: kCorrupt.
  /// `check_targets`: whether every word that they write must lie in the pool's data or in a part.
  Result<std::vector<Record>> collect(std::uint64_t& last_stamp, bool check_targets = true) {
    const auto retired = unseal(load_word(&region_->state()->retired_stamp.word), kSaltRetired);
    if (!retired) return damaged("the retired stamp (byte 4160) fails its check");
    if (*retired >= kMaxStamp) return damaged("the retired stamp (byte 4160) is out of range");
    last_stamp = *retired;
    std::vector<Record> records;
    dirty_.assign(slots_.size(), false);
    spilled_.clear();
    spilled_words_ = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (is_virgin(i)) continue;
      if (auto found = collect_in_log(i, *retired, check_targets, records); !found)
        return found.error();
      TornbitLog::Reader reader = slots_[i]->log.reader();
      std::uint64_t end = reader.position();
      for (;;) {
        Record next;
        const record::Found found = record::read(reader, next.stamp, next.entries);
        if (found == record::Found::kNothing) break;
        const std::string where =
            "log " + std::to_string(i) + ", the record at word " + std::to_string(end);
        if (found == record::Found::kCorrupt) return damaged(where + " fails its checksum");
        end = reader.position();
        dirty_[i] = true;
        if (next.stamp <= *retired) continue;
        if (next.stamp >= kMaxStamp) return damaged(where + " has a stamp that is out of range");
        if (!expand_spill(next))
          return damaged(where + " names spilled entries that fail their checksum");
        if (check_targets && !targets_valid(next))
          return damaged(where + " writes outside the pool's data");
        records.push_back(std::move(next));
      }
      dirty_[i] = dirty_[i] || slots_[i]->log.has_remains(end);
    }
    for (const Record& record : records) last_stamp = std::max(last_stamp, record.stamp);
    std::sort(records.begin(), records.end(),
              [](const Record& a, const Record& b) { return a.stamp < b.stamp; });
    for (std::size_t i = 1; i < records.size(); ++i) {
      if (records[i].stamp == records[i - 1].stamp)
        return damaged("two log records carry the stamp " + std::to_string(records[i].stamp));
    }
    forget_overtaken(records);
    return records;
  }

  /// Brings the pool to the state of its last durable transaction.
  ///
  ///   1. flush the logs themselves; fence                 cut here ⇒ fewer records, none applied
  ///   2. apply every record, oldest first; flush; fence   cut here ⇒ the logs are whole: again
  ///   3. retire the highest stamp; fence                  cut here ⇒ records are now ignored
  ///   4. erase the logs that held anything; fence         cut here ⇒ what is left is retired
  ///
  /// Whatever recovery believes it makes durable *again*: after the death of a process, not of the
  /// machine, home words, records, heads and sizes may have been in caches only, and what follows
  /// is built on them.
  template <Domain D>
  Result<RecoveryReport> recover(D& domain) {
    RecoveryReport report;
    auto collected = collect(report.last_stamp);
    if (!collected) return collected.error();
    adopt(domain);
    // Orders: the records before their home words. Without it a cut could keep a part of the home
    // words and lose the record, which only the caches of a killed process held. With no record to
    // apply, the next fence is soon enough.
    bool durable = collected->empty() || domain.fence(Site::kAdoptFence);
    for (const Record& record : collected.value()) {
      for_each_write(record, [&](const MaskedWrite& write) {
        apply(domain, write);
        domain.flush(region_->word(write.offset), kWordBytes, Site::kReplayHome);
        ++report.words_replayed;
      });
      ++report.records_replayed;
    }
    // Orders: home words before the stamp that makes recovery ignore their records.
    durable = (report.records_replayed == 0 || domain.fence(Site::kReplayFence)) && durable;
    const bool any_dirty = std::find(dirty_.begin(), dirty_.end(), true) != dirty_.end();
    if (any_dirty) durable = retire(domain, report.last_stamp) && durable;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!dirty_[i]) continue;
      slots_[i]->log.erase_from(domain, slots_[i]->log.head());
      if (slots_[i]->xil) slots_[i]->xil->settle(domain);
      ++report.logs_erased;
    }
    // Orders: the erased and adopted words before the first new record. Without it a cut could keep
    // the start of that record and, behind it, the rest of an old one; or a head and a size from
    // before what it builds on.
    durable = domain.fence(Site::kEraseFence) && durable;
    for (auto& slot : slots_) {
      slot->unfenced_from = slot->log.tail();
      if (slot->xil) empty_in_log(*slot, slot->xil->begin());
    }
    if (!durable)
      return Error{Code::kIo,
                   region_->path() + ": a sync failed during recovery; nothing was lost, reopen"};
    return report;
  }

  /// Marks every record up to `stamp` as history.
  template <Domain D>
  [[nodiscard]] bool retire(D& domain, std::uint64_t stamp) {
    domain.store(&region_->state()->retired_stamp.word, seal(stamp, kSaltRetired));
    domain.flush(&region_->state()->retired_stamp.word, kWordBytes, Site::kRetire);
    // Orders: the stamp before any head moves and before any ring word is reused or erased.
    return domain.fence(Site::kRetireFence);
  }

  /// Empties all logs. Requires: no commit under way; every record up to `last_stamp` has been
  /// applied.
  ///
  ///   1. flush the home words not yet durable; fence   cut here ⇒ all records are replayed
  ///   2. retire the last stamp; fence                  cut here ⇒ none is
  ///   3. move the heads; fence                         cut here ⇒ old heads, but only history there
  ///
  /// An XilLog has no head on the media, so nothing to do for it in 3; what it must do in 1 is told in xil_log.h. Transactions
  /// may be open in it, and stay.
  ///
  /// `home_site` kHome: each commit completes the home words of the one before it, so that only
  /// each log's last record is open; kHomeBulk: none was flushed yet, all records are walked, each
  /// line once.
  template <Domain D>
  [[nodiscard]] bool truncate(D& domain, std::uint64_t last_stamp, Site home_site) {
    lines_.clear();
    consumed_in_log_.clear();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      LogSlot& slot = *slots_[i];
      if (slot.log.head() != slot.log.tail()) note_lines(slot.log, slot.unfenced_from, last_stamp);
      if (!slot.holds_closed()) continue;
      const xil::Place end = slot.xil->begin();  // once: its owner may abort meanwhile
      note_lines(*slot.xil, slot.xil_unfenced_from, end, last_stamp);
      slot.xil->reset_holes(domain, end);
      consumed_in_log_.emplace_back(i, end);
    }
    flush_lines(domain, home_site);
    // Orders: all home words before the stamp that retires their records.
    bool durable = domain.fence(Site::kTruncateHome);
    durable = durable && retire(domain, last_stamp);
    if (!durable) return false;  // the records stay
    for (auto& slot : slots_) {
      if (slot->log.head() == slot->log.tail()) continue;
      slot->log.truncate();
      slot->log.persist_head(domain);
      slot->unfenced_from = slot->log.tail();
    }
    for (const auto& [index, end] : consumed_in_log_) empty_in_log(*slots_[index], end);
    // Orders: the heads before the words behind them are written again: recovery starts reading at
    // the head, and a word of the next lap there would look like the end of the log.
    return domain.fence(Site::kHeadFence);
  }

  /// Whether what is applied is not home yet.
  template <class D>
  static constexpr bool home_is_elsewhere() {
    if constexpr (PagedDomain<D>) {
      return !D::kWritesPages;
    } else {
      return false;
    }
  }

  /// Whether home words are durable, or to be made so.
  enum class Homes : std::uint8_t { kFlush, kDurable };

  /// Empties the logs as far as `last_stamp` while commits go on: the consumer of the paper's asynchronous truncation.
  /// Requires: every record up to `last_stamp` has been applied; one consumer at a time. The order is that of truncate();
  /// a producer learns of the room only when the head behind which it lies is durable.
  /// Where home is not what was applied to (domain/paged.h), the records are brought there first.
  template <Domain D>
  [[nodiscard]] bool consume(D& domain, std::uint64_t last_stamp, Homes homes = Homes::kFlush) {
    lines_.clear();
    consumed_.clear();
    consumed_in_log_.clear();
    constexpr bool kElsewhere = home_is_elsewhere<D>();
    if constexpr (kElsewhere) bring_home(domain, last_stamp);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const TornbitLog& log = slots_[i]->log;
      if (!kElsewhere && log.head() != log.tail()) {
        const std::uint64_t end = note_lines(log, log.head(), last_stamp);
        if (end != log.head()) consumed_.emplace_back(i, end);
      }
      if (!slots_[i]->holds_closed()) continue;
      const XilLog& xil = *slots_[i]->xil;
      const xil::Place end = note_lines(xil, xil.head(), xil.begin(), last_stamp);
      if (end == xil.head()) continue;
      xil.reset_holes(domain, end);
      consumed_in_log_.emplace_back(i, end);
    }
    if (consumed_.empty() && consumed_in_log_.empty()) return true;
    if (homes == Homes::kFlush) {
      flush_lines(domain, Site::kHomeBulk);
      // Orders: all home words before the stamp that retires their records.
      if (!domain.fence(Site::kTruncateHome)) return false;
    }
    if (!retire(domain, last_stamp)) return false;
    for (const auto& [index, end] : consumed_in_log_) empty_in_log(*slots_[index], end);
    if (consumed_.empty()) return true;
    for (const auto& [index, end] : consumed_) slots_[index]->log.persist_head_at(domain, end);
    // Orders: the heads before the words behind them are written again, as in truncate().
    if (!domain.fence(Site::kHeadFence)) return false;
    for (const auto& [index, end] : consumed_) {
      slots_[index]->unfenced_from = end;
      slots_[index]->log.truncate_to(end);
    }
    return true;
  }

  /// Empties one log whose last record the calling thread has just applied and made durable at home.
  /// Durable: on return. False: the storage failed.
  template <Domain D>
  [[nodiscard]] bool drop(D& domain, std::size_t index) {
    LogSlot& slot = *slots_[index];
    const std::uint64_t end = slot.log.tail();
    slot.log.persist_head_at(domain, end);
    // Orders: the head before the words behind it are written again, as in truncate().
    if (!domain.fence(Site::kHeadFence)) return false;
    slot.log.truncate_to(end);
    slot.unfenced_from = end;
    return true;
  }

  /// One recorded write, applied.
  template <Domain D>
  void apply(D& domain, const MaskedWrite& write) const {
    if (write.mask == kWholeWord) {
      domain.store(region_->word(write.offset), write.value);
    } else {
      domain.merge(region_->word(write.offset), write.value, write.mask);
    }
  }

  template <class Visit>
  static void for_each_write(const Record& record, Visit visit) {
    record::for_each(
        record.entries,
        [&](const MaskedWrite& write) {
          visit(write);
          return true;
        },
        [](Offset, Word, Word) { return false; });
  }

 private:
  static std::uint64_t tornbit_words(std::uint64_t ring_words, RingLayout layout) {
    if (layout == RingLayout::kTornbit) return ring_words;
    // A quarter, but 2 KiB, which the heap's largest record needs, and no less than an XilLog cannot use.
    constexpr std::uint64_t kMostInLog = (xil::kMaxBack + 1) * xil::kRecordWords;
    return std::max({std::uint64_t{256}, ring_words / 4,
                     ring_words > kMostInLog ? ring_words - kMostInLog : 0});
  }
  Ring ring_at(std::size_t index) const {
    const Superblock& super = region_->superblock();
    return {region_->word(super.ring_offset + index * super.geometry.ring_bytes),
            super.geometry.ring_bytes / kWordBytes,
            region_->word(super.head_offset + index * kLineBytes)};
  }
  TornbitLog log_at(std::size_t index, RingLayout layout, std::uint64_t head) const {
    Ring ring = ring_at(index);
    ring.count = tornbit_words(ring.count, layout);
    return {ring, head, head, layout == RingLayout::kTornbit ? kSaltHead : kSaltInLogHead};
  }
  Ring xil_ring_at(std::size_t index, RingLayout layout) const {
    const Ring ring = ring_at(index);
    const std::uint64_t before = tornbit_words(ring.count, layout);
    return {ring.words + before, ring.count - before, nullptr};
  }

  /// Gives the room of an XilLog back, whose transactions up to `end` are retired.
  static void empty_in_log(LogSlot& slot, xil::Place end) {
    slot.xil_unfenced_from = end;
    slot.xil->truncate_to(end);
  }

  /// collect() for the XilLog of a slot, which it makes. Errors: kCorrupt.
  Result<void> collect_in_log(std::size_t index, std::uint64_t retired, bool check_targets,
                              std::vector<Record>& records) {
    LogSlot& slot = *slots_[index];
    if (slot.xil_ring.count == 0) return {};
    const std::string log = "log " + std::to_string(index);
    const XilScan scan = scan_xil(slot.xil_ring, retired);
    if (scan.damage != nullptr)
      return damaged(log + ", record " + std::to_string(scan.damaged_record) +
                     " of execution in log: " + scan.damage);
    slot.xil.emplace(slot.xil_ring, scan);
    dirty_[index] = !scan.transactions.empty() || slot.xil->needs_settling();
    std::vector<MaskedWrite> writes;
    for (const XilTransaction& transaction : scan.transactions) {
      const std::string where =
          log + ", the transaction that ends at record " +
          std::to_string(transaction.commit % (slot.xil_ring.count / xil::kRecordWords));
      if (transaction.stamp >= kMaxStamp)
        return damaged(where + " has a stamp that is out of range");
      writes.clear();
      if (!perdure::for_each_write(slot.xil_ring, transaction,
                                   [&](const MaskedWrite& write) { writes.push_back(write); }))
        return damaged(where + " has a mask without its word");
      Record record{transaction.stamp, {}};
      record::encode_entries(writes, record.entries);
      if (check_targets && !targets_valid(record))
        return damaged(where + " writes outside the pool's data");
      records.push_back(std::move(record));
    }
    return {};
  }

  /// As below, for the transactions of an XilLog that were closed in [from, end).
  xil::Place note_lines(const XilLog& log, xil::Place from, xil::Place end,
                        std::uint64_t last_stamp) {
    return log.for_each_closed(
        from, end,
        [&](std::uint64_t stamp, xil::Place first, xil::Place commit) {
          if (stamp > last_stamp) return false;
          for (xil::Place place = first; place < commit; ++place)
            note_line(log.update(place).address);
          return true;
        },
        [](xil::Place, xil::Place) {});
  }
  void note_line(Offset offset) {
    const Offset line = round_down(offset, kLineBytes);
    lines_.insert(line);
  }

  /// Adds the lines that the records of `log` from `from` on touch, as far as `last_stamp`; returns where those end.
  std::uint64_t note_lines(const TornbitLog& log, std::uint64_t from, std::uint64_t last_stamp) {
    TornbitLog::Reader reader(log.ring(), from, log.tail());
    std::uint64_t end = from;
    std::uint64_t stamp = 0;
    const auto note = [&](const MaskedWrite& write) {
      note_line(write.offset);
      return true;
    };
    while (record::read(reader, stamp, entries_) == record::Found::kRecord && stamp <= last_stamp) {
      end = reader.position();
      record::for_each(entries_, note, [&](Offset offset, Word count, Word) {
        return record::for_each({region_->word(offset), count}, note,
                                [](Offset, Word, Word) { return false; });
      });
    }
    return end;
  }

  /// One log's records, one after the other.
  struct Cursor {
    std::size_t slot;
    TornbitLog::Reader reader;
    std::uint64_t end;    // of the last record that was brought home
    std::uint64_t stamp;  // of the next one
    std::vector<Word> entries;
    bool next() { return record::read(reader, stamp, entries) == record::Found::kRecord; }
  };
  /// Stores what the records up to `last_stamp` say at home, oldest first, and notes its lines: an older word never comes
  /// after a newer one. From the records, because the pages may hold what is not committed.
  template <Domain D>
  void bring_home(D& domain, std::uint64_t last_stamp) {
    std::vector<Cursor> logs;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const TornbitLog& log = slots_[i]->log;
      if (log.head() == log.tail()) continue;
      logs.push_back(
          {i, TornbitLog::Reader(log.ring(), log.head(), log.tail()), log.head(), 0, {}});
      if (!logs.back().next()) logs.pop_back();
    }
    const auto bring = [&](const MaskedWrite& write) {
      domain.bring_home(region_->word(write.offset), write.value, write.mask);
      note_line(write.offset);
      return true;
    };
    while (!logs.empty()) {
      const auto oldest =
          std::min_element(logs.begin(), logs.end(),
                           [](const Cursor& a, const Cursor& b) { return a.stamp < b.stamp; });
      if (oldest->stamp > last_stamp) break;
      record::for_each(oldest->entries, bring, [&](Offset offset, Word count, Word) {
        return record::for_each({region_->word(offset), count}, bring,
                                [](Offset, Word, Word) { return false; });
      });
      oldest->end = oldest->reader.position();
      if (oldest->next()) continue;
      consumed_.emplace_back(oldest->slot, oldest->end);
      logs.erase(oldest);
    }
    for (const Cursor& log : logs) {
      if (log.end != slots_[log.slot]->log.head()) consumed_.emplace_back(log.slot, log.end);
    }
  }

  /// Starts the write-back of the lines noted, each once.
  template <Domain D>
  void flush_lines(D& domain, Site site) {
    for (const Offset line : lines_) domain.flush(region_->at<std::byte>(line), kLineBytes, site);
  }

  /// At a million commits a second it is reached in four years; a file that claims more would have
  /// the next stamps overflow their 48 bits.
  static constexpr std::uint64_t kMaxStamp = std::uint64_t{1} << 47;

  Error damaged(const std::string& what) const {
    return {Code::kCorrupt, region_->path() + ": " + what + "; restore the pool from a backup"};
  }

  /// Starts the write-back of all that collect() believed.
  template <Domain D>
  void adopt(D& domain) const {
    domain.flush(region_->state(), sizeof(StatePage), Site::kAdopt);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (is_virgin(i)) continue;
      slots_[i]->log.adopt(domain);
      if (slots_[i]->xil) slots_[i]->xil->adopt(domain);
    }
    for (const Spilled& spilled : spilled_) {
      domain.flush(region_->word(spilled.offset), spilled.words * kWordBytes, Site::kAdopt);
    }
  }

  /// Where records may write: roots, the segment table of the grown part, and the heap.
  bool target_valid(Offset offset) const {
    const Superblock& super = region_->superblock();
    return is_aligned(offset, kWordBytes) &&
           (inside(offset, kWordBytes, super.root_offset, super.head_offset) ||
            inside(offset, kWordBytes, super.segment_table_offset,
                   super.segment_table_offset + region_->segments() * kWordBytes) ||
            inside(offset, kWordBytes, super.heap_offset, region_->grown_bytes()) ||
            region_->in_part(offset, kWordBytes));
  }
  bool targets_valid(const Record& record) const {
    return record::for_each(
        record.entries, [&](const MaskedWrite& write) { return target_valid(write.offset); },
        [](Offset, Word, Word) { return false; },
        [&](Offset offset, std::uint64_t words) {
          return inside(offset, words * kWordBytes, region_->superblock().heap_offset,
                        region_->grown_bytes());
        });
  }

  /// Takes out of each record what a later one says to have been initialised in place, and what says so.
  static void forget_overtaken(std::vector<Record>& records) {
    InPlaceSpans spans;
    for (const Record& record : records) {
      record::for_each(
          record.entries, [](const MaskedWrite&) { return true; },
          [](Offset, Word, Word) { return false; },
          [&](Offset offset, std::uint64_t words) {
            spans.add(offset, words * kWordBytes, record.stamp);
            return true;
          });
    }
    if (spans.empty()) return;
    std::vector<MaskedWrite> writes;
    for (Record& record : records) {
      writes.clear();
      for_each_write(record, [&](const MaskedWrite& write) {
        if (!spans.overtakes(write.offset, record.stamp)) writes.push_back(write);
      });
      record.entries.clear();
      if (!writes.empty()) record::encode_entries(writes, record.entries);
    }
  }

  /// Copies spilled entries into the record, before any replay can overwrite the place where they
  /// stand.
  bool expand_spill(Record& record) {
    if (record.entries.empty() || record::entry_kind(record.entries[0]) != record::Kind::kSpill)
      return true;
    if (record.entries.size() != 3) return false;
    const Offset offset = record::entry_offset(record.entries[0]);
    const std::uint64_t count = record.entries[1];
    // Spilled records stand in space that was theirs alone: together they cannot be larger than the
    // pool. Else a small file that names the same place in many records would take any amount of
    // memory.
    spilled_words_ += std::min(count, kMax48);
    if (spilled_words_ > region_->grown_bytes() / kWordBytes ||
        !inside(offset, count * kWordBytes, region_->superblock().heap_offset,
                region_->grown_bytes()))
      return false;
    std::vector<Word> entries(count);
    for (std::uint64_t i = 0; i < count; ++i)
      entries[i] = load_word(region_->word(offset + i * kWordBytes));
    if (crc32c(entries.data(), count * kWordBytes) != record.entries[2]) return false;
    record.entries = std::move(entries);
    spilled_.push_back({offset, count});
    return true;
  }

  struct Spilled {
    Offset offset;
    std::uint64_t words;
  };

  Region* region_;
  std::vector<std::unique_ptr<LogSlot>> slots_;
  std::vector<Spilled> spilled_;  // where collect() found entries outside the rings
  std::uint64_t spilled_words_ = 0;
  std::vector<bool> dirty_;    // logs that hold anything, as collect() found them
  OffsetSet lines_;            // reused by truncate()
  std::vector<Word> entries_;  // reused by truncate()
  std::vector<std::pair<std::size_t, std::uint64_t>>
      consumed_;  // reused by consume(): slot, new head
  std::vector<std::pair<std::size_t, xil::Place>>
      consumed_in_log_;  // the same for XilLogs, by truncate(), too
};

}  // namespace perdure
