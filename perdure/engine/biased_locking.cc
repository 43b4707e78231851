// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/biased_locking.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "perdure/base/waiting.h"

namespace perdure {

struct BiasedLocking::Known {
  bool possible = has_barriers();
  Mutex mutex;
  std::vector<Place*> places;
};

BiasedLocking::BiasedLocking(const CommitClock& clock) : known_(new Known), clock_(clock) {}
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
  if (owner_.load(std::memory_order_relaxed) != &me) end_bias();
}

void BiasedLocking::forbid() {
  const std::lock_guard lock(known_->mutex);
  known_->possible = false;
  end_bias();
}

void BiasedLocking::end_bias() {
  const Place* const owner = owner_.load(std::memory_order_relaxed);
  if (owner == nullptr) return;
  owner_.store(&changing_, std::memory_order_relaxed);
  barrier_everywhere();
  for (const Place* place : known_->places) {
    // A former owner's claim ends by itself, too.
    while ((place->state_.load(std::memory_order_acquire) & Place::kClaims) != 0) give_way();
  }
  // Release, and the acquire above: a thread that sees no owner sees all that the owner committed.
  owner_.store(nullptr, std::memory_order_release);
}

bool BiasedLocking::settle(Place& place, bool read_only) {
  // Taking the lock here is safe: its holder may wait for this thread's commit, but this thread is
  // not committing.
  const std::lock_guard lock(known_->mutex);
  const Place* const owner = owner_.load(std::memory_order_relaxed);
  if (read_only && owner == &readers_) return place.begin_as_reader(*this);
  if (owner != nullptr) {
    end_bias();
    place.look_at_ = place.began_ + place.patience_ * Place::kOne;
    return false;
  }
  if (place.began_ < place.look_at_) return false;
  place.look_at_ = place.began_ + place.patience_ * Place::kOne;
  const std::uint64_t began = others(place, Place::kAnything);
  const bool nobody_came = began == std::exchange(place.seen_, began) && began != kBusy;
  const std::uint64_t now = clock_.now();
  const bool nobody_committed = now == std::exchange(place.clock_seen_, now);
  if (!known_->possible) return false;
  if (nobody_came) return make_owner(place, began);
  return read_only && nobody_committed && favour_readers(place);
}

bool BiasedLocking::make_owner(Place& place, std::uint64_t others_began) {
  owner_.store(&place, std::memory_order_relaxed);
  barrier_everywhere();
  if (others(place, Place::kAnything) != others_began) {
    owner_.store(nullptr, std::memory_order_relaxed);
    return false;
  }
  // The next bias has to pay for the cost of its end.
  place.patience_ = std::min(2 * place.patience_, kMostPatience);
  place.ticket_ = &place;
  return true;
}

bool BiasedLocking::favour_readers(Place& place) {
  owner_.store(&changing_, std::memory_order_relaxed);
  barrier_everywhere();
  // Acquire, in others(): what those did who are at rest is seen by this thread and, through the
  // release below, by every reader.
  if (others(place, Place::kUpdates | Place::kReads | Place::kClaims) == kBusy) {
    owner_.store(nullptr, std::memory_order_relaxed);
    return false;
  }
  place.patience_ = std::min(2 * place.patience_, kMostPatience);
  owner_.store(&readers_, std::memory_order_release);
  return place.begin_as_reader(*this);
}

std::uint64_t BiasedLocking::others(const Place& place, std::uint64_t what) const {
  std::uint64_t begun = 0;
  for (const Place* other : known_->places) {
    if (other == &place) continue;
    // Acquire: pairs with the release of end().
    const std::uint64_t state = other->state_.load(std::memory_order_acquire);
    if ((state & what) != 0) return kBusy;
    begun += state & ~Place::kAnything;
  }
  return begun;
}

}  // namespace perdure
