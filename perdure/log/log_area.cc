// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/log_area.h"

#include <algorithm>
#include <bit>

namespace perdure {
namespace {

unsigned doublings(std::uint64_t rings) { return static_cast<unsigned>(std::countr_zero(rings)); }

}  // namespace

// ---- rings --------------------------------------------------------------------------------------

Ring LogArea::ring_at(std::size_t index) const {
  const Superblock& super = region_->superblock();
  return {region_->word(super.ring_offset + index * super.geometry.ring_bytes),
          (index == 0 ? length_bytes() : super.geometry.ring_bytes) / kWordBytes,
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
  const std::uint16_t salt =
      index == 0 && rings_ > 1 ? salt_of_long_head(doublings(rings_)) : TornbitLog::kHeadSalt;
  return RecordLog(TornbitLog(ring, head, head, salt));
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
    if (!head && i == 0) head = unseal_long_head(sealed);
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
    if (i > 0 && i < rings_ && *head != 0)
      return damaged("log " + std::to_string(i) + " (head at byte " + std::to_string(head_at) +
                     ") is in use, but its ring is a part of log 0");
    slots_.push_back(std::make_unique<LogSlot>(log_at(i, layout, *head)));
    slots_.back()->side = side_log_at(i, layout);
  }
  return {};
}

/// The head of the first log if it takes more than its ring: then rings_ says how many.
std::optional<std::uint64_t> LogArea::unseal_long_head(Word sealed) {
  const Superblock& super = region_->superblock();
  if (super.version < kLongLogSinceVersion) return std::nullopt;
  const std::uint64_t most = std::min<std::uint64_t>(super.geometry.log_slots,
                                                     kLongestLogBytes / super.geometry.ring_bytes);
  for (std::uint64_t rings = 2; rings <= most; rings *= 2) {
    const auto head = unseal(sealed, salt_of_long_head(doublings(rings)));
    if (!head) continue;
    rings_ = rings;
    return head;
  }
  return std::nullopt;
}

bool LogArea::may_double() const {
  const Superblock& super = region_->superblock();
  return super.version >= kLongLogSinceVersion && slots_[0]->log.tornbit() != nullptr &&
         slots_[0]->side == nullptr && 2 * rings_ <= slots_.size() &&
         2 * length_bytes() <= kLongestLogBytes;
}

LogArea::Doubling LogArea::prepare_to_double(Primitives& primitives) {
  AnyDomain domain(primitives);
  const Superblock& super = region_->superblock();
  const Ring& half = slots_[0]->log->ring();
  if (!region_->backing().allocate(super.ring_offset + length_bytes(), length_bytes()))
    return Doubling::kNoSpace;
  for (std::uint64_t i = rings_; i < 2 * rings_; ++i) mark_unused(primitives, *slots_[i]);
  const std::uint64_t tail = slots_[0]->log->tail();
  prepared_for_ = half.torn(tail);
  const Ring both{half.words, 2 * half.count, half.head_word};
  const std::uint64_t lap = tail / half.count * both.count;
  const TornbitLog log(both, lap, lap);
  // Piece by piece, because other fences wait for one under way.
  constexpr std::uint64_t kPieceWords = (std::uint64_t{1} << 20) / kWordBytes;
  for (std::uint64_t done = 0; done < half.count;) {
    const std::uint64_t piece = std::min(kPieceWords, half.count - done);
    log.erase(domain, lap + half.count + done, lap + half.count + done + piece, Site::kDouble);
    done += piece;
    // The fence of double_length() would be enough; but nobody appends while that one is waited for.
    if (!domain.fence(Site::kLongHeadFence)) return Doubling::kStorageFailed;
  }
  return Doubling::kDone;
}

LogArea::Doubling LogArea::double_length(Primitives& primitives) {
  AnyDomain domain(primitives);
  LogSlot& slot = *slots_[0];
  RingLog& log = *slot.log;
  if (!log.is_on_one_lap() || log.ring().torn(log.tail()) != prepared_for_)
    return Doubling::kNotYet;
  const std::uint64_t words = 2 * log.ring().count;
  const std::uint16_t salt = salt_of_long_head(doublings(2 * rings_));
  log.persist_head_in(domain, words, salt);
  // Orders: the other half, and the head that leads there, before an append to it. Without it recovery
  //         would not find what another thread appends, or read on behind it what has stood there.
  if (!domain.fence(Site::kLongHeadFence)) return Doubling::kStorageFailed;
  log.go_on_in(words, salt);
  slot.unfenced_from = log.head();
  rings_ *= 2;
  for (std::uint64_t i = rings_ / 2; i < rings_; ++i)
    slots_[i]->log = log_at(i, RingLayout::kTornbit, 0);
  return Doubling::kDone;
}

bool LogArea::shorten(Primitives& primitives) {
  if (rings_ == 1) return true;
  LogSlot& slot = *slots_[0];
  const Offset behind = region_->superblock().ring_offset + region_->geometry().ring_bytes;
  const std::uint64_t bytes = length_bytes() - region_->geometry().ring_bytes;
  mark_unused(primitives, slot);
  rings_ = 1;
  slot.log = log_at(0, RingLayout::kTornbit, 0);
  slot.unfenced_from = 0;
  slot.ready.store(false, std::memory_order_relaxed);
  // Orders: the head before the space goes that it led to.
  if (!primitives.fence(Site::kHeadFence)) return false;
  region_->backing().release(behind, bytes);
  return true;
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
  last_work_ = {};
  for (auto& slot : slots_) {
    if (slot->log->is_empty()) continue;
    note_lines(slot->log, slot->unfenced_from, last_timestamp);
    last_work_.log_bytes += (slot->log->tail() - slot->log->head()) * kWordBytes;
  }
  last_work_.home_bytes = lines_.size() * line_bytes_;
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
  last_work_ = {};
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
  for (const auto& [index, end] : consumed_)
    last_work_.log_bytes += (end - slots_[index]->log->head()) * kWordBytes;
  last_work_.home_bytes = lines_.size() * line_bytes_;
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
  const auto note = [&](Offset offset, std::uint64_t words) {
    const Offset extent_end = offset + words * kWordBytes;
    for (; offset < extent_end; offset = round_down(offset, line_bytes_) + line_bytes_)
      note_line(offset);
  };
  while (reader.read(timestamp, entries_) == record::Found::kRecord &&
         timestamp <= last_timestamp) {
    end = reader.position();
    record::for_each_extent(entries_, note, [&](Offset offset, Word count, Word) {
      return record::for_each_extent({region_->word(offset), count}, note,
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
  sorted_.assign(lines_.begin(), lines_.end());
  // In the order of the file: what is written at the same time then lies together.
  if (line_bytes_ == kPageBytes) std::sort(sorted_.begin(), sorted_.end());
  for (const Offset line : sorted_)
    primitives.flush(region_->at<std::byte>(line), line_bytes_, site);
}

}  // namespace perdure
