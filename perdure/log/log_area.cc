// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/log_area.h"

#include <algorithm>

#include "perdure/base/crc32c.h"
#include "perdure/log/in_place_spans.h"

namespace perdure {
namespace {

/// A million commits a second reach it in four years. In a file that claims more, the next
/// timestamps would soon overflow their 48 bits.
constexpr std::uint64_t kMaxTimestamp = std::uint64_t{1} << 47;

}  // namespace

// ---- rings --------------------------------------------------------------------------------------

Ring LogArea::ring_at(std::size_t index) const {
  const Superblock& super = region_->superblock();
  return {region_->word(super.ring_offset + index * super.geometry.ring_bytes),
          super.geometry.ring_bytes / kWordBytes,
          region_->word(super.head_offset + index * kLineBytes)};
}

RecordLog LogArea::log_at(std::size_t index, RingLayout layout, std::uint64_t head) const {
  Ring ring = ring_at(index);
  switch (layout) {
    case RingLayout::kLines: return RecordLog(LineLog(ring, head, head));
    case RingLayout::kTornbit: break;
    case RingLayout::kSideLog:
      ring.count = side_->tornbit_words(ring.count);
      return RecordLog(TornbitLog(ring, head, head, side_->head_salt));
  }
  return RecordLog(TornbitLog(ring, head, head));
}

std::unique_ptr<SideLog> LogArea::side_log_at(std::size_t index, RingLayout layout) const {
  if (layout != RingLayout::kSideLog) return nullptr;
  const Ring ring = ring_at(index);
  const std::uint64_t before = side_->tornbit_words(ring.count);
  return side_->make({ring.words + before, ring.count - before, nullptr});
}

Result<void> LogArea::open() {
  const Superblock& super = region_->superblock();
  for (std::uint32_t i = 0; i < super.geometry.log_slots; ++i) {
    const Offset head_at = super.head_offset + i * kLineBytes;
    const Word sealed = load_word(region_->word(head_at));
    RingLayout layout = RingLayout::kTornbit;
    auto head = unseal(sealed, TornbitLog::kHeadSalt);
    if (!head) {
      layout = RingLayout::kLines;
      head = unseal(sealed, LineLog::kHeadSalt);
      if (head && !is_aligned(*head, LineLog::kLineWords)) head.reset();
    }
    if (!head && side_ != nullptr) {
      layout = RingLayout::kSideLog;
      head = unseal(sealed, side_->head_salt);
    }
    if (!head && unseal(sealed, kSaltInLogHead))
      return Error{Code::kVersion,
                   region_->path() + ": log " + std::to_string(i) + " (head at byte " +
                       std::to_string(head_at) +
                       ") was left by a program that ran the engine 'blurred', which executes "
                       "transactions in the log; nothing was changed; recover it once with "
                       "'perdure-lab recover', then open it again"};
    if (!head)
      return damaged("log " + std::to_string(i) + "'s head (byte " + std::to_string(head_at) +
                     ") fails its check");
    slots_.push_back(std::make_unique<LogSlot>(log_at(i, layout, *head)));
    slots_.back()->side = side_log_at(i, layout);
  }
  return {};
}

bool LogArea::lay_out(Primitives& primitives, RingLayout layout) {
  bool changed = false;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    LogSlot& slot = *slots_[i];
    const RingLayout found = slot.side != nullptr            ? RingLayout::kSideLog
                             : slot.log.tornbit() != nullptr ? RingLayout::kTornbit
                                                             : RingLayout::kLines;
    if (found == layout) continue;
    changed = changed || !is_virgin(i);
    mark_unused(primitives, slot);
    slot.log = log_at(i, layout, 0);
    slot.side = side_log_at(i, layout);
    slot.ready.store(false, std::memory_order_relaxed);
  }
  // Orders: nothing that recovery would miss, as prepare() waits, too. But what has been closed is to
  //         be found laid out so by the next program, which may not know the other layout.
  return !changed || primitives.fence(Site::kHeadFence);
}

/// Says that nothing of the slot's ring means anything. Durable: after a fence.
void LogArea::mark_unused(Primitives& primitives, const LogSlot& slot) {
  Word* const head = slot.log->ring().head_word;
  primitives.store(head, seal(0, TornbitLog::kHeadSalt));
  primitives.flush(head, kWordBytes, Site::kHead);
}

bool LogArea::prepare(Primitives& primitives, std::size_t index) {
  AnyDomain domain(primitives);
  LogSlot& slot = *slots_[index];
  if (!is_virgin(index)) return erase_remains(domain, slot);
  mark_unused(primitives, slot);
  // Orders: "never used" before the ring is written, perhaps for another layout than it has had. A
  //         process that was killed in lay_out() may have left that in caches only. Without it
  //         recovery could read what is written below as records of the layout before.
  if (!domain.fence(Site::kHeadFence)) return false;
  const std::uint64_t first = slot.log->first_position();
  slot.log.erase(domain, first, first + slot.log->ring().count);
  if (slot.side) slot.side->prepare(domain);
  // Orders: the ring before the head that vouches for it. Without it recovery could read as
  // records what was there.
  if (!domain.fence(Site::kEraseFence)) return false;
  slot.log->begin_at(first);
  slot.unfenced_from = first;
  slot.log->persist_head(domain);
  // Orders: the head before the first record. Without it recovery could skip an acknowledged one.
  return domain.fence(Site::kHeadFence);
}

/// A power cut can take back that changes have begun and leave a torn record: so the word that says
/// "unchanged" does not say that there is none.
bool LogArea::erase_remains(AnyDomain& domain, LogSlot& slot) {
  if (std::exchange(slot.searched, true) || !slot.log.has_remains(slot.log->tail())) return true;
  slot.log.erase_from(domain, slot.log->tail());
  // Orders: the erased words before the first record, as in recover().
  return domain.fence(Site::kEraseFence);
}

// ---- recovery -----------------------------------------------------------------------------------

Result<std::vector<LogArea::Record>> LogArea::collect(std::uint64_t& last_timestamp,
                                                      bool check_targets) {
  const auto retired = unseal(load_word(&region_->state()->retired_stamp.word), kSaltRetired);
  if (!retired) return damaged("the retired timestamp (byte 4160) fails its check");
  if (*retired >= kMaxTimestamp)
    return damaged("the retired timestamp (byte 4160) is out of range");
  last_timestamp = retired_ = *retired;
  std::vector<Record> records;
  dirty_.assign(slots_.size(), false);
  spilled_.clear();
  spilled_words_ = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (is_virgin(i)) continue;
    if (auto found = collect_side_log(i, *retired, check_targets, records); !found)
      return found.error();
    RecordLog::Reader reader = slots_[i]->log.reader();
    std::uint64_t end = reader.position();
    for (;;) {
      Record next;
      const record::Found found = reader.read(next.timestamp, next.entries);
      if (found == record::Found::kNothing) break;
      const std::string where =
          "log " + std::to_string(i) + ", the record at word " + std::to_string(end);
      if (found == record::Found::kCorrupt) return damaged(where + " fails its checksum");
      end = reader.position();
      dirty_[i] = true;
      if (next.timestamp <= *retired) continue;
      if (next.timestamp >= kMaxTimestamp)
        return damaged(where + " has a timestamp that is out of range");
      if (!expand_spill(next))
        return damaged(where + " names spilled entries that fail their checksum");
      if (check_targets && !targets_valid(next))
        return damaged(where + " writes outside the pool's data");
      records.push_back(std::move(next));
    }
    if (auto whole = find_hole(i, end, *retired); !whole) return whole.error();
    slots_[i]->searched = dirty_[i] || !region_->unchanged_since(*retired);
    dirty_[i] = dirty_[i] || (slots_[i]->searched && slots_[i]->log.has_remains(end));
  }
  for (const Record& record : records) last_timestamp = std::max(last_timestamp, record.timestamp);
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.timestamp < b.timestamp; });
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (records[i].timestamp == records[i - 1].timestamp)
      return damaged("two log records carry the timestamp " + std::to_string(records[i].timestamp));
  }
  forget_overtaken(records);
  return records;
}

/// An append begins only when all before it are durable. So where a whole one stands behind `end`,
/// at which reading ended, it was not a power cut that ended it. (What a recovery that was cut has
/// erased was retired, and what it found torn is not whole.) Errors: kCorrupt.
Result<void> LogArea::find_hole(std::size_t index, std::uint64_t end, std::uint64_t retired) {
  const LineLog* const log = slots_[index]->log.lines();
  if (log == nullptr) return {};
  const std::uint64_t limit = log->head() + log->ring().count;
  for (std::uint64_t at = end; (at = log->next_first_line(at)) < limit; at += LineLog::kLineWords) {
    LineLog::Reader reader(log->ring(), at, limit);
    std::uint64_t timestamp = 0;
    if (record::read(reader, timestamp, entries_) == record::Found::kRecord && timestamp > retired)
      return damaged("log " + std::to_string(index) + ", the record at word " +
                     std::to_string(end) + " is missing, but one at word " + std::to_string(at) +
                     " follows");
  }
  return {};
}

/// collect() for the side log of a slot. Errors: kCorrupt.
Result<void> LogArea::collect_side_log(std::size_t index, std::uint64_t retired, bool check_targets,
                                       std::vector<Record>& records) {
  SideLog* const side = slots_[index]->side.get();
  if (side == nullptr) return {};
  const auto take = [&](std::uint64_t timestamp, std::uint64_t place,
                        std::span<const MaskedWrite> writes) -> std::optional<std::string> {
    const std::string where = ", the transaction that ends at record " + std::to_string(place);
    if (timestamp >= kMaxTimestamp) return where + " has a timestamp that is out of range";
    Record record{timestamp, {}};
    record::encode_entries(writes, record.entries);
    if (check_targets && !targets_valid(record)) return where + " writes outside the pool's data";
    records.push_back(std::move(record));
    return std::nullopt;
  };
  if (const auto damage = side->collect(retired, take))
    return damaged("log " + std::to_string(index) + *damage);
  dirty_[index] = side->needs_settling();
  return {};
}

Result<RecoveryReport> LogArea::recover(Primitives& primitives) {
  AnyDomain domain(primitives);
  RecoveryReport report;
  auto collected = collect(report.last_stamp);
  if (!collected) return collected.error();
  const bool any_dirty = std::find(dirty_.begin(), dirty_.end(), true) != dirty_.end();
  report.unchanged = !any_dirty && region_->unchanged_since(retired_);
  if (!report.unchanged) adopt(domain);
  // Orders: the records before their home words. Without it a crash could keep a part of the home
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
  // Orders: home words before the timestamp that makes recovery ignore their records.
  durable = (report.records_replayed == 0 || domain.fence(Site::kReplayFence)) && durable;
  if (any_dirty) durable = store_retired_timestamp(primitives, report.last_stamp) && durable;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!dirty_[i]) continue;
    slots_[i]->log.erase_from(domain, slots_[i]->log->head());
    if (slots_[i]->side) slots_[i]->side->settle(domain);
    ++report.logs_erased;
  }
  // Orders: the erased and adopted words before the first new record. Without it a crash could keep
  // the start of that record and, behind it, the rest of an old one; or a head and a size from
  // before what it builds on.
  if (!report.unchanged) durable = domain.fence(Site::kEraseFence) && durable;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i]->unfenced_from = slots_[i]->log->tail();
    if (slots_[i]->side && !is_virgin(i)) slots_[i]->side->empty();
  }
  if (!durable)
    return Error{Code::kIo,
                 region_->path() + ": a sync failed during recovery; nothing was lost, reopen"};
  return report;
}

void LogArea::begin_unchanged() {
  const std::lock_guard lock(changing_mutex_);
  changing_.store(false, std::memory_order_relaxed);
  const auto retired = unseal(load_word(&region_->state()->retired_stamp.word), kSaltRetired);
  if (retired && !region_->unchanged_since(*retired)) region_->say_unchanged(*retired);
}

bool LogArea::begin_changes() {
  if (!is_unchanged()) return true;
  const std::lock_guard lock(changing_mutex_);
  if (!is_unchanged()) return true;
  if (!region_->say_changed()) return false;
  changing_.store(true, std::memory_order_release);
  return true;
}

/// Starts the write-back of all that collect() believed.
void LogArea::adopt(AnyDomain& domain) const {
  domain.flush(region_->state(), sizeof(StatePage), Site::kAdopt);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (is_virgin(i)) continue;
    slots_[i]->log->adopt(domain);
    if (slots_[i]->side) slots_[i]->side->adopt(domain);
  }
  for (const Spilled& spilled : spilled_) {
    domain.flush(region_->word(spilled.offset), spilled.words * kWordBytes, Site::kAdopt);
  }
}

Error LogArea::damaged(const std::string& what) const {
  return {Code::kCorrupt, region_->path() + ": " + what + "; restore the pool from a backup"};
}

/// Where records may write: roots, the segment table of the grown part, and the heap.
bool LogArea::target_valid(Offset offset) const {
  const Superblock& super = region_->superblock();
  return is_aligned(offset, kWordBytes) &&
         (inside(offset, kWordBytes, super.root_offset, super.head_offset) ||
          inside(offset, kWordBytes, super.segment_table_offset,
                 super.segment_table_offset + region_->segments() * kWordBytes) ||
          inside(offset, kWordBytes, super.heap_offset, region_->grown_bytes()) ||
          region_->in_part(offset, kWordBytes));
}

bool LogArea::targets_valid(const Record& record) const {
  return record::for_each(
      record.entries, [&](const MaskedWrite& write) { return target_valid(write.offset); },
      [](Offset, Word, Word) { return false; },
      [&](Offset offset, std::uint64_t words) {
        return inside(offset, words * kWordBytes, region_->superblock().heap_offset,
                      region_->grown_bytes());
      });
}

/// Removes from each record the words that a later record says were initialised in place, and the
/// entries that say so.
void LogArea::forget_overtaken(std::vector<Record>& records) {
  InPlaceSpans spans;
  for (const Record& record : records) {
    record::for_each(
        record.entries, [](const MaskedWrite&) { return true; },
        [](Offset, Word, Word) { return false; },
        [&](Offset offset, std::uint64_t words) {
          spans.add(offset, words * kWordBytes, record.timestamp);
          return true;
        });
  }
  if (spans.empty()) return;
  std::vector<MaskedWrite> writes;
  for (Record& record : records) {
    writes.clear();
    for_each_write(record, [&](const MaskedWrite& write) {
      if (!spans.overtakes(write.offset, record.timestamp)) writes.push_back(write);
    });
    record.entries.clear();
    if (!writes.empty()) record::encode_entries(writes, record.entries);
  }
}

/// Copies spilled entries into the record, before any replay can overwrite the place where they
/// stand.
bool LogArea::expand_spill(Record& record) {
  if (record.entries.empty() || record::entry_kind(record.entries[0]) != record::Kind::kSpill)
    return true;
  if (record.entries.size() != 3) return false;
  const Offset offset = record::entry_offset(record.entries[0]);
  const std::uint64_t count = record.entries[1];
  // Spilled records each stand in space of their own, so together they cannot be larger than the
  // pool. Without this check a small file that names the same place in many records would take any
  // amount of memory.
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

// ---- truncation ---------------------------------------------------------------------------------

bool LogArea::store_retired_timestamp(Primitives& primitives, std::uint64_t timestamp) {
  Word* const word = &region_->state()->retired_stamp.word;
  primitives.store(word, seal(timestamp, kSaltRetired));
  primitives.flush(word, kWordBytes, Site::kRetire);
  // Orders: the timestamp before any head moves and before any ring word is reused or erased.
  return primitives.fence(Site::kRetireFence);
}

bool LogArea::truncate(Primitives& primitives, std::uint64_t last_timestamp, Site home_site) {
  AnyDomain domain(primitives);
  lines_.clear();
  for (auto& slot : slots_) {
    if (!slot->log->is_empty()) note_lines(slot->log, slot->unfenced_from, last_timestamp);
  }
  begin_side_truncations(domain, last_timestamp, false);
  flush_lines(primitives, home_site);
  // Orders: all home words before the timestamp that makes recovery ignore their records.
  bool durable = primitives.fence(Site::kTruncateHome);
  durable = durable && store_retired_timestamp(primitives, last_timestamp);
  if (!durable) return false;  // the records stay
  for (auto& slot : slots_) {
    if (slot->log->is_empty()) continue;
    slot->log->truncate();
    slot->log->persist_head(domain);
    slot->unfenced_from = slot->log->tail();
  }
  end_side_truncations();
  // Orders: the heads before the words behind them are written again: recovery starts reading at
  // the head, and a word of the next lap there would look like the end of the log.
  return primitives.fence(Site::kHeadFence);
}

bool LogArea::consume(Primitives& primitives, std::uint64_t last_timestamp, Homes homes,
                      HomeWriter* elsewhere) {
  AnyDomain domain(primitives);
  lines_.clear();
  consumed_.clear();
  if (elsewhere != nullptr) {
    bring_home(*elsewhere, last_timestamp);
  } else {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const RecordLog& log = slots_[i]->log;
      if (log->is_empty()) continue;
      const std::uint64_t end = note_lines(log, log->head(), last_timestamp);
      if (end != log->head()) consumed_.emplace_back(i, end);
    }
  }
  if (!begin_side_truncations(domain, last_timestamp, true) && consumed_.empty()) return true;
  if (homes == Homes::kFlush) {
    flush_lines(primitives, Site::kHomeBulk);
    // Orders: all home words before the timestamp that makes recovery ignore their records.
    if (!primitives.fence(Site::kTruncateHome)) return false;
  }
  if (!store_retired_timestamp(primitives, last_timestamp)) return false;
  end_side_truncations();
  if (consumed_.empty()) return true;
  for (const auto& [index, end] : consumed_) slots_[index]->log->persist_head_at(domain, end);
  // Orders: the heads before the words behind them are written again, as in truncate().
  if (!primitives.fence(Site::kHeadFence)) return false;
  for (const auto& [index, end] : consumed_) {
    slots_[index]->unfenced_from = end;
    slots_[index]->log->truncate_to(end);
  }
  return true;
}

bool LogArea::drop(Primitives& primitives, std::size_t index) {
  AnyDomain domain(primitives);
  LogSlot& slot = *slots_[index];
  const std::uint64_t end = slot.log->tail();
  slot.log->persist_head_at(domain, end);
  // Orders: the head before the words behind it are written again, as in truncate().
  if (!domain.fence(Site::kHeadFence)) return false;
  slot.log->truncate_to(end);
  slot.unfenced_from = end;
  return true;
}

/// False: no side log has anything to truncate.
bool LogArea::begin_side_truncations(AnyDomain& domain, std::uint64_t last_timestamp, bool all) {
  truncating_.clear();
  for (auto& slot : slots_) {
    if (slot->side && slot->side->holds_closed() &&
        slot->side->begin_truncation(domain, last_timestamp, all, lines_))
      truncating_.push_back(slot->side.get());
  }
  return !truncating_.empty();
}

void LogArea::end_side_truncations() {
  for (SideLog* side : truncating_) side->end_truncation();
}

/// Adds the lines that the records of `log` from `from` on touch, as far as `last_timestamp`;
/// returns where those end.
std::uint64_t LogArea::note_lines(const RecordLog& log, std::uint64_t from,
                                  std::uint64_t last_timestamp) {
  RecordLog::Reader reader = log.reader(from, log->tail());
  std::uint64_t end = from;
  std::uint64_t timestamp = 0;
  const auto note = [&](const MaskedWrite& write) {
    note_line(write.offset);
    return true;
  };
  while (reader.read(timestamp, entries_) == record::Found::kRecord &&
         timestamp <= last_timestamp) {
    end = reader.position();
    record::for_each(entries_, note, [&](Offset offset, Word count, Word) {
      return record::for_each({region_->word(offset), count}, note,
                              [](Offset, Word, Word) { return false; });
    });
  }
  return end;
}

/// One log's records, one after the other.
struct LogArea::Cursor {
  std::size_t slot;
  RecordLog::Reader reader;
  std::uint64_t end;        // of the last record that was brought home
  std::uint64_t timestamp;  // of the next one
  std::vector<Word> entries;
  bool next() { return reader.read(timestamp, entries) == record::Found::kRecord; }
};

/// Stores home what the records up to `last_timestamp` say, oldest first, so that an older word
/// never comes after a newer one, and notes its lines. The values come from the records, because
/// the pages may hold what is not committed.
void LogArea::bring_home(HomeWriter& home, std::uint64_t last_timestamp) {
  std::vector<Cursor> logs;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const RecordLog& log = slots_[i]->log;
    if (log->is_empty()) continue;
    logs.push_back({i, log.reader(log->head(), log->tail()), log->head(), 0, {}});
    if (!logs.back().next()) logs.pop_back();
  }
  const auto bring = [&](const MaskedWrite& write) {
    home.bring_home(region_->word(write.offset), write.value, write.mask);
    note_line(write.offset);
    return true;
  };
  while (!logs.empty()) {
    const auto oldest = std::min_element(
        logs.begin(), logs.end(),
        [](const Cursor& a, const Cursor& b) { return a.timestamp < b.timestamp; });
    if (oldest->timestamp > last_timestamp) break;
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
    if (log.end != slots_[log.slot]->log->head()) consumed_.emplace_back(log.slot, log.end);
  }
}

/// Starts the write-back of the lines noted, each once.
void LogArea::flush_lines(Primitives& primitives, Site site) {
  for (const Offset line : lines_) primitives.flush(region_->at<std::byte>(line), kLineBytes, site);
}

}  // namespace perdure
