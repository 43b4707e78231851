// SPDX-License-Identifier: BSD-3-Clause
// LogArea: the per-thread logs of a pool, treated as one. Records carry commit timestamps; recovery
// merges the logs by them.
//
// A thread's ring is one LineLog or one TornbitLog; an engine whose transactions stand in a log
// before they commit has a side log behind the latter (side_log.h).
//
// One persisted word, the retired timestamp, says which records are history: "everything up to here
// is home". It is what makes per-thread logs safe. Without it, a record alone in an idle thread's
// log could be replayed over a newer value whose own record another thread has dropped already.
//
// Nothing here is on a transaction's path: a commit appends to its slot's log itself. So all of it
// is compiled once, over domain/primitives.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "perdure/base/offset_set.h"
#include "perdure/base/shared.h"
#include "perdure/domain/primitives.h"
#include "perdure/error.h"
#include "perdure/log/record_log.h"
#include "perdure/log/side_log.h"
#include "perdure/region/region.h"

namespace perdure {

/// How a ring is used. The salt of its head says it.
enum class RingLayout : std::uint8_t { kLines, kTornbit, kSideLog };

struct LogSlot {
  explicit LogSlot(const RecordLog& from) : log(from) {}
  RecordLog log;
  std::unique_ptr<SideLog> side;  // null where the layout has none
  /// Records from here on may have home words that are not durable yet.
  std::uint64_t unfenced_from = 0;
  /// The lines of those home words, when the engine keeps count of them; void once the log has been
  /// emptied. Only the slot's own thread touches it: it makes room in it outside commits, while a
  /// truncation may be under way.
  GrowingArray<Offset> unflushed_lines;
  Shared<std::uint64_t> phase{0};  // odd between drawing a timestamp and having stored home
  bool committing() const { return (phase.load(std::memory_order_acquire) & 1) != 0; }
  /// Whether it is known that nothing of a torn append lies after the tail.
  bool searched = true;
  Shared<bool> ready{false};      // since the pool was opened: prepared, with space behind its ring
  char padding[kLineBytes] = {};  // slots are written by different threads
};

class LogArea {
 public:
  /// `side`: the layout with side logs that this program can read; null: none. Must outlive it.
  explicit LogArea(Region& region, const SideLogFormat* side = nullptr)
      : region_(&region), side_(side) {}

  std::size_t slot_count() const { return slots_.size(); }
  LogSlot& slot(std::size_t index) { return *slots_[index]; }

  /// Reads all heads. Errors: kCorrupt; kVersion for a ring of a layout that this program cannot
  /// read.
  Result<void> open();

  /// Decides that every ring has `layout` when a thread first uses it from now on.
  /// Requires: every record is truncated; no thread has used a log since.
  /// False: the storage failed.
  ///
  ///   1. mark each ring of the other layout as never used; fence   crash here ⇒ this head or the one
  ///                                                                before: an empty log
  ///   2. prepare() each, later                                     crash here ⇒ as told there
  [[nodiscard]] bool lay_out(Primitives& primitives, RingLayout layout);

  /// Whether no thread has ever used the slot: nothing of its ring means anything yet.
  bool is_virgin(std::size_t index) const { return slots_[index]->log->head() == 0; }

  /// Prepares a slot for its first append since the pool was opened. False: the storage failed.
  /// One that has been used before is only searched for what a power cut tore, if recovery has
  /// not done that: of an unchanged file it reads no more than the heads. The others:
  ///
  ///   1. write the head back, "never used"; fence           crash here ⇒ as told in lay_out()
  ///   2. write all of the ring as "not yet written"; fence  crash here ⇒ the head says: never used
  ///   3. move the head to the ring's start; fence           crash here ⇒ either head: an empty log
  ///
  /// On files this also prewrites the ring: the first write into reserved space costs a journal
  /// commit that a rewrite does not.
  [[nodiscard]] bool prepare(Primitives& primitives, std::size_t index);

  struct Record {
    std::uint64_t timestamp;
    std::vector<Word> entries;  // kRun and kMasked only, perhaps none: see collect()
  };

  /// Collects the records above the retired timestamp, in commit order, fully checked; nothing is
  /// written. Spilled entries are copied in; entries whose words a later transaction initialised in
  /// place are left out. `last_timestamp` becomes the highest timestamp ever seen. Errors:
  /// kCorrupt. `check_targets`: whether every word that they write must lie in the pool's data or
  /// in a part.
  Result<std::vector<Record>> collect(std::uint64_t& last_timestamp, bool check_targets = true);

  /// Brings the pool to the state of its last durable transaction. Where nothing has been changed
  /// since all was durable, and nothing is in the logs, it writes nothing.
  ///
  ///   1. flush the logs themselves; fence                 crash here ⇒ fewer records, none applied
  ///   2. apply every record, oldest first; flush; fence   crash here ⇒ the logs are whole: again
  ///   3. store the highest timestamp as retired; fence    crash here ⇒ records are now ignored
  ///   4. erase the logs that held anything; fence         crash here ⇒ what is left is ignored
  ///
  /// Whatever recovery believes it makes durable *again*: after the death of a process, not of the
  /// machine, home words, records, heads and sizes may have been in caches only, and what follows
  /// is built on them.
  Result<RecoveryReport> recover(Primitives& primitives);

  // ---- a file that nobody changes ----------------------------------------------------------------
  /// Called when recovery has ended, and when the pool is closed, with all durable and the logs
  /// empty: nothing is changed before begin_changes().
  void begin_unchanged();
  /// Called before the first record, or the first growth; later, does nothing. False: the storage
  /// failed.   Threads: any.
  [[nodiscard]] bool begin_changes();
  bool is_unchanged() const { return !changing_.load(std::memory_order_acquire); }

  /// Makes recovery ignore every record up to `timestamp`.
  [[nodiscard]] bool store_retired_timestamp(Primitives& primitives, std::uint64_t timestamp);

  /// Empties all logs. Requires: no commit under way; every record up to `last_timestamp` has been
  /// applied.
  ///
  ///   1. flush the home words not yet durable; fence   crash here ⇒ all records are replayed
  ///   2. store the last timestamp as retired; fence    crash here ⇒ none is
  ///   3. move the heads; fence                         crash here ⇒ old heads, but only history
  ///                                                    there
  ///
  /// A side log has no head on media, so step 3 does nothing for it. Transactions may be open in
  /// it, and stay.
  ///
  /// `home_site` kHome: each commit completes the home words of the one before it, so that only
  /// each log's last record is open; kHomeBulk: none was flushed yet, all records are walked, each
  /// line once.
  [[nodiscard]] bool truncate(Primitives& primitives, std::uint64_t last_timestamp, Site home_site);

  /// Whether home words are durable, or to be made so.
  enum class Homes : std::uint8_t { kFlush, kDurable };

  /// Empties the logs up to `last_timestamp` while commits go on: this is the consumer of the
  /// paper's asynchronous truncation.
  /// Requires: every record up to `last_timestamp` has been applied; one consumer at a time. The
  /// order is that of truncate(); a producer learns of the room only when the head behind which it
  /// lies is durable. `elsewhere`: if words were applied out of place (private pages), the records
  /// are stored home through it first.
  [[nodiscard]] bool consume(Primitives& primitives, std::uint64_t last_timestamp,
                             Homes homes = Homes::kFlush, HomeWriter* elsewhere = nullptr);

  /// Empties one log whose last record the calling thread has just applied and made durable at
  /// home.
  /// Durable: on return. False: the storage failed.
  [[nodiscard]] bool drop(Primitives& primitives, std::size_t index);

  /// Applies one recorded write.
  template <Domain D>
  void apply(D& domain, const MaskedWrite& write) const {
    apply(domain, region_->word(write.offset), write);
  }
  /// The same at `home`, where that is known.
  template <Domain D>
  static void apply(D& domain, Word* home, const MaskedWrite& write) {
    if (write.mask == kWholeWord) [[likely]] {
      domain.store(home, write.value);
    } else {
      domain.merge(home, write.value, write.mask);
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
  struct Cursor;
  struct Spilled {
    Offset offset;
    std::uint64_t words;
  };

  Ring ring_at(std::size_t index) const;
  RecordLog log_at(std::size_t index, RingLayout layout, std::uint64_t head) const;
  std::unique_ptr<SideLog> side_log_at(std::size_t index, RingLayout layout) const;
  Result<void> find_hole(std::size_t index, std::uint64_t end, std::uint64_t retired);
  bool erase_remains(AnyDomain& domain, LogSlot& slot);
  static void mark_unused(Primitives& primitives, const LogSlot& slot);
  Result<void> collect_side_log(std::size_t index, std::uint64_t retired, bool check_targets,
                                std::vector<Record>& records);
  std::uint64_t note_lines(const RecordLog& log, std::uint64_t from, std::uint64_t last_timestamp);
  void note_line(Offset offset) { lines_.insert(round_down(offset, kLineBytes)); }
  bool begin_side_truncations(AnyDomain& domain, std::uint64_t last_timestamp, bool all);
  void end_side_truncations();
  void bring_home(HomeWriter& home, std::uint64_t last_timestamp);
  void flush_lines(Primitives& primitives, Site site);
  Error damaged(const std::string& what) const;
  void adopt(AnyDomain& domain) const;
  bool target_valid(Offset offset) const;
  bool targets_valid(const Record& record) const;
  static void forget_overtaken(std::vector<Record>& records);
  bool expand_spill(Record& record);

  Region* region_;
  const SideLogFormat* side_;
  std::vector<std::unique_ptr<LogSlot>> slots_;
  std::vector<Spilled> spilled_;  // where collect() found entries outside the rings
  std::uint64_t spilled_words_ = 0;
  std::vector<bool> dirty_;    // logs that hold anything, as collect() found them
  std::uint64_t retired_ = 0;  // the retired timestamp, as collect() found it
  std::atomic<bool> changing_{false};
  std::mutex changing_mutex_;
  OffsetSet lines_;            // reused by truncations
  std::vector<Word> entries_;  // reused by truncations
  std::vector<std::pair<std::size_t, std::uint64_t>>
      consumed_;                      // reused by consume(): slot, new head
  std::vector<SideLog*> truncating_;  // reused by truncations: begun, and not ended
};

}  // namespace perdure
