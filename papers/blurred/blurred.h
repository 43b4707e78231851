// SPDX-License-Identifier: BSD-3-Clause
// Blurred: an engine whose transactions execute in the log.
// Paper: Blurred Persistence (TOS 2016) §3.2, §3.3.
//
// A transaction's values stand in its XilLog from the store on, and step 1 of the commit (perdure/engine/redo.h) has only the
// heap's to add; 4 closes them by a commit record; 5 reads them back. With Truncation::kEachCommit it is the paper's BP(XIL);
// with kWhenFull or kBackground, its volatile checkpoint with bulk persistence, BPPM. (BP(VCBP) is the library's engine with
// the same truncation.) BPPM-A chooses, before each transaction of a thread, one of the two (mode_choice.h).
// Deviations: (1) home words are forced at each commit with kEachCommit, but records retired when the ring is full: an XilLog
//             has no head on the media. (2) What an open transaction needs committed at once, and a transaction that is too
//             large for half of what its log may hold, or was rolled back in part, goes to the torn-bit log beside it.
#pragma once

#include "papers/blurred/in_log_tx.h"
#include "papers/blurred/mode_choice.h"
#include "papers/blurred/xil_side_log.h"
#include "perdure/engine/redo.h"

namespace perdure::blurred {

/// What of Redo depends on the log of a slot: here two of them.
struct InLogCommits : RecordCommits {
  static constexpr std::string_view kName = "blurred";
  static constexpr bool kSideLogs = true;
  static constexpr bool kLines = false;
  static constexpr bool kSharedOnFiles = false;

  static bool is_empty(const LogSlot& slot) {
    return RecordCommits::is_empty(slot) && !slot.side->holds_closed();
  }
  static void open_from(LogSlot& slot, std::uint64_t start) {
    slot.unfenced_from = start;
    if (const auto& log = XilSideLog::of(slot).log()) XilSideLog::of(slot).open_from(log->begin());
  }
  template <class Usable>
  static bool is_half_full(const LogSlot& slot, Usable usable) {
    if (RecordCommits::is_half_full(slot, usable)) return true;
    const auto& log = XilSideLog::of(slot).log();
    if (!log) return false;
    const std::uint64_t count = log->capacity_records();
    return log->free_records() < count - usable(count) + usable(count) / 2;
  }
};

template <Domain D>
class Blurred final : public Redo<D, InLogCommits> {
  using Base = Redo<D, InLogCommits>;
  using Base::commit_buffered, Base::domain_, Base::empty_full_log, Base::fail,
      Base::flush_last_homes, Base::mode, Base::parts_, Base::poison, Base::refuse_if_poisoned,
      Base::store_home_of, Base::truncation_, Base::unused, Base::usable;

 public:
  /// `choice`: given, the engine is adaptive.
  Blurred(const EngineParts& parts, D domain, std::optional<ChoiceRules> choice = std::nullopt)
      : Base(parts, std::move(domain)), choice_(choice) {
    for (std::size_t i = 0; i < parts_.logs->slot_count(); ++i)
      executing_.push_back(std::make_unique<Executing>(*this, i));
  }

  std::string_view name() const override { return choice_ ? "adaptive" : "blurred"; }

  std::unique_ptr<Tx> make_tx(const TxWorld& world, std::size_t slot_index) override {
    auto tx = std::make_unique<InLogTx>(world, slot_index, *executing_[slot_index]);
    this->initialise_in_place(*tx);
    return tx;
  }

  void commit(Tx& of_this, std::size_t slot_index, Durability durability) override {
    refuse_if_poisoned();
    if constexpr (PrivatePagesDomain<D>) this->make_pages_few();
    auto& tx = static_cast<InLogTx&>(of_this);
    if (tx.in_log() && tx.words_in_log() == 0 && tx.writes_of_heap().empty()) {
      tx.make_visible(tx.snapshot());  // what was born in it has ended in it
      tx.finish();
    } else if (tx.in_log() && append_heap_writes(tx, slot_index)) {
      commit_in_log(tx, slot_index);
    } else {
      if (tx.in_log()) tx.go_buffered();
      commit_buffered(tx, slot_index, durability);
    }
    if (choice_) choose(tx, slot_index);
    if constexpr (PrivatePagesDomain<D>) this->truncate_soon(slot_index);
  }

  /// Leaves rings that the library reads: "never used", once everything in them is retired.
  void close() override {
    Base::close();
    PrimitivesOf<D> primitives(domain_);
    if (!parts_.logs->lay_out(primitives, RingLayout::kTornbit)) fail();
  }

 private:
  class Executing;

  XilLog& log_of(std::size_t slot_index) {
    return *XilSideLog::of(parts_.logs->slot(slot_index)).log();
  }

  /// Step 1 in the log. False: there is no room for a transaction of this size.
  bool append_heap_writes(InLogTx& tx, std::size_t slot_index) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    std::uint64_t records = 0;
    for (const MaskedWrite& write : tx.writes_of_heap()) records += XilLog::records_for(write);
    slot.unflushed_lines.reserve(slot.unflushed_lines.size() + tx.words_in_log() +
                                 tx.writes_of_heap().size());
    if (!make_room_in_log(slot_index, records)) return false;
    for (const MaskedWrite& write : tx.writes_of_heap()) log_of(slot_index).append(domain_, write);
    return true;
  }

  /// The other steps.
  void commit_in_log(InLogTx& tx, std::size_t slot_index) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    {
      const CommitWindow window(*parts_.clock, slot);  // 2
      const std::uint64_t timestamp = window.timestamp();
      tx.validate_at(timestamp);  // 3
      // make_room_in_log() saw it coming.
      if (log_of(slot_index).too_far_apart(timestamp)) throw Conflict{};
      close_in_log(slot_index, timestamp);                                        // 4
      store_home_of(slot_index, [&](auto store) { tx.for_each_in_log(store); });  // 5
      tx.make_visible(timestamp);                                                 // 6
    }
    tx.finish();  // 7
  }

  /// append() for what is in the log already.
  void close_in_log(std::size_t slot_index, std::uint64_t timestamp) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    XilLog& log = log_of(slot_index);
    try {
      const xil::Place start = log.begin();
      flush_last_homes(slot, InLogCommits::is_empty(slot));
      log.commit(domain_, timestamp);
      // Orders: as in append().
      if (log.make_durable(domain_)) {
        if (mode() == Truncation::kNextCommit) {
          XilSideLog::of(slot).open_from(start);
          slot.unfenced_from = slot.log->tail();
        }
        slot.unflushed_lines.clear();
        return;
      }
    } catch (const std::bad_alloc&) {  // ends as a storage that failed
    }
    fail();
  }

  /// Room for `records` more of the open transaction, which keeps its locks meanwhile: a truncation waits for no lock.
  /// False: the transaction has, or then would have, more than half of what the log may hold.
  bool make_room_in_log(std::size_t slot_index, std::uint64_t records) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    const auto too_old = [&] {
      return log_of(slot_index).too_far_apart(parts_.clock->now() + xil::kMaxAge / 2);
    };
    const auto has_room = [&] {
      const XilLog& log = log_of(slot_index);
      return log.free_records() >= records + unused(log.capacity_records());
    };
    if (slot.ready.load(std::memory_order_relaxed) && has_room() && !too_old()) return true;
    const std::lock_guard lock(truncation_);
    refuse_if_poisoned();
    if (!slot.ready.load(std::memory_order_relaxed)) Base::ready(slot_index);
    const XilLog& log = log_of(slot_index);
    if (log.open_records() + records > usable(log.capacity_records()) / 2) return false;
    if (!has_room() || too_old()) empty_full_log();
    return true;
  }

  /// How the thread's next transaction runs. Nothing else has to change: both logs are read by recovery, and the timestamps
  /// of their records say in which order.
  void choose(InLogTx& tx, std::size_t slot_index) {
    ModeChoice& choice = executing_[slot_index]->choice;
    const ModeChoice::Mode next = choice.next([&]() -> std::uint64_t {
      // A round on trial pays for what it left in the logs: else that falls to whichever mode finds a log full.
      if (choice.warming_up()) {
        const std::lock_guard lock(truncation_);
        refuse_if_poisoned();
        empty_full_log();
      }
      if (choice_->now != nullptr) return choice_->now();
      return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                        std::chrono::nanoseconds(1));
    });
    tx.execute_in_log(next == ModeChoice::Mode::kInLog);
  }

  const std::optional<ChoiceRules> choice_;
  std::vector<std::unique_ptr<Executing>> executing_;  // by slot
};

template <Domain D>
class Blurred<D>::Executing final : public UncommittedLog {
 public:
  Executing(Blurred& engine, std::size_t slot_index)
      : choice(engine.choice_.value_or(ChoiceRules{})), engine_(&engine), slot_index_(slot_index) {}
  ModeChoice choice;  // of the adaptive engine

  bool append(Offset at, Word value, std::uint8_t bytes, xil::Place& place) override {
    if (!has_room()) return false;
    place = log()->append(engine_->domain_, at, value, bytes);
    return true;
  }
  bool rewrite(xil::Place& place, Word value, std::uint8_t bytes) override {
    if (!has_room()) return false;  // the record may have to move
    place = log()->rewrite(engine_->domain_, place, value, bytes);
    return true;
  }
  void give_up() noexcept override {
    if (!log()) return;
    try {
      log()->abort(engine_->domain_);
    } catch (const std::bad_alloc&) {
      engine_->poison();  // nothing may follow half an abort
    }
  }
  Word value(xil::Place place) const override { return log()->update(place).value; }

 private:
  LogSlot& slot() const { return engine_->parts_.logs->slot(slot_index_); }
  std::optional<XilLog>& log() const { return XilSideLog::of(slot()).log(); }
  bool has_room() {
    if (slot().ready.load(std::memory_order_relaxed) &&
        log()->free_records() > engine_->unused(log()->capacity_records())) [[likely]]
      return true;
    return engine_->make_room_in_log(slot_index_, 1);
  }
  Blurred* engine_;
  std::size_t slot_index_;
};

}  // namespace perdure::blurred
