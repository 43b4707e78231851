// SPDX-License-Identifier: BSD-3-Clause
// TablesTx: a transaction whose committed words may stand in alias tables (SoftWrAP). It has a wrap open for as long as it
// runs, so that no table that it may look into is used again.
#pragma once

#include "perdure/alias/aliases.h"
#include "perdure/engine/engine.h"

namespace perdure::softwrap {

/// A thread's way into the tables.
class CommittedInTables final : public CommittedWords {
 public:
  explicit CommittedInTables(alias::Aliases<>& aliases) : aliases_(&aliases) {
    aliases.states().add(wrap_);
  }
  ~CommittedInTables() override { aliases_->states().remove(wrap_); }
  CommittedInTables(const CommittedInTables&) = delete;
  CommittedInTables& operator=(const CommittedInTables&) = delete;

  void enter() override { aliases_->states().open(wrap_); }
  void leave() override { aliases_->states().close(wrap_); }
  Word load(Offset at, const Word* home) const override {
    return aliases_->load(at, [home](Offset) { return load_word(home); });
  }

 private:
  alias::Aliases<>::Wrap wrap_;
  alias::Aliases<>* aliases_;
};

class TablesTx final : public Tx {
 public:
  TablesTx(const TxWorld& world, std::size_t slot, alias::Aliases<>& aliases)
      : Tx(world, slot), base_(world.base), committed_(aliases) {
    always_look_apart();
  }
  /// How many of writes() are the transaction's own; behind them stand the heap's.
  std::size_t own_writes() { return heap_writes_asked_ ? own_writes_ : writes().size(); }

 private:
  void began() override {
    committed_.enter();
    heap_writes_asked_ = false;
  }
  void ended() noexcept override { committed_.leave(); }
  Word committed_word(Offset at) const override {
    return committed_.load(at, reinterpret_cast<const Word*>(base_ + at));
  }
  MaskedWrites& heap_writes() override {
    heap_writes_asked_ = true;
    own_writes_ = writes().size();
    return Tx::heap_writes();
  }

  std::byte* base_;
  CommittedInTables committed_;
  std::size_t own_writes_ = 0;
  bool heap_writes_asked_ = false;
};

}  // namespace perdure::softwrap
