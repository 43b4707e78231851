// SPDX-License-Identifier: BSD-3-Clause
// CommitWindow, CommitGate: how a commit and a truncation agree on which records are complete.
#pragma once

#include "perdure/base/waiting.h"
#include "perdure/engine/lock_table.h"
#include "perdure/log/log_area.h"

namespace perdure {

/// The part of a commit for which a truncation waits: from drawing a timestamp until the values are
/// stored home. The slot announces itself before it draws (see CommitClock).
class CommitWindow {
 public:
  CommitWindow(CommitClock& clock, LogSlot& slot) : slot_(&slot) {
    for (;;) {
      // Sequenced before the draw: a truncation that sees the draw sees the announcement.
      next_phase();
      const CommitClock::Draw draw = clock.draw();
      timestamp_ = draw.timestamp;
      if (!draw.gate_closed) return;
      leave();
      while (clock.gate_closed()) give_way();
    }
  }
  ~CommitWindow() { leave(); }
  CommitWindow(const CommitWindow&) = delete;
  CommitWindow& operator=(const CommitWindow&) = delete;
  std::uint64_t timestamp() const { return timestamp_; }

 private:
  void leave() { next_phase(); }
  // Release: a truncation that sees the commit gone also sees its log tail and home stores. No
  // locked addition, which would wait for the home stores' cache misses: the phase is this thread's
  // alone to change.
  void next_phase() {
    slot_->phase.store(slot_->phase.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  LogSlot* slot_;
  std::uint64_t timestamp_ = 0;
};

/// While it exists, no commit is under way.
class CommitGate {
 public:
  CommitGate(CommitClock& clock, LogArea& logs) : clock_(&clock) {
    clock.close_gate();
    for (std::size_t i = 0; i < logs.slot_count(); ++i) {
      while (logs.slot(i).committing()) give_way();
    }
  }
  ~CommitGate() { clock_->open_gate(); }
  CommitGate(const CommitGate&) = delete;
  CommitGate& operator=(const CommitGate&) = delete;

 private:
  CommitClock* clock_;
};

}  // namespace perdure
