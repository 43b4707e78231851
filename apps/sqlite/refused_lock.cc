// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/refused_lock.h"

#include <utility>

namespace perdure::sqlite {
namespace {

struct RefusedLock {
  std::weak_ptr<Locks> locks;  // of a database that may be closed by now
  const LockLevel* connection = nullptr;
  LockLevel wanted = LockLevel::kNone;
  bool is_new = false;  // not waited for yet
  Locks::Clock::time_point patience;
};

RefusedLock& refused() {
  thread_local RefusedLock lock;
  return lock;
}

}  // namespace

bool lock_or_note(const std::shared_ptr<Locks>& locks, LockLevel& mine, LockLevel wanted) {
  RefusedLock& last = refused();
  const bool is_known = last.connection == &mine;
  if (locks->lock(mine, wanted, is_known ? last.patience : Locks::Clock::time_point{})) {
    if (is_known) last = {};
    return true;
  }
  last = {locks, &mine, wanted, true, {}};
  return false;
}

bool await_refused_lock(std::chrono::microseconds most) {
  RefusedLock& last = refused();
  const std::shared_ptr<Locks> locks =
      std::exchange(last.is_new, false) ? last.locks.lock() : nullptr;
  if (locks == nullptr) return false;
  last.patience = Locks::Clock::now() + most;
  locks->await(last.connection, last.wanted, last.patience);
  return true;
}

}  // namespace perdure::sqlite
