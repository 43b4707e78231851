// UncommittedLog: a Tx's door to a log in which it executes (Blurred Persistence §3.2). The Tx knows no domain, so the
// engine stores for it; what it wrote it reads by itself.
#pragma once

#include "perdure/log/log_area.h"

namespace perdure {

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
  Word value(xil::Place place) const { return slot_->xil->update(place).value; }

 protected:
  explicit UncommittedLog(LogSlot& slot) : slot_(&slot) {}

  LogSlot* slot_;
};

}  // namespace perdure
