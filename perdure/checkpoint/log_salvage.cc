// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/log_salvage.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace perdure::checkpoint {
namespace {

constexpr Offset kBetweenHoles = Offset{64} << 10;

/// The seed with which the record has the checksum that it has. Each bit of a seed flips the same
/// bits of the sum, whatever the others are: 32 equations, one for each bit of the sum.
std::uint32_t seed_of_record(const LogReader::Found& found) {
  const auto sum = [&](std::uint32_t seed) {
    return crc_of_record(found.record, found.payload, seed);
  };
  const std::uint32_t of_zero = sum(0);
  struct Row {
    std::uint32_t flips;  // of the sum
    std::uint32_t bits;   // of the seed
  };
  std::array<Row, 32> rows{};
  for (std::uint32_t bit = 0; bit < 32; ++bit) rows[bit] = {sum(1u << bit) ^ of_zero, 1u << bit};
  std::uint32_t left = found.record.crc ^ of_zero;
  std::uint32_t seed = 0;
  for (std::size_t done = 0; done < rows.size(); ++done) {
    const std::uint32_t flip = std::bit_floor(rows[done].flips);
    // The rows that are left are independent: one of them has the highest bit, or none needs it.
    for (std::size_t other = done + 1; other < rows.size(); ++other) {
      if ((rows[other].flips & flip) == 0) continue;
      rows[other] = {rows[other].flips ^ rows[done].flips, rows[other].bits ^ rows[done].bits};
    }
    for (std::size_t other = 0; other < done; ++other) {
      if ((rows[other].flips & flip) == 0) continue;
      rows[other] = {rows[other].flips ^ rows[done].flips, rows[other].bits ^ rows[done].bits};
    }
  }
  for (const Row& row : rows) {
    if ((left & std::bit_floor(row.flips)) == 0) continue;
    left ^= row.flips;
    seed ^= row.bits;
  }
  return seed;
}

}  // namespace

Result<LogSalvage> LogSalvage::of(Storage& storage, const ArenaSuperblock& super,
                                  const std::string& name) {
  LogSalvage salvage(storage, super, name);
  if (auto read = salvage.read(); !read) return read.error();
  return salvage;
}

Result<void> LogSalvage::read() {
  read_head(0);
  read_head(1);
  if (auto ordered = order(); !ordered) return ordered;
  if (auto state = read_state(); !state) return state;
  read_groups(0);
  read_groups(1);
  epoch_ = known_after_ = home_epoch_;
  while (groups_.contains(epoch_ + 1)) ++epoch_;
  while (groups_.contains(known_after_)) --known_after_;
  if (!groups_.empty() && groups_.rbegin()->first > epoch_)
    believe(groups_.rbegin()->first,
            "epoch " + std::to_string(groups_.rbegin()->first) + " is behind it");
  if (uses_[1].known)
    believe(uses_[1].first_epoch - 1, at(uses_[1].segment) + " was begun behind it");
  // Where nothing confirms what the records' sums start from, they cannot be checked, but read.
  for (const Use& use : uses_) {
    if (use.known || !head_seems_spoilt_[use.segment]) continue;
    LogReader log(*storage_, *super_, use.segment, 0, 0, true);
    const auto found = log.record_at(begin_of(use), LogReader::kAnyEpoch);
    if (!found || found->record.epoch <= epoch_) continue;
    const std::uint64_t first = found->record.epoch;
    LogReader groups(*storage_, *super_, use.segment, first, 0, true);
    std::uint64_t count = 0;
    while (groups.next()) ++count;
    if (count > 0) believe(first + count - 1, at(use.segment) + ", whose head is damaged, has it");
  }
  return {};
}

void LogSalvage::read_head(int segment) {
  SegmentHead head{};
  (void)storage_->read(&head, sizeof(head), super_->segment_offset[segment]);
  Use& use = uses_[segment];
  use.segment = segment;
  if (head.magic == kSegmentMagic && crc_of(head) == head.crc && head.first_epoch != 0 &&
      head.first_epoch < kMostEpochs && head.generation < kMostEpochs) {
    use = {true, segment, seed_of(head), head.first_epoch, head.generation};
    return;
  }
  const auto* const bytes = reinterpret_cast<const std::byte*>(&head);
  head_seems_spoilt_[segment] =
      std::any_of(bytes, bytes + sizeof(head), [](auto byte) { return byte != std::byte{0}; });
  if (!find_seed(use)) return;
  use.known = true;
  mended_.push_back(at(segment) + ": its head is damaged; what it said follows from the records");
}

/// Its first record gives a seed, and the one behind it has to agree. Only the first: further back
/// may be what an earlier use has left.
bool LogSalvage::find_seed(Use& use) const {
  LogReader unchecked(*storage_, *super_, use.segment, 0, 0, true);
  const auto found = unchecked.record_at(begin_of(use), LogReader::kAnyEpoch);
  if (!found) return false;
  const std::uint64_t epoch = found->record.epoch;
  const std::uint64_t next = epoch + (found->record.kind == RecordKind::kCommit ? 1 : 0);
  const Offset behind = begin_of(use) + sizeof(Record) + payload_bytes(found->record);
  const std::uint32_t seed = seed_of_record(*found);
  LogReader checked(*storage_, *super_, use.segment, epoch, seed);
  if (!checked.record_at(behind, next)) return false;
  use.seed = seed;
  use.first_epoch = epoch;
  return true;
}

/// Which of two uses is the older one.
Result<void> LogSalvage::order() {
  Use& first = uses_[0];
  Use& second = uses_[1];
  if (!first.known || !second.known) {
    if (second.known) return {};
    if (first.known) std::swap(first, second);
    return {};
  }
  bool swapped = first.first_epoch > second.first_epoch;
  if (first.generation != 0 && second.generation != 0) {
    swapped = first.generation > second.generation;
  } else if (first.first_epoch == second.first_epoch) {
    return Error{Code::kCorrupt, name_ + ": both log segments begin with epoch " +
                                     std::to_string(first.first_epoch) +
                                     ", and which of them counts is damaged; restore it from a "
                                     "backup"};
  }
  if (swapped) std::swap(first, second);
  return {};
}

Result<void> LogSalvage::read_state() {
  bool told = false;
  for (const Offset at : kStateOffset) {
    StateSlot state{};
    (void)storage_->read(&state, sizeof(state), at);
    if (state.magic != kStateMagic || crc_of(state) != state.crc ||
        state.home_epoch >= kMostEpochs) {
      const auto* const bytes = reinterpret_cast<const std::byte*>(&state);
      if (std::any_of(bytes, bytes + sizeof(state), [](auto b) { return b != std::byte{0}; }))
        mended_.push_back("the state slot at byte " + std::to_string(at) + " is damaged");
      continue;
    }
    told = true;
    home_epoch_ = std::max(home_epoch_, state.home_epoch);
  }
  // The newer segment was begun when home had all that it held before: what came before the older
  // one. The first segment of all has epoch 1.
  const Use& oldest = uses_[0].known ? uses_[0] : uses_[1];
  const bool tells = uses_[0].known || oldest.first_epoch == 1;
  if (oldest.known && tells && (!told || oldest.first_epoch - 1 > home_epoch_)) {
    told = true;
    home_epoch_ = oldest.first_epoch - 1;
    mended_.push_back("the state slots: the log tells that home has epoch " +
                      std::to_string(home_epoch_));
  }
  if (told) return {};
  return Error{Code::kCorrupt,
               name_ +
                   ": neither state slot (bytes 4096 and 8192) checks, and the log "
                   "does not tell which epoch home holds; restore it from a backup"};
}

/// Whole groups, and what the others prove.
void LogSalvage::read_groups(int number) {
  const Use& use = uses_[number];
  if (!use.known) return;
  end_ = begin_of(use);
  Group group{};
  std::uint64_t count = 0;
  std::uint32_t chain = 0;
  std::uint64_t newest = 0;
  for_each_record(use, [&](Offset at, const LogReader::Found& found) {
    const Record& record = found.record;
    if (record.epoch >= end_of(number)) return;
    newest = std::max(newest, record.epoch);
    end_ = at + sizeof(Record) + payload_bytes(record);
    if (record.epoch != group.epoch || at != group.end) {
      group = {record.epoch, at, at};
      count = 0;
      chain = 0;
    }
    group.end = at + sizeof(Record) + payload_bytes(record);
    if (record.kind == RecordKind::kCommit) {
      if (record.argument == count && record.page == chain) {
        groups_[record.epoch] = {number, group};
      }
      group = {};
      return;
    }
    chain = crc32c(&record.crc, sizeof(record.crc), chain);
    ++count;
  });
  if (newest == 0) return;
  // Nothing of an epoch is written before the one before it is committed.
  newest_ = std::max(newest_, newest - 1);
  if (newest_ == newest - 1) proof_ = "records of epoch " + std::to_string(newest) + " follow it";
}

void LogSalvage::believe(std::uint64_t epoch, std::string proof) {
  if (epoch <= newest_) return;
  newest_ = epoch;
  proof_ = std::move(proof);
}

Offset LogSalvage::next_place(Offset at) const {
  const Offset next = at + sizeof(Record);
  if (next % kBetweenHoles != 0) return next;
  return std::max(next, round_down(storage_->next_data(next), sizeof(Record)));
}

}  // namespace perdure::checkpoint
