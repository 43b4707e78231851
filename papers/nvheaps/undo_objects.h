// SPDX-License-Identifier: BSD-3-Clause
// UndoObjects: transactions as in NV-heaps (ASPLOS 2011) §3.5: an object is copied into the log when a transaction first
// writes to it, whole, and then changed where it is. What is read is validated, who writes owns (engine/transaction.h).
//
//   1. keep, at the first store to an object: append a copy of its lines, fence   crash here ⇒ nothing happened
//      store in place                                crash here ⇒ the copy goes back
//   2. at the end: validate, append what the heap's words were, fence              crash here ⇒ all goes back
//      store the heap's words
//   3. flush what was stored, fence                  crash here ⇒ all goes back
//   4. drop the copies: move the log's head, fence   cut before the fence ⇒ all goes back, or committed
//                                                    cut after it ⇒ committed: the durability point
// An abort stores the copies back, flushes and fences, and drops them: cut anywhere ⇒ recovery does the same again.
//
// Deviations: what is owned, versioned and copied is not the object but its lines of 64 bytes (objects that share a line
// share its lock), and of an object larger than Heap::kMostKept the part around the store: an array of gigabytes is no unit of
// logging. New objects need no copy: before the commit nobody can reach them, and after an abort they are free space.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "papers/baselines/undo_logging.h"
#include "papers/nvheaps/undo_objects_tx.h"
#include "perdure/base/crc32c.h"
#include "perdure/heap/heap.h"

namespace perdure::nvheaps {

template <Domain D>
class UndoObjects final : public baselines::UndoLogging<D> {
  using Base = baselines::UndoLogging<D>;
  using Base::append, Base::drop, Base::prepare, Base::ring_words, Base::store_home,
      Base::wait_for_records, Base::write_record;
  using Base::before, Base::domain_, Base::fail, Base::parts_, Base::poison,
      Base::refuse_if_poisoned;

 public:
  UndoObjects(const EngineParts& parts, D domain) : Base(parts, std::move(domain)) {
    for (std::size_t i = 0; i < parts.logs->slot_count(); ++i)
      kept_.push_back(std::make_unique<Kept>(*this, i));
  }

  Result<RecoveryReport> recover() override {
    if (parts_.logs->slot_count() < 2)
      return Error{Code::kInvalid, parts_.region->path() +
                                       ": the engine undo-objects needs a log of its own; create "
                                       "the pool with at least 2 log_slots"};
    return Base::recover();
  }

  std::string_view name() const override { return "undo-objects"; }
  bool changes_in_place() const override { return true; }
  /// What is changed in place has to be locked: whoever comes would read it at once.
  bool allows_biased_locking() const override { return false; }

  std::unique_ptr<Tx> make_tx(const TxWorld& world, std::size_t slot) override {
    if (slot == heap_slot())
      throw Exception(Code::kMisuse, parts_.region->path() +
                                         ": more threads at the same time than the pool has "
                                         "logs (" +
                                         std::to_string(slot) +
                                         ", and one for the heap); create it with more "
                                         "log_slots");
    auto tx = std::make_unique<UndoObjectsTx>(world, slot, *kept_[slot]);
    tx->initialise_through(this, 1);
    kept_[slot]->serve(*tx);
    return tx;
  }

  /// In the middle of a transaction, whose copies are in its log: this one has a log of its own.
  void publish(std::span<const MaskedWrite> writes, std::size_t /*slot*/) override {
    const std::lock_guard lock(heap_log_);
    Base::publish(writes, heap_slot());
  }

  void commit(Tx& tx, std::size_t slot, Durability /*durability*/) override {
    refuse_if_poisoned();
    prepare(slot);
    Kept& kept = *kept_[slot];
    // First, because the heap's words have no ownership records: what another commit has freed meanwhile must not be kept, and
    // put back, as if it lived.
    const std::uint64_t timestamp = parts_.clock->draw().timestamp;
    tx.validate_at(timestamp);
    if (!tx.writes().empty()) kept.keep_words(tx.writes());  // 2
    for (const MaskedWrite& write : tx.writes()) store_home(write);
    for (const Tx::InPlace& object : tx.in_place()) {  // 3
      if (object.low < object.high)
        domain_.flush(parts_.region->template at<std::byte>(object.low), object.high - object.low,
                      Site::kInPlace);
    }
    kept.flush();
    drop(slot);  // 4
    kept.forget();
    tx.make_visible(parts_.clock->draw().timestamp);
    tx.finish();
  }

 private:
  /// What one thread's running transaction has kept.
  class Kept final : public ObjectLog {
   public:
    Kept(UndoObjects& engine, std::size_t slot) : engine_(&engine), slot_(slot) {}

    Lines lines_around(Offset at) const override {
      const Heap::Extent object = engine_->parts_.heap->object_around(at);
      return {round_down(object.begin, kLineBytes),
              round_up(object.begin + object.bytes, kLineBytes)};
    }
    void store(Offset at, Word value, Word mask) override {
      engine_->parts_.logs->apply(engine_->domain_, {at, value, mask});
    }
    void keep(Offset begin, std::uint64_t bytes) override {
      engine_->refuse_if_poisoned();
      const std::size_t words = bytes / kWordBytes;
      writes_.clear();
      for (std::size_t i = 0; i < words; ++i) {
        const Offset at = begin + i * kWordBytes;
        writes_.push_back({at, load_word(engine_->parts_.region->word(at)), kWholeWord});
      }
      log_before();
      lines_.push_back({begin, bytes});
    }
    /// The same for single words of the heap's, of which the masked bits are changed.
    void keep_words(std::span<const MaskedWrite> changes) {
      writes_.clear();
      for (const MaskedWrite& change : changes) writes_.push_back(engine_->before(change));
      log_before();
    }
    void put_back() noexcept override {
      if (old_.empty()) return;
      try {
        for (const MaskedWrite& old : old_) engine_->parts_.logs->apply(engine_->domain_, old);
        flush();
        engine_->drop(slot_);
      } catch (...) {  // the storage failed, or memory: the log keeps what it has
        engine_->poison();
      }
      forget();
    }
    void flush() {
      for (const Extent& extent : lines_)
        engine_->domain_.flush(engine_->parts_.region->template at<std::byte>(extent.begin),
                               extent.bytes, Site::kHome);
    }
    /// Requires: the log is empty, or the pool poisoned.
    void forget() {
      lines_.clear();
      old_.clear();
      in_spills_ = 0;
      for (const Spilled& spilled : spills_) engine_->parts_.heap->cancel(spilled.space);
      spills_.clear();
    }
    void serve(Tx& tx) { tx_ = &tx; }

   private:
    struct Extent {
      Offset begin;
      std::uint64_t bytes;
    };
    void log_before() {
      make_room(old_, writes_.size());
      make_room(lines_, 1);
      const std::uint64_t usable = engine_->ring_words(slot_) / 2;
      // An entry has at most two words more than it keeps.
      const std::size_t at_once = std::max<std::uint64_t>(1, usable / 8);
      engine_->prepare(slot_);
      for (std::size_t from = 0; from < writes_.size(); from += at_once) {
        const auto some =
            std::span(writes_).subspan(from, std::min(at_once, writes_.size() - from));
        record_.assign(1, 0);
        record::encode_entries(some, record_);
        const std::uint64_t words = TornbitLog::log_words(record_.size());
        if (log().ring().count - log().free_words() + words > usable) spill();
        log().reserve_memory(words);
        engine_->append(slot_, record_);
        old_.insert(old_.end(), some.begin(), some.end());
      }
    }
    /// What a transaction keeps beyond half of its log goes to space reserved in the heap, which the log names.
    ///   1. write it there, fence                  crash here ⇒ the log has all of it yet
    ///   2. name it, and what was spilled before (unless it is in there, too), at the log's tail, fence
    ///   3. move the head to there, fence          cut before ⇒ some words go back twice, to the same value
    void spill() {
      UndoObjects& engine = *engine_;
      // When the names become many, all goes to one place.
      const bool all =
          (spills_.size() + 1) * TornbitLog::log_words(kNameWords) > log().ring().count / 8;
      const std::size_t named_before = all ? spills_.size() : 0;
      log().reserve_memory(TornbitLog::log_words(kNameWords));
      std::vector<Word> entries;
      record::encode_entries(std::span<const MaskedWrite>(old_).subspan(all ? 0 : in_spills_),
                             entries);
      const std::uint64_t bytes = entries.size() * kWordBytes;
      spills_.reserve(spills_.size() + 1);
      // Whole blocks: in a line that something else shares, an older copy could go back over it.
      spills_.push_back({tx_->reserve(std::max<std::uint64_t>(bytes, kBlockBytes)), entries.size(),
                         crc32c(entries.data(), bytes)});
      tx_->outdate(spills_.back().space, bytes);
      engine.domain_.write_through(engine.parts_.region->word(spills_.back().space), entries.data(),
                                   entries.size(), Site::kSpillBody);
      // Orders: the copies before the record that names them.
      if (!engine.domain_.fence(Site::kSpillFence)) engine.fail();
      const std::uint64_t start = log().tail();
      for (const Spilled& spilled : std::span(spills_).subspan(named_before)) {
        std::array<Word, kNameWords> record{
            0, record::entry_head(spilled.space, 1, record::Kind::kSpill) | record::kLast,
            spilled.words, spilled.crc};
        engine.write_record(slot_, record);
      }
      engine.wait_for_records(slot_);
      log().persist_head_at(engine.domain_, start);
      // Orders: the head before the words behind it are written again.
      if (!engine.domain_.fence(Site::kHeadFence)) engine.fail();
      log().truncate_to(start);
      in_spills_ = old_.size();
      for (std::size_t i = 0; i < named_before; ++i) engine.parts_.heap->cancel(spills_[i].space);
      spills_.erase(spills_.begin(), spills_.begin() + static_cast<std::ptrdiff_t>(named_before));
    }
    /// As push_back() would, so that many times do not take their square.
    template <class T>
    static void make_room(std::vector<T>& in, std::size_t more) {
      if (in.capacity() - in.size() < more) in.reserve(std::max(in.size() + more, 2 * in.size()));
    }
    TornbitLog& log() { return *engine_->parts_.logs->slot(slot_).log.tornbit(); }

    static constexpr std::size_t kNameWords = 4;
    struct Spilled {
      Offset space;
      Word words;
      Word crc;
    };
    UndoObjects* engine_;
    std::size_t slot_;
    Tx* tx_ = nullptr;
    std::vector<Extent> lines_;
    std::vector<MaskedWrite> old_;     // all of it; nothing in it twice
    std::vector<MaskedWrite> writes_;  // of one record
    std::vector<Word> record_;
    std::vector<Spilled> spills_;
    std::size_t in_spills_ = 0;  // so many of old_
  };

  std::size_t heap_slot() const { return parts_.logs->slot_count() - 1; }

  std::vector<std::unique_ptr<Kept>> kept_;  // by slot
  std::mutex heap_log_;
};

}  // namespace perdure::nvheaps
