// Redo's second column: execution in log. See redo.h for the whole, and log/xil_log.h for the log.
#pragma once

#include "perdure/engine/redo.h"

namespace perdure {

/// A slot's log, as its Tx sees it.
template <Domain D, RingLayout kLayout>
class Redo<D, kLayout>::Executing final : public UncommittedLog {
 public:
  Executing(Redo& engine, std::size_t slot_index)
      : UncommittedLog(engine.parts_.logs->slot(slot_index)),
        choice(engine.parts_.choice_rules),
        engine_(&engine),
        slot_index_(slot_index) {}
  ModeChoice choice;  // of the adaptive engine
  bool append(Offset at, Word value, std::uint8_t bytes, xil::Place& place) override {
    if (!has_room()) return false;
    place = slot_->xil->append(engine_->domain_, at, value, bytes);
    return true;
  }
  bool rewrite(xil::Place& place, Word value, std::uint8_t bytes) override {
    if (!has_room()) return false;  // the record may have to move
    place = slot_->xil->rewrite(engine_->domain_, place, value, bytes);
    return true;
  }
  void give_up() noexcept override {
    if (!slot_->xil) return;
    try {
      slot_->xil->abort(engine_->domain_);
    } catch (const std::bad_alloc&) {
      engine_->poison();  // nothing may follow half an abort
    }
  }

 private:
  bool has_room() {
    if (slot_->ready.load(std::memory_order_relaxed) &&
        slot_->xil->free_records() > engine_->unused(slot_->xil->capacity_records())) [[likely]]
      return true;
    return engine_->make_room_in_log(slot_index_, 1);
  }
  Redo* engine_;
  std::size_t slot_index_;
};

template <Domain D, RingLayout kLayout>
bool Redo<D, kLayout>::append_heap_writes(Tx& tx, std::size_t slot_index) {
  LogSlot& slot = parts_.logs->slot(slot_index);
  std::uint64_t records = 0;
  for (const MaskedWrite& write : tx.heap_writes()) records += XilLog::records_for(write);
  slot.unflushed_lines.reserve(slot.unflushed_lines.size() + tx.words_in_log() +
                               tx.heap_writes().size());
  if (!make_room_in_log(slot_index, records)) return false;
  for (const MaskedWrite& write : tx.heap_writes()) slot.xil->append(domain_, write);
  return true;
}

template <Domain D, RingLayout kLayout>
void Redo<D, kLayout>::commit_in_log(Tx& tx, std::size_t slot_index) {
  LogSlot& slot = parts_.logs->slot(slot_index);
  {
    const CommitWindow window(*parts_.clock, slot);  // 2
    const std::uint64_t stamp = window.stamp();
    if (stamp != tx.snapshot() + 1 && !tx.validate()) throw Conflict{};  // 3
    if (slot.xil->too_far_apart(stamp)) throw Conflict{};  // make_room_in_log() saw it coming
    close_in_log(slot, stamp);                             // 4
    store_home_of(slot_index, [&](auto store) { tx.for_each_in_log(store); });  // 5
    tx.make_visible(stamp);                                                     // 6
  }
  tx.finish();  // 7
}

template <Domain D, RingLayout kLayout>
void Redo<D, kLayout>::choose(Tx& tx, std::size_t slot_index) {
  Executing& executing = *executing_[slot_index];
  const ModeChoice::Mode mode = executing.choice.next([&]() -> std::uint64_t {
    // A round on trial pays for what it left in the logs: else that falls to whichever mode finds a log full.
    if (executing.choice.warming_up()) {
      const std::lock_guard lock(truncation_);
      refuse_if_poisoned();
      empty_full_log();
    }
    if (parts_.choice_rules.now != nullptr) return parts_.choice_rules.now();
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
  });
  tx.execute_in(mode == ModeChoice::Mode::kInLog ? &executing : nullptr);
}

template <Domain D, RingLayout kLayout>
void Redo<D, kLayout>::close_in_log(LogSlot& slot, std::uint64_t stamp) {
  try {
    const xil::Place start = slot.xil->begin();
    flush_last_homes(slot, slot.empty());
    slot.xil->commit(domain_, stamp);
    // Orders: as in append().
    if (slot.xil->make_durable(domain_)) {
      if (mode() == Truncation::kNextCommit) {
        slot.xil_unfenced_from = start;
        slot.unfenced_from = slot.log.tail();
      }
      slot.unflushed_lines.clear();
      return;
    }
  } catch (const std::bad_alloc&) {  // ends as a storage that failed
  }
  fail();
}

template <Domain D, RingLayout kLayout>
bool Redo<D, kLayout>::make_room_in_log(std::size_t slot_index, std::uint64_t records) {
  LogSlot& slot = parts_.logs->slot(slot_index);
  const auto too_old = [&] {
    return slot.xil->too_far_apart(parts_.clock->now() + xil::kMaxAge / 2);
  };
  const auto has_room = [&] {
    return slot.xil->free_records() >= records + unused(slot.xil->capacity_records());
  };
  if (slot.ready.load(std::memory_order_relaxed) && has_room() && !too_old()) return true;
  const std::lock_guard lock(truncation_);
  refuse_if_poisoned();
  if (!slot.ready.load(std::memory_order_relaxed)) Base::ready(slot_index);
  const std::uint64_t capacity = slot.xil->capacity_records();
  if (slot.xil->open_records() + records > usable(capacity) / 2) return false;
  if (!has_room() || too_old()) empty_full_log();
  return true;
}

}  // namespace perdure
