// SPDX-License-Identifier: BSD-3-Clause
// What the logs hold after a crash, checked, and how a pool goes on from there.
#include <algorithm>

#include "perdure/base/crc32c.h"
#include "perdure/log/in_place_spans.h"
#include "perdure/log/log_area.h"

namespace perdure {
namespace {

/// A million commits a second reach it in four years. In a file that claims more, the next
/// timestamps would soon overflow their 48 bits.
constexpr std::uint64_t kMaxTimestamp = std::uint64_t{1} << 47;

}  // namespace

Result<std::vector<LogArea::Record>> LogArea::collect(std::uint64_t& last_timestamp,
                                                      bool check_targets) {
  if (auto read = read_retired_timestamp(); !read) return read.error();
  last_timestamp = retired_;
  std::vector<Record> records;
  dirty_.assign(slots_.size(), false);
  spilled_.clear();
  spilled_words_ = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (is_virgin(i)) continue;
    if (auto found = collect_side_log(i, retired_, check_targets, records); !found)
      return found.error();
    auto read = collect_log(i, check_targets, records);
    if (!read && log_damage_ == nullptr) return read.error();
    if (!read) log_damage_->push_back(read.error().message);
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

/// collect() for one log: what is whole up to the first damage. Errors: kCorrupt.
Result<void> LogArea::collect_log(std::size_t index, bool check_targets,
                                  std::vector<Record>& records) {
  LogSlot& slot = *slots_[index];
  RecordLog::Reader reader = slot.log.reader();
  std::uint64_t end = reader.position();
  std::uint64_t last = retired_;
  for (;;) {
    Record next;
    const record::Found found = reader.read(next.timestamp, next.entries);
    if (found == record::Found::kNothing) break;
    dirty_[index] = true;
    const auto bad = [&](const char* what) {
      return damaged("log " + std::to_string(index) + ", the record at word " +
                     std::to_string(end) + what);
    };
    if (found == record::Found::kCorrupt) return bad(" fails its checksum");
    if (next.timestamp > retired_) {
      if (next.timestamp >= kMaxTimestamp) return bad(" has a timestamp that is out of range");
      if (!expand_spill(next)) return bad(" names spilled entries that fail their checksum");
      if (check_targets && !targets_valid(next)) return bad(" writes outside the pool's data");
    }
    end = reader.position();
    if (next.timestamp <= retired_) continue;
    last = std::max(last, next.timestamp);
    records.push_back(std::move(next));
  }
  slot.searched = dirty_[index] || !region_->unchanged_since(retired_);
  dirty_[index] = dirty_[index] || (slot.searched && slot.log.has_remains(end));
  if (!slot.searched && slot.log.lines() == nullptr) return {};
  return find_hole(index, end, last);
}

/// In a line log, an append begins only when all before it are durable. So where a whole one stands
/// behind `end`, at which reading ended, it was not a power cut that ended it. (What a recovery that was
/// cut has erased was retired, and what it found torn is not whole.) A torn-bit log may be many
/// threads', which do not wait for each other: there it is damage where a record behind `end` says
/// that one after `last`, the last that was read or is retired, was durable.
/// Errors: kCorrupt.
Result<void> LogArea::find_hole(std::size_t index, std::uint64_t end, std::uint64_t last) {
  const auto missing = [&](std::uint64_t at) {
    return damaged("log " + std::to_string(index) + ", the record at word " + std::to_string(end) +
                   " is missing, but one at word " + std::to_string(at) + " follows");
  };
  std::uint64_t timestamp = 0;
  if (const LineLog* const log = slots_[index]->log.lines()) {
    const std::uint64_t limit = log->head() + log->ring().count;
    for (std::uint64_t at = end; (at = log->next_first_line(at)) < limit;
         at += LineLog::kLineWords) {
      LineLog::Reader reader(log->ring(), at, limit);
      if (record::read(reader, timestamp, entries_) == record::Found::kRecord &&
          timestamp > retired_)
        return missing(at);
    }
    return {};
  }
  const TornbitLog& log = *slots_[index]->log.tornbit();
  const std::uint64_t limit = log.end_of_remains(end);
  for (std::uint64_t at = end; at < limit; ++at) {
    // Most places are told by the first word: it is not of this lap, or no timestamp that comes next.
    TornbitLog::Reader first(log.ring(), at, limit);
    Word header = 0;
    if (!first.next(header)) continue;
    timestamp = header & (kMaxTimestamp - 1);
    if (timestamp <= last || timestamp - last > log.ring().count) continue;
    TornbitLog::Reader reader(log.ring(), at, limit);
    if (record::read(reader, timestamp, entries_) == record::Found::kRecord &&
        record::stated_durable(entries_) > last && record::stated_durable(entries_) < timestamp)
      return missing(at);
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

Result<RecoveryReport> LogArea::recover(Primitives& primitives, Records what) {
  AnyDomain domain(primitives);
  RecoveryReport report;
  if (what == Records::kKeep && log_damage_ == nullptr) {
    auto kept = keep_records(domain);
    if (!kept) return kept.error();
    if (kept.value()) return *kept.value();
  }
  auto collected = collect(report.last_stamp);
  if (!collected) return collected.error();
  // Nothing is thrown away because it could not be read.
  if (auto lost = region_->loss()) return *lost;
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
    if (i > 0 || rings_ == 1) slots_[i]->log.erase_from(domain, slots_[i]->log->head());
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
  durable = shorten(primitives) && durable;
  if (!durable) return sync_failed();
  return report;
}

Result<void> LogArea::read_retired_timestamp() {
  const auto retired = unseal(load_word(&region_->state()->retired_stamp.word), kSaltRetired);
  if (!retired) return damaged("the retired timestamp (byte 4160) fails its check");
  if (*retired >= kMaxTimestamp)
    return damaged("the retired timestamp (byte 4160) is out of range");
  retired_ = *retired;
  return {};
}

/// Reads the records of the first log above the retired timestamp. Nothing if recovery cannot keep
/// them there: because there are none, there are others in other logs, or not all that they write
/// stands in them. Errors: kCorrupt.
Result<std::optional<LogArea::Kept>> LogArea::find_records_to_keep() {
  using None = std::optional<Kept>;
  if (auto read = read_retired_timestamp(); !read) return read.error();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (is_virgin(i) != (i != 0)) return None();
  }
  if (slots_[0]->log.tornbit() == nullptr || slots_[0]->side) return None();
  RecordLog::Reader reader = slots_[0]->log.reader();
  Kept kept{};
  for (;;) {
    std::uint64_t timestamp = 0;
    const std::uint64_t start = kept.end = reader.position();
    const record::Found found = reader.read(timestamp, entries_);
    if (found == record::Found::kNothing) break;
    const auto bad = [&](const char* what) {
      return damaged("log 0, the record at word " + std::to_string(start) + what);
    };
    if (found == record::Found::kCorrupt) return bad(" fails its checksum");
    if (timestamp <= retired_) continue;
    if (timestamp >= kMaxTimestamp) return bad(" has a timestamp that is out of range");
    if (timestamp <= kept.last_timestamp) return None();  // collect() says what is wrong
    bool valid = true;
    const bool here = record::for_each(
        entries_,
        [&](const MaskedWrite& write) {
          valid = valid && target_valid(write.offset);
          ++kept.words;
          return true;
        },
        [](Offset, Word, Word) { return false; }, [](Offset, std::uint64_t) { return false; });
    if (!here) return None();
    if (!valid) return bad(" writes outside the pool's data");
    kept.last_timestamp = timestamp;
    ++kept.records;
  }
  if (kept.records == 0) return None();
  if (auto whole = find_hole(0, kept.end, kept.last_timestamp); !whole) return whole.error();
  return std::optional<Kept>(kept);
}

Result<std::optional<RecoveryReport>> LogArea::keep_records(AnyDomain& domain) {
  auto found = find_records_to_keep();
  if (!found) return found.error();
  if (!found.value()) return std::optional<RecoveryReport>();
  if (auto lost = region_->loss()) return *lost;
  const Kept& kept = *found.value();
  LogSlot& slot = *slots_[0];
  TornbitLog& log = *slot.log.tornbit();
  const bool began = begin_changes();
  domain.flush(region_->state(), sizeof(StatePage), Site::kAdopt);
  if (region_->superblock().generation != 0) {
    for (const Offset copy : {Offset{0}, kSecondSuperblockOffset})
      domain.flush(region_->at<Superblock>(copy), sizeof(Superblock), Site::kAdopt);
  }
  log.adopt(domain, kept.end);
  log.erase(domain, kept.end, log.end_of_remains(kept.end));
  log.continue_at(kept.end);
  slot.unfenced_from = log.head();
  // Orders: the records before all that the program does with what they say; what is erased before
  //         the first new record. Without it a crash could take back what has been read, or what new
  //         records build on, or read half of an old record behind a new one.
  const bool durable = began && domain.fence(Site::kAdoptFence);
  RecordLog::Reader reader = slot.log.reader(log.head(), kept.end);
  std::uint64_t timestamp = 0;
  while (reader.read(timestamp, entries_) == record::Found::kRecord) {
    if (timestamp <= retired_) continue;
    record::for_each(
        entries_,
        [&](const MaskedWrite& write) {
          apply(domain, write);
          return true;
        },
        [](Offset, Word, Word) { return false; });
  }
  if (!durable) return sync_failed();
  RecoveryReport report;
  report.records_replayed = kept.records;
  report.words_replayed = kept.words;
  report.last_stamp = kept.last_timestamp;
  return std::optional<RecoveryReport>(report);
}

Error LogArea::sync_failed() const {
  return {Code::kIo, region_->path() + ": a sync failed during recovery; nothing was lost, reopen"};
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
  if (region_->superblock().generation != 0) {
    for (const Offset copy : {Offset{0}, kSecondSuperblockOffset})
      domain.flush(region_->at<Superblock>(copy), sizeof(Superblock), Site::kAdopt);
  }
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

bool LogArea::in_heap(Offset offset, std::uint64_t bytes) const {
  return inside(offset, bytes, region_->superblock().heap_offset, region_->grown_bytes()) &&
         !region_->overlaps_tables(offset, bytes);
}

/// Where records may write: roots, the segment table of the grown part, and the heap.
bool LogArea::target_valid(Offset offset) const {
  const Superblock& super = region_->superblock();
  return is_aligned(offset, kWordBytes) &&
         (inside(offset, kWordBytes, super.root_offset, roots_of(super).end()) ||
          inside(offset, kWordBytes, super.segment_table_offset,
                 super.segment_table_offset + region_->segments() * kWordBytes) ||
          in_heap(offset, kWordBytes) || region_->in_part(offset, kWordBytes));
}

bool LogArea::targets_valid(const Record& record) const {
  return record::for_each(
      record.entries, [&](const MaskedWrite& write) { return target_valid(write.offset); },
      [](Offset, Word, Word) { return false; },
      [&](Offset offset, std::uint64_t words) { return in_heap(offset, words * kWordBytes); });
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
  if (spilled_words_ > region_->grown_bytes() / kWordBytes || !in_heap(offset, count * kWordBytes))
    return false;
  std::vector<Word> entries(count);
  for (std::uint64_t i = 0; i < count; ++i)
    entries[i] = load_word(region_->word(offset + i * kWordBytes));
  if (crc32c(entries.data(), count * kWordBytes) != record.entries[2]) return false;
  record.entries = std::move(entries);
  spilled_.push_back({offset, count});
  return true;
}

}  // namespace perdure
