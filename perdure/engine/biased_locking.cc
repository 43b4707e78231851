// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/biased_locking.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "perdure/base/waiting.h"

namespace perdure {

struct BiasedLocking::Known {
  bool possible = has_barriers();
  Mutex mutex;
  std::vector<Place*> places;
};

BiasedLocking::BiasedLocking() : known_(new Known) {}
BiasedLocking::~BiasedLocking() { delete known_; }

void BiasedLocking::add(Place& place) {
  const std::lock_guard lock(known_->mutex);
  known_->places.push_back(&place);
  if (!known_->possible) place.look_at_ = ~std::uint64_t{0};
  if (known_->possible && known_->places.size() == 1)
    owner_.store(&place, std::memory_order_release);
}

void BiasedLocking::end_unless(const Place& me) {
  const Place* owner = owner_.load(std::memory_order_acquire);
  if (owner == nullptr || owner == &me) return;
  const std::lock_guard lock(known_->mutex);
  if (owner_.load(std::memory_order_relaxed) != &me) end_owner();
}

void BiasedLocking::forbid() {
  const std::lock_guard lock(known_->mutex);
  known_->possible = false;
  end_owner();
}

void BiasedLocking::end_owner() {
  Place* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == nullptr) return;
  owner_.store(&ending_, std::memory_order_relaxed);
  barrier_everywhere();
  while ((owner->state_.load(std::memory_order_acquire) & Place::kCommitting) != 0) give_way();
  // Release, and the acquire above: a thread that sees no owner sees all that the owner committed.
  owner_.store(nullptr, std::memory_order_release);
}

bool BiasedLocking::settle(Place& place) {
  // Taking the lock here is safe: its holder may wait for this thread's commit, but this thread is
  // not committing.
  const std::lock_guard lock(known_->mutex);
  if (owner_.load(std::memory_order_relaxed) != nullptr) {
    end_owner();
    place.look_at_ = place.began_ + place.patience_ * Place::kOne;
    return false;
  }
  if (place.began_ < place.look_at_) return false;
  place.look_at_ = place.began_ + place.patience_ * Place::kOne;
  const std::uint64_t now = others(place);
  const bool nobody_came = now == place.seen_;
  place.seen_ = now;
  if (!known_->possible || !nobody_came || now == ~std::uint64_t{0}) return false;
  owner_.store(&place, std::memory_order_relaxed);
  barrier_everywhere();
  if (others(place) == now) {
    // The next bias has to pay for the cost of its end.
    place.patience_ = std::min(2 * place.patience_, kMostPatience);
    return true;
  }
  owner_.store(nullptr, std::memory_order_relaxed);
  return false;
}

std::uint64_t BiasedLocking::others(const Place& place) const {
  std::uint64_t begun = 0;
  for (const Place* other : known_->places) {
    if (other == &place) continue;
    // Acquire: pairs with the release of end().
    const std::uint64_t state = other->state_.load(std::memory_order_acquire);
    if ((state & (Place::kRunning | Place::kCommitting)) != 0) return ~std::uint64_t{0};
    begun += state;
  }
  return begun;
}

}  // namespace perdure
