// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/undo_objects_tx.h"

#include "perdure/error.h"

namespace perdure::nvheaps {

void UndoObjectsTx::put_apart(Offset at, Word value, Word mask) {
  if (put_in_place(at, value, mask)) return;
  const Offset line = round_down(at, kLineBytes);
  if (line != last_kept_) {
    if (!kept_.contains(line)) {
      const ObjectLog::Lines lines = log_->lines_around(at);
      for (Offset each = lines.begin; each < lines.end; each += kLineBytes) {
        if (!kept_.contains(each)) own(each);
      }
      // Kept in whole runs, so that one wait is enough for an object.
      Offset from = lines.begin;
      for (Offset each = from; each <= lines.end; each += kLineBytes) {
        if (each < lines.end && !kept_.contains(each)) continue;
        if (from < each) {
          log_->keep(from, each - from);
          stored_apart();
          for (; from < each; from += kLineBytes) kept_.insert(from);
        }
        from = each + kLineBytes;
      }
    }
    last_kept_ = line;
  }
  log_->store(at, value, mask);
}

void UndoObjectsTx::expect_savepoint(bool /*back*/) {
  throw Exception(Code::kMisuse,
                  "a nested transaction that can be taken back alone; the engine undo-objects has "
                  "none, choose another one");
}

bool UndoObjectsTx::take_back() noexcept {
  const bool kept = !kept_.empty();
  log_->put_back();
  return Tx::take_back() || kept;
}

}  // namespace perdure::nvheaps
