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
//
// SQLite asks for a lock, and when it is refused, its busy handler decides whether to sleep and ask again. The sleep is a call
// of the VFS. Here it ends as soon as the lock can be had:
//   1. lock() returns false                     the connection keeps what it has, or SQLite gives that up
//   2. the busy handler sleeps: await()         who wants kReserved queues, so that each gets its turn
//   3. the lock is free: await() returns        for kTurn nobody else gets kReserved
//   4. SQLite asks again: lock() returns true
// How long a connection waits in all is for the busy handler to say, as with any other VFS.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

namespace perdure::sqlite {

enum class LockLevel : int { kNone = 0, kShared = 1, kReserved = 2, kPending = 3, kExclusive = 4 };

/// A connection is known by the address of its level.   Threads: any.
class Locks {
 public:
  using Clock = std::chrono::steady_clock;

  /// Raises `mine`, a connection's level, to `wanted`. False when others are in the way; on the way to kExclusive it is
  /// then kPending. Until `patience` it waits for those that are in the way of kShared or kExclusive; never for kReserved,
  /// since its holder may wait for the caller, who reads.
  /// Requires: kReserved is asked for at kShared, kPending never.
  bool lock(LockLevel& mine, LockLevel wanted, Clock::time_point patience = {});
  /// Lowers it to kShared or kNone.
  void unlock(LockLevel& mine, LockLevel to);
  /// Whether any connection is at kReserved or above.
  bool reserved() const;
  /// Returns when lock(), which has just returned false, is worth another call, or at `until`. The connection may be gone.
  void await(const LockLevel* connection, LockLevel wanted, Clock::time_point until);

 private:
  /// More than a thread that was woken needs until it asks for its lock.
  static constexpr std::chrono::milliseconds kTurn{2};
  struct Waiter {
    const LockLevel* connection;
    std::condition_variable called;
    bool has_turn = false;
  };

  bool admits_readers() const { return strongest_ < LockLevel::kPending; }
  bool is_anothers(const LockLevel* connection) const {
    return writer_ != nullptr && writer_ != connection;
  }
  bool is_anothers_turn(const LockLevel* connection) const {
    return turn_ != nullptr && turn_ != connection && Clock::now() < turn_ends_;
  }
  void call_next_writer();
  void await_turn(std::unique_lock<std::mutex>& guard, const LockLevel* connection,
                  Clock::time_point until);

  mutable std::mutex mutex_;
  std::size_t readers_ = 0;
  LockLevel strongest_ = LockLevel::kNone;  // that any connection has
  const LockLevel* writer_ = nullptr;       // who is above kShared
  std::condition_variable admits_readers_;
  std::condition_variable one_reader_;
  std::deque<Waiter*> queue_;        // for kReserved
  const LockLevel* turn_ = nullptr;  // who is to get kReserved next
  Clock::time_point turn_ends_;      // if by then
};

}  // namespace perdure::sqlite
