// SPDX-License-Identifier: BSD-3-Clause
// Undo: the baseline of SoftWrAP (MSST 2015) §V: before a word is overwritten where it is, its old value is logged and waited
// for. Durable and atomic, with a wait for each word.
//
//   1. for each word: append its old value, fence    crash here ⇒ what follows is taken back
//                     store home, flush
//   2. fence                                         crash here ⇒ all of it is taken back
//   3. drop the records: move the head, fence        cut before the fence ⇒ taken back, or committed
//                                                    cut after it ⇒ committed: the durability point
// A transaction whose old values its log cannot take one by one logs them at once.
#pragma once

#include "papers/baselines/undo_logging.h"
#include "perdure/engine/spill.h"

namespace perdure::baselines {

template <Domain D>
class Undo final : public UndoLogging<D> {
  using Base = UndoLogging<D>;
  using Base::domain_, Base::fail, Base::parts_, Base::refuse_if_poisoned;
  using Base::fits_one_by_one, Base::overwrite_at_once, Base::overwrite_one_by_one, Base::prepare,
      Base::record_of_before, Base::ring_words;

 public:
  using Base::Base;
  std::string_view name() const override { return "undo"; }

  void commit(Tx& tx, std::size_t slot, Durability /*durability*/) override {
    refuse_if_poisoned();
    prepare(slot);
    const std::uint64_t timestamp = parts_.clock->draw().timestamp;
    tx.validate_at(timestamp);
    if (fits_one_by_one(tx.writes().size(), slot)) {
      overwrite_one_by_one(tx.writes(), slot);
    } else {
      std::vector<Word> before = record_of_before(tx.writes());
      std::span<Word> record = before;
      Spill<Undo> spill(*this);
      spill.write_if_large(tx, parts_.logs->slot(slot).log, ring_words(slot) / 2, record);
      overwrite_at_once(tx.writes(), record, slot);
    }
    tx.make_visible(parts_.clock->draw().timestamp);
    tx.finish();
  }

 private:
  friend class Spill<Undo>;
  void forget(Offset, std::uint64_t) {}  // what was written there stands nowhere else
};

}  // namespace perdure::baselines
