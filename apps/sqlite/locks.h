// SPDX-License-Identifier: BSD-3-Clause
// Locks: SQLite's five lock levels, among the connections of this process to one database. (Another process has no part in
// them: the pool is locked against it as a whole.)
//
//   kShared      reads; any number
//   kReserved    will write; one, beside readers
//   kPending     waits for the readers to leave; no new ones are let in
//   kExclusive   writes; alone
//
// At most one connection is above kShared, and whoever is above kNone is counted as a reader, too.
#pragma once

#include <cstddef>
#include <mutex>

namespace perdure::sqlite {

enum class LockLevel : int { kNone = 0, kShared = 1, kReserved = 2, kPending = 3, kExclusive = 4 };

class Locks {
 public:
  /// Raises `mine`, a connection's level, to `wanted`. False when others are in the way; on the way to kExclusive it is
  /// then kPending.
  /// Requires: kReserved is asked for at kShared, kPending never.   Threads: any.
  bool lock(LockLevel& mine, LockLevel wanted);
  /// Lowers it to kShared or kNone.
  void unlock(LockLevel& mine, LockLevel to);
  /// Whether any connection is at kReserved or above.
  bool reserved() const;

 private:
  mutable std::mutex mutex_;
  std::size_t readers_ = 0;
  LockLevel strongest_ = LockLevel::kNone;  // that any connection has
};

}  // namespace perdure::sqlite
