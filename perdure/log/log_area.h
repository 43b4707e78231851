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
#include <optional>
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

/// What a truncation did.
struct TruncationWork {
  std::uint64_t log_bytes = 0;   // of the records that it dropped
  std::uint64_t home_bytes = 0;  // that it wrote home for them
};

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
      : region_(&region),
        side_(side),
        line_bytes_(region.domain() == DomainKind::kSync ? kPageBytes : kLineBytes) {}

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

  // ---- the log that all threads share, on files -------------------------------------------------
  /// How long the first log is.
  std::uint64_t length_bytes() const { return rings_ * region_->geometry().ring_bytes; }
  /// Whether it may be twice as long, in the rings of the next slots.
  bool may_double() const;
  /// Doubles it where it stands, in two calls. Records stay where they are.
  ///
  ///   1. prepare: allocate the other half; mark its slots as never used; write all of it as "not
  ///      yet written" on the lap of the tail; fence     crash here ⇒ nobody reads it
  ///   2. double: the head, for the longer ring; fence   crash here ⇒ both heads tell the same log,
  ///                                                     as the other half is empty
  ///
  /// Appends go on between the two. Those that come to the end of the lap meanwhile begin the next
  /// one, to which the other half would be written: then the second call does nothing, and the
  /// answer is kNotYet.
  /// Requires: the slots of the other half are never used while this pool is open; one thread at a
  /// time, no truncation; in the second call, no append.
  enum class Doubling : std::uint8_t { kDone, kNotYet, kNoSpace, kStorageFailed };
  Doubling prepare_to_double(Primitives& primitives);
  Doubling double_length(Primitives& primitives);
  /// Gives the first log its own ring again, and that alone, and marks it as never used. The rest
  /// goes back to the file system.
  /// Requires: every record is truncated; no thread uses a log.   False: the storage failed.
  ///
  ///   1. mark the log as never used; fence   crash here ⇒ this head or the one before: an empty log
  ///   2. give the space back                 crash here ⇒ space that nobody reads
  [[nodiscard]] bool shorten(Primitives& primitives);

  /// From now on damage in a log ends it, and is told to `findings`; what comes before is recovered. For
  /// private copies of which all that can be had is wanted.
  void take_what_is_whole(std::vector<std::string>& findings) { log_damage_ = &findings; }

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
  ///
  /// `what` kKeep: for one log that all threads share. Where it can, recovery does less: the records
  /// stay, as if they had just been committed, and a later truncation brings them home.
  ///
  ///   1. flush the log's head and records; erase what is torn behind them; fence   crash here ⇒ the
  ///                                                                                logs are whole
  ///   2. apply every record, oldest first, to the pages; flush nothing             crash here ⇒ again
  enum class Records : std::uint8_t { kRetire, kKeep };
  Result<RecoveryReport> recover(Primitives& primitives, Records what = Records::kRetire);

  // ---- a file that nobody changes ----------------------------------------------------------------
  /// Called when recovery has ended, and when the pool is closed, with all durable and the logs
  /// empty: nothing is changed before begin_changes().
  void begin_unchanged();
  /// Called before the first record, or the first growth; later, does nothing. False: the storage
  /// failed.   Threads: any.
  [[nodiscard]] bool begin_changes();
  bool is_unchanged() const { return !changing_.load(std::memory_order_acquire); }

  /// Recovery ignores every record up to it.   Threads: any.
  std::uint64_t retired_timestamp() const {
    return unseal(load_word(&region_->state()->retired_stamp.word), kSaltRetired).value_or(0);
  }
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

  /// What the last truncate() or consume() did. Threads: the one that called it, or one after it.
  const TruncationWork& last_work() const { return last_work_; }

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

  struct Kept {
    std::uint64_t records;
    std::uint64_t words;
    std::uint64_t last_timestamp;
    std::uint64_t end;  // position
  };

  Ring ring_at(std::size_t index) const;
  std::optional<std::uint64_t> unseal_long_head(Word sealed);
  RecordLog log_at(std::size_t index, RingLayout layout, std::uint64_t head) const;
  std::unique_ptr<SideLog> side_log_at(std::size_t index, RingLayout layout) const;
  Result<void> collect_log(std::size_t index, bool check_targets, std::vector<Record>& records);
  Result<void> find_hole(std::size_t index, std::uint64_t end, std::uint64_t last);
  bool erase_remains(AnyDomain& domain, LogSlot& slot);
  static void mark_unused(Primitives& primitives, const LogSlot& slot);
  Result<void> read_retired_timestamp();
  Result<std::optional<Kept>> find_records_to_keep();
  Result<std::optional<RecoveryReport>> keep_records(AnyDomain& domain);
  Error sync_failed() const;
  Result<void> collect_side_log(std::size_t index, std::uint64_t retired, bool check_targets,
                                std::vector<Record>& records);
  std::uint64_t note_lines(const RecordLog& log, std::uint64_t from, std::uint64_t last_timestamp);
  void note_line(Offset offset) { lines_.insert(round_down(offset, line_bytes_)); }
  bool begin_side_truncations(AnyDomain& domain, std::uint64_t last_timestamp, bool all);
  void end_side_truncations();
  void bring_home(HomeWriter& home, std::uint64_t last_timestamp);
  void flush_lines(Primitives& primitives, Site site);
  Error damaged(const std::string& what) const;
  void adopt(AnyDomain& domain) const;
  bool in_heap(Offset offset, std::uint64_t bytes) const;
  bool target_valid(Offset offset) const;
  bool targets_valid(const Record& record) const;
  static void forget_overtaken(std::vector<Record>& records);
  bool expand_spill(Record& record);

  Region* region_;
  const SideLogFormat* side_;
  std::vector<std::string>* log_damage_ = nullptr;
  std::vector<std::unique_ptr<LogSlot>> slots_;
  std::uint64_t rings_ = 1;  // that the first log takes: a power of two
  Word prepared_for_ = 0;    // the torn bit of the lap that its other half has been prepared for
  std::vector<Spilled> spilled_;  // where collect() found entries outside the rings
  std::uint64_t spilled_words_ = 0;
  std::vector<bool> dirty_;    // logs that hold anything, as collect() found them
  std::uint64_t retired_ = 0;  // the retired timestamp, as recovery found it
  std::atomic<bool> changing_{false};
  std::mutex changing_mutex_;
  const std::uint64_t line_bytes_;  // what a truncation writes home at once: on files a page
  TruncationWork last_work_;
  OffsetSet lines_;             // reused by truncations
  std::vector<Offset> sorted_;  // the same
  std::vector<Word> entries_;   // reused by truncations
  std::vector<std::pair<std::size_t, std::uint64_t>>
      consumed_;                      // reused by consume(): slot, new head
  std::vector<SideLog*> truncating_;  // reused by truncations: begun, and not ended
};

}  // namespace perdure
