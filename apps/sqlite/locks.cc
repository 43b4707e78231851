// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/locks.h"

#include <algorithm>

namespace perdure::sqlite {

bool Locks::lock(LockLevel& mine, LockLevel wanted) {
  const std::lock_guard guard(mutex_);
  if (mine >= wanted) return true;
  // Above kShared there is one: whose level is not the strongest is not that one.
  if (mine != strongest_ && (strongest_ >= LockLevel::kPending || wanted > LockLevel::kShared))
    return false;
  switch (wanted) {
    case LockLevel::kShared:
      ++readers_;
      mine = LockLevel::kShared;
      strongest_ = std::max(strongest_, mine);
      return true;
    case LockLevel::kReserved: mine = strongest_ = LockLevel::kReserved; return true;
    default:
      if (mine == LockLevel::kNone) return false;
      mine = strongest_ = LockLevel::kPending;
      if (readers_ > 1) return false;
      mine = strongest_ = LockLevel::kExclusive;
      return true;
  }
}

void Locks::unlock(LockLevel& mine, LockLevel to) {
  const std::lock_guard guard(mutex_);
  if (mine <= to) return;
  if (mine > LockLevel::kShared) strongest_ = LockLevel::kShared;
  if (to == LockLevel::kNone && --readers_ == 0) strongest_ = LockLevel::kNone;
  mine = to;
}

bool Locks::reserved() const {
  const std::lock_guard guard(mutex_);
  return strongest_ >= LockLevel::kReserved;
}

}  // namespace perdure::sqlite
