// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/syncer.h"

namespace perdure::memcached {

Syncer::Syncer(Pool& pool, bool strict)
    : pool_(&pool), relaxed_(pool.domain() == DomainKind::kSync), strict_(strict) {
  if (delays()) thread_ = std::thread([this] { run(); });
}

Syncer::~Syncer() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void Syncer::request(std::uint64_t sync) {
  {
    const std::lock_guard lock(mutex_);
    if (requested_ >= sync) return;
    requested_ = sync;
  }
  wanted_.notify_one();
}

std::string Syncer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Syncer::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [this] { return stop_ || requested_ > ended(); });
      if (stop_) return;
    }
    const std::uint64_t mine = begun_.fetch_add(1, std::memory_order_seq_cst) + 1;
    try {
      pool_->sync();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
    }
    const bool failed = !failure().empty();
    // Release: who sees the end sees all that the sync covered as durable.
    if (!failed) ended_.store(mine, std::memory_order_release);
    for (const auto& wake : wakes_) wake();
    if (failed) return;
  }
}

}  // namespace perdure::memcached
