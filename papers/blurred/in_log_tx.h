// SPDX-License-Identifier: BSD-3-Clause
// InLogTx: a transaction that executes in its thread's log (Blurred Persistence §3.2). Its stores go to the log at once; only
// where they are is kept here: the value of each of writes() is the place of its record.
#pragma once

#include <vector>

#include "papers/blurred/xil_record.h"
#include "perdure/engine/transaction.h"

namespace perdure::blurred {

/// A slot's log, as its transactions see it: they know no domain, so the engine stores for them.
class UncommittedLog {
 public:
  virtual ~UncommittedLog() = default;

  /// Appends bytes of the word at `at`. False: the transaction is too large for the log, which is unchanged.
  /// Errors: throws Exception kPoisoned, when room had to be made and the storage failed; the log is unchanged.
  virtual bool append(Offset at, Word value, std::uint8_t bytes, xil::Place& place) = 0;
  /// Changes bytes of what append() wrote at `place`, and `place` with it when the record had to move. Returns and throws
  /// as append().
  virtual bool rewrite(xil::Place& place, Word value, std::uint8_t bytes) = 0;
  /// Drops what the transaction has appended.
  virtual void give_up() noexcept = 0;
  /// Requires: a place of the open transaction. Those of its bytes count that were written.
  virtual Word value(xil::Place place) const = 0;
};

class InLogTx final : public Tx {
 public:
  /// `log` must outlive it.
  InLogTx(const TxWorld& world, std::size_t slot, UncommittedLog& log)
      : Tx(world, slot), log_(&log) {
    always_store_apart();
  }

  /// Whether transactions execute in the log from the next begin() on; else they are buffered, and are what the library's
  /// are. Requires: none is running.
  void execute_in_log(bool in_log) { always_store_apart(in_log); }
  /// Whether the running transaction's values are in its log.
  bool in_log() const { return in_log_; }
  std::size_t words_in_log() const { return write_set().size(); }
  /// What is to be logged besides. Requires: in_log().
  const MaskedWrites& writes_of_heap() const { return heap_writes_; }
  /// Takes the values out of the log, which gives the transaction up, and goes on without it.
  void go_buffered();
  /// Calls visit(MaskedWrite) for each word that the commit makes durable. Requires: in_log().
  template <class Visit>
  void for_each_in_log(Visit visit) {
    for (const MaskedWrite& write : writes())
      visit(MaskedWrite{write.offset, log_->value(write.value), write.mask});
    for (const MaskedWrite& write : heap_writes_) visit(write);
  }

 private:
  void began() override {
    in_log_ = !read_only();
    if (!in_log_) store_plainly();
  }
  void ended() noexcept override {
    heap_writes_.clear();
    in_log_ = false;
  }
  void put_apart(Offset at, Word value, Word mask) override;
  Word own_value(const MaskedWrite& mine) const override {
    return in_log_ ? log_->value(mine.value) : mine.value;
  }
  MaskedWrites& heap_writes() override {
    if (!in_log_) return Tx::heap_writes();
    stored_apart();
    return heap_writes_;
  }
  void expect_savepoint(bool back) override {
    if (back && in_log_) go_buffered();  // the log keeps no older values
  }
  bool take_back() noexcept override {
    if (in_log_) log_->give_up();
    return Tx::take_back();
  }
  /// A new object of a transaction in the log is logged like any other.
  bool initialises_in_place() const override { return !in_log_; }

  UncommittedLog* log_;
  MaskedWrites heap_writes_;
  bool in_log_ = false;
};

}  // namespace perdure::blurred
