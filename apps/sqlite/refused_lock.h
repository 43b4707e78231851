// SPDX-License-Identifier: BSD-3-Clause
// The lock that a thread was refused last. SQLite's busy handler knows nothing of it: it calls xSleep, in the same thread.
// From here xSleep learns what there is to wait for.
#pragma once

#include <chrono>
#include <memory>

#include "apps/sqlite/locks.h"

namespace perdure::sqlite {

/// Locks::lock(), which notes a refusal. After await_refused_lock() it waits for what is left of the time that was to be slept:
/// another connection may have been faster.
bool lock_or_note(const std::shared_ptr<Locks>& locks, LockLevel& mine, LockLevel wanted);

/// Sleeps for `most`, or until a lock that this thread was refused since its last call can be had. False when it was refused
/// none; then it has not slept.
bool await_refused_lock(std::chrono::microseconds most);

}  // namespace perdure::sqlite
