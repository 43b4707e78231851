// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/locks.h"

#include <algorithm>

namespace perdure::sqlite {
namespace {

template <class Condition>
bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& guard,
          Locks::Clock::time_point until, Condition condition) {
  if (condition()) return true;
  return until != Locks::Clock::time_point{} && changed.wait_until(guard, until, condition);
}

}  // namespace

bool Locks::lock(LockLevel& mine, LockLevel wanted, Clock::time_point patience) {
  std::unique_lock guard(mutex_);
  if (mine >= wanted) return true;
  switch (wanted) {
    case LockLevel::kShared:
      if (!wait(admits_readers_, guard, patience, [&] { return admits_readers(); })) return false;
      ++readers_;
      mine = LockLevel::kShared;
      strongest_ = std::max(strongest_, mine);
      return true;
    case LockLevel::kReserved:
      if (is_anothers(&mine) || is_anothers_turn(&mine)) return false;
      if (turn_ == &mine) turn_ = nullptr;
      writer_ = &mine;
      mine = strongest_ = LockLevel::kReserved;
      return true;
    default:
      if (mine == LockLevel::kNone || is_anothers(&mine)) return false;
      writer_ = &mine;
      mine = strongest_ = LockLevel::kPending;
      if (!wait(one_reader_, guard, patience, [&] { return readers_ == 1; })) return false;
      mine = strongest_ = LockLevel::kExclusive;
      return true;
  }
}

void Locks::unlock(LockLevel& mine, LockLevel to) {
  const std::lock_guard guard(mutex_);
  if (mine <= to) return;
  if (mine > LockLevel::kShared) {
    if (!admits_readers()) admits_readers_.notify_all();
    writer_ = nullptr;
    strongest_ = LockLevel::kShared;
    call_next_writer();
  }
  if (to == LockLevel::kNone) {
    --readers_;
    if (readers_ == 0) strongest_ = LockLevel::kNone;
    if (readers_ == 1) one_reader_.notify_all();
  }
  mine = to;
}

bool Locks::reserved() const {
  const std::lock_guard guard(mutex_);
  return strongest_ >= LockLevel::kReserved;
}

/// Gives the turn to who waits longest, if nobody has it or what it is for.
void Locks::call_next_writer() {
  if (writer_ != nullptr || queue_.empty() || is_anothers_turn(nullptr)) return;
  Waiter& next = *queue_.front();
  queue_.pop_front();
  turn_ = next.connection;
  turn_ends_ = Clock::now() + kTurn;
  next.has_turn = true;
  next.called.notify_one();
}

void Locks::await_turn(std::unique_lock<std::mutex>& guard, const LockLevel* connection,
                       Clock::time_point until) {
  Waiter me{connection, {}};
  queue_.push_back(&me);
  for (;;) {
    call_next_writer();
    if (me.has_turn) return;
    if (Clock::now() >= until) break;
    // A turn that nobody takes up ends without a call.
    const bool ends_alone = writer_ == nullptr && turn_ != nullptr;
    me.called.wait_until(guard, ends_alone ? std::min(until, turn_ends_) : until);
    if (me.has_turn) return;
  }
  std::erase(queue_, &me);
}

void Locks::await(const LockLevel* connection, LockLevel wanted, Clock::time_point until) {
  std::unique_lock guard(mutex_);
  switch (wanted) {
    case LockLevel::kShared:
      admits_readers_.wait_until(guard, until, [&] { return admits_readers(); });
      return;
    case LockLevel::kReserved: await_turn(guard, connection, until); return;
    default:
      one_reader_.wait_until(guard, until,
                             [&] { return !is_anothers(connection) && readers_ <= 1; });
  }
}

}  // namespace perdure::sqlite
