// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/in_log_tx.h"

namespace perdure::blurred {

void InLogTx::put_apart(Offset at, Word value, Word mask) {
  if (!in_log_) return Tx::put_apart(at, value, mask);
  const std::uint8_t bytes = xil::bytes_of_mask(mask);
  if (MaskedWrite* mine = write_set().find(at)) {
    if (log_->rewrite(mine->value, value, bytes)) {
      mine->mask |= mask;
      return;
    }
  } else {
    write_set().reserve_one();  // first: behind the record nothing may fail
    xil::Place place = 0;
    if (log_->append(at, value, bytes, place)) return write_set().put(at, place, mask);
  }
  go_buffered();
  write_set().put(at, value, mask);
}

void InLogTx::go_buffered() {
  MaskedWrites& into = writes();
  into.reserve(into.size() + heap_writes_.size());
  for (MaskedWrite& write : into) write.value = log_->value(write.value);
  log_->give_up();
  in_log_ = false;
  for (const MaskedWrite& write : heap_writes_) into.push_back(write);
  heap_writes_.clear();
}

}  // namespace perdure::blurred
