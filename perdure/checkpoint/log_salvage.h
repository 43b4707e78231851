// SPDX-License-Identifier: BSD-3-Clause
// LogSalvage: what the log of a damaged arena still proves, where opening it (EpochStore) would refuse
// or take less.
//
//   - Behind a record that does not check, the next ones are looked for: each is a multiple of its
//     head long. So epochs that stand behind the damage are found, if home has what was lost.
//   - Of a segment whose head is damaged the records tell what their checksums start from: the sum
//     of one gives it, the sum of the next one confirms it.
//   - Of damaged state slots the heads tell the least that home can hold: a segment is begun anew
//     only when home has all that it held before.
//
// Epochs that home has, and the log still, are known, too: of what they changed home is not needed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "perdure/checkpoint/arena_layout.h"
#include "perdure/checkpoint/log_reader.h"
#include "perdure/checkpoint/storage.h"
#include "perdure/error.h"

namespace perdure::checkpoint {

class LogSalvage {
 public:
  /// Errors: kCorrupt: what home holds cannot be told; kIo.
  static Result<LogSalvage> of(Storage& storage, const ArenaSuperblock& super,
                               const std::string& name);

  /// The newest epoch of which all is known.
  std::uint64_t epoch() const { return epoch_; }
  /// Home holds at least this one.
  std::uint64_t home_epoch() const { return home_epoch_; }
  /// Of all later ones, up to epoch(), the log has what they changed.
  std::uint64_t known_after() const { return known_after_; }
  /// The newest epoch that something proves to have been committed.
  std::uint64_t newest() const { return newest_; }
  const std::string& proof_of_newest() const { return proof_; }
  /// Where the log would go on: behind the newest record that checks; none: it was never begun.
  std::optional<Offset> end() const { return end_; }
  /// What was put right by what the rest of the file tells.
  const std::vector<std::string>& mended() const { return mended_; }

  /// Calls visit(epoch, Piece) for what the epochs in (known_after(), epoch()] changed, oldest
  /// first.   Errors: kIo.
  template <class Visit>
  Result<void> for_each_piece(Visit&& visit);
  /// Calls visit(epoch, Piece) for what can still be read of later epochs, oldest first.
  template <class Visit>
  void for_each_later_piece(Visit&& visit);

 private:
  /// One use of a segment.
  struct Use {
    bool known = false;  // below: what its head says, or its records do
    int segment = 0;
    std::uint32_t seed = 0;
    std::uint64_t first_epoch = 0;
    std::uint64_t generation = 0;  // 0: not known
  };
  struct Placed {
    int use;
    Group group;
  };

  LogSalvage(Storage& storage, const ArenaSuperblock& super, std::string name)
      : storage_(&storage), super_(&super), name_(std::move(name)) {}
  Result<void> read();
  void read_head(int segment);
  bool find_seed(Use& use) const;
  Result<void> order();
  Result<void> read_state();
  void read_groups(int use);
  void believe(std::uint64_t epoch, std::string proof);
  std::string at(int segment) const {
    return "the log segment at byte " + std::to_string(super_->segment_offset[segment]);
  }
  LogReader reader(const Use& use) const {
    return {*storage_, *super_, use.segment, use.first_epoch, use.seed};
  }
  /// Epochs from here on, of the older use, were taken back before the newer one was begun.
  std::uint64_t end_of(int use) const {
    return use == 0 && uses_[1].known ? uses_[1].first_epoch : kMostEpochs;
  }
  /// Calls visit(at, Found) for each record that checks, wherever it is.
  template <class Visit>
  void for_each_record(const Use& use, Visit&& visit) const;
  Offset begin_of(const Use& use) const {
    return super_->segment_offset[use.segment] + kSegmentHeadBytes;
  }
  Offset next_place(Offset at) const;

  Storage* storage_;
  const ArenaSuperblock* super_;
  std::string name_;
  Use uses_[2];  // the older one first
  bool head_seems_spoilt_[2] = {false, false};
  std::map<std::uint64_t, Placed> groups_;  // whole ones, by epoch
  std::uint64_t epoch_ = 0, home_epoch_ = 0, known_after_ = 0, newest_ = 0;
  std::string proof_;
  std::optional<Offset> end_;
  std::vector<std::string> mended_;
};

template <class Visit>
void LogSalvage::for_each_record(const Use& use, Visit&& visit) const {
  LogReader log = reader(use);
  const Offset end = super_->segment_offset[use.segment] + super_->segment_bytes;
  for (Offset at = begin_of(use); at + sizeof(Record) <= end;) {
    const auto found = log.record_at(at, LogReader::kAnyEpoch);
    if (!found) {
      at = next_place(at);
      continue;
    }
    visit(at, *found);
    at += sizeof(Record) + payload_bytes(found->record);
  }
}

template <class Visit>
Result<void> LogSalvage::for_each_piece(Visit&& visit) {
  for (std::uint64_t epoch = known_after_ + 1; epoch <= epoch_; ++epoch) {
    const Placed& placed = groups_.at(epoch);
    LogReader log = reader(uses_[placed.use]);
    const bool whole = log.visit(placed.group, [&](const Piece& piece) {
      visit(epoch, piece);
      return true;
    });
    if (!whole)
      return Error{Code::kIo, name_ + ": epoch " + std::to_string(epoch) +
                                  " of the log changed while it was read; check the device"};
  }
  return {};
}

template <class Visit>
void LogSalvage::for_each_later_piece(Visit&& visit) {
  for (int i = 0; i < 2; ++i) {
    if (!uses_[i].known) continue;
    for_each_record(uses_[i], [&](Offset, const LogReader::Found& found) {
      const std::uint64_t epoch = found.record.epoch;
      if (epoch <= epoch_ || epoch >= end_of(i)) return;
      LogReader::for_each_piece(found, [&](const Piece& piece) {
        visit(epoch, piece);
        return true;
      });
    });
  }
}

}  // namespace perdure::checkpoint
