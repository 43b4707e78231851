// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/combiner.h"

#include <atomic>
#include <utility>

namespace perdure::ldap {

namespace {
enum State : int { kWaits, kLeads, kDone };
}  // namespace

/// One per thread, for ever: who wakes it up may still be looking at it when it is gone on.
struct Combiner::Waiter {
  const std::function<void(Tx&)>* update = nullptr;
  std::exception_ptr failure;
  std::atomic<int> state{kDone};

  void tell(State told) {
    // Release: pairs with the acquire of run(): what the leader did for it is there to be seen.
    state.store(told, std::memory_order_release);
    state.notify_one();
  }
};

void Combiner::run(const std::function<void(Tx&)>& update) {
  thread_local Waiter mine;
  mine.update = &update;
  mine.failure = nullptr;
  mine.state.store(kWaits, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&mine);
    if (!led_) {
      led_ = true;
      mine.state.store(kLeads, std::memory_order_relaxed);
    }
  }
  mine.state.wait(kWaits, std::memory_order_acquire);
  if (mine.state.load(std::memory_order_acquire) == kLeads) {
    std::vector<Waiter*> batch;
    {
      const std::lock_guard lock(mutex_);
      batch.swap(queue_);
    }
    lead(batch);
    {
      const std::lock_guard lock(mutex_);
      led_ = !queue_.empty();
      if (led_) queue_.front()->tell(kLeads);
    }
    for (Waiter* waiter : batch) {
      if (waiter != &mine) waiter->tell(kDone);
    }
  }
  if (mine.failure) std::rethrow_exception(std::exchange(mine.failure, nullptr));
}

void Combiner::lead(const std::vector<Waiter*>& batch) {
  try {
    pool_->atomically([&](Tx& tx) {
      for (const Waiter* waiter : batch) (*waiter->update)(tx);
    });
    return;
  } catch (...) {
    if (batch.size() == 1) {
      batch[0]->failure = std::current_exception();
      return;
    }
  }
  for (Waiter* waiter : batch) lead({waiter});
}

}  // namespace perdure::ldap
