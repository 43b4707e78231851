// SPDX-License-Identifier: BSD-3-Clause
// UndoLogging: what engines share that log what was there before they overwrite it.
//
// An undo log is a redo log of what was there before: recovery, which replays whatever is in a log, takes back what did not come
// to its end. So it needs nothing of its own. A log holds one transaction at a time.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "perdure/engine/engine_on.h"

namespace perdure::baselines {

template <Domain D>
class UndoLogging : public EngineOn<D> {
  using Base = EngineOn<D>;

 public:
  using Base::Base;

  Result<RecoveryReport> recover() override { return Base::recover_into(RingLayout::kTornbit); }

  void publish(std::span<const MaskedWrite> writes, std::size_t slot) override {
    refuse_if_poisoned();
    prepare(slot);
    if (fits_one_by_one(writes.size(), slot)) return overwrite_one_by_one(writes, slot);
    std::vector<Word> before = record_of_before(writes);
    overwrite_at_once(writes, before, slot);
  }

  void sync() override { refuse_if_poisoned(); }
  void truncate() override { refuse_if_poisoned(); }  // logs are empty between transactions
  void set_truncation(Truncation truncation) override {
    if (truncation != Truncation::kAuto && truncation != Truncation::kEachCommit)
      throw Exception(Code::kMisuse, "an undo engine empties its log at each commit");
  }
  Truncation truncation() const override { return Truncation::kEachCommit; }

 protected:
  using Base::domain_, Base::fail, Base::parts_, Base::refuse_if_poisoned;

  static constexpr std::size_t kMostOfOne = 1 + record::most_words(1);  // words of one record

  std::uint64_t ring_words(std::size_t slot) const {
    return parts_.logs->slot(slot).log->ring().count;
  }
  bool fits_one_by_one(std::size_t writes, std::size_t slot) const {
    return writes * TornbitLog::log_words(kMostOfOne) <= ring_words(slot) / 2;
  }
  MaskedWrite before(const MaskedWrite& write) const {
    return {write.offset, load_word(parts_.region->word(write.offset)), write.mask};
  }
  /// Of all that `writes` overwrite; append() fills in its first word.
  std::vector<Word> record_of_before(std::span<const MaskedWrite> writes) const {
    std::vector<MaskedWrite> all;
    for (const MaskedWrite& write : writes) all.push_back(before(write));
    std::vector<Word> record(1);
    record::encode_entries(all, record);
    return record;
  }

  void overwrite_one_by_one(std::span<const MaskedWrite> writes, std::size_t slot) {
    std::array<Word, kMostOfOne> record;
    for (const MaskedWrite& write : writes) {
      const MaskedWrite old = before(write);
      append(slot, {record.data(), record::encode_entries({&old, 1}, record.data() + 1)});
      store_home(write);
    }
    drop(slot);
  }
  void overwrite_at_once(std::span<const MaskedWrite> writes, std::span<Word> record,
                         std::size_t slot) {
    parts_.logs->slot(slot).log->reserve_memory(TornbitLog::log_words(record.size()));
    append(slot, record);
    for (const MaskedWrite& write : writes) store_home(write);
    drop(slot);
  }
  void store_home(const MaskedWrite& write) {
    parts_.logs->apply(domain_, write);
    domain_.flush(parts_.region->word(write.offset), kWordBytes, Site::kHome);
  }

  void append(std::size_t slot, std::span<Word> record) {
    write_record(slot, record);
    wait_for_records(slot);
  }
  void write_record(std::size_t slot, std::span<Word> record) {
    record[0] =
        record::header(parts_.clock->draw().timestamp, {record.data() + 1, record.size() - 1});
    parts_.logs->slot(slot).log.tornbit()->append(domain_, record);
  }
  void wait_for_records(std::size_t slot) {
    // Orders: the old value before the word is overwritten.
    if (!parts_.logs->slot(slot).log->make_durable(domain_)) fail();
  }
  void drop(std::size_t slot) {
    // Orders: the new words before the head that drops the old ones.
    PrimitivesOf<D> primitives(domain_);
    if (!domain_.fence(Site::kTruncateHome) || !parts_.logs->drop(primitives, slot)) fail();
  }
  /// Readies the log, with memory for a record: from the first append on nothing may fail but the storage.
  void prepare(std::size_t slot) {
    LogSlot& mine = parts_.logs->slot(slot);
    if (!mine.ready.load(std::memory_order_relaxed)) Base::ready(slot);
    mine.log->reserve_memory(TornbitLog::log_words(kMostOfOne));
  }
};

}  // namespace perdure::baselines
