// SPDX-License-Identifier: BSD-3-Clause
// UndoObjectsTx: a transaction that changes objects where they are, once its log has a copy (NV-heaps §3.5).
#pragma once

#include "perdure/base/offset_set.h"
#include "perdure/engine/transaction.h"

namespace perdure::nvheaps {

/// A slot's log, as its transactions see it: they know no domain, so the engine keeps what stands in a place before the first
/// store, stores, and puts it back when the transaction comes to nothing.
class ObjectLog {
 public:
  virtual ~ObjectLog() = default;

  /// The lines to keep before a store to `at`: those of its object. Threads: any.
  struct Lines {
    Offset begin;
    Offset end;
  };
  virtual Lines lines_around(Offset at) const = 0;
  /// Copies [begin, begin + bytes) into the log. Durable: on return.
  /// Requires: whole lines that the transaction owns and has not kept yet.
  /// Errors: throws Exception kPoisoned; kNoSpace, or Conflict, when it is too much for the log. What was kept goes back.
  virtual void keep(Offset begin, std::uint64_t bytes) = 0;
  /// Stores the bits of the mask where they are.
  virtual void store(Offset at, Word value, Word mask) = 0;
  /// Stores what was kept back to its place, and empties the log. A storage that fails poisons the pool: then the next open does it.
  virtual void put_back() noexcept = 0;
};

class UndoObjectsTx final : public Tx {
 public:
  /// `log` must outlive it.
  UndoObjectsTx(const TxWorld& world, std::size_t slot, ObjectLog& log)
      : Tx(world, slot), log_(&log) {
    always_store_apart();
  }

 private:
  void ended() noexcept override {
    kept_.clear();
    last_kept_ = kNone;
  }
  void put_apart(Offset at, Word value, Word mask) override;
  void expect_savepoint(bool back) override;
  bool take_back() noexcept override;

  static constexpr Offset kNone = ~Offset{0};
  ObjectLog* log_;
  OffsetSet kept_;            // lines that it has
  Offset last_kept_ = kNone;  // one of them
};

}  // namespace perdure::nvheaps
