// SPDX-License-Identifier: BSD-3-Clause
// BiasedLocking: while one thread has the pool to itself, its transactions need no isolation, hence
// no ownership records, no read set and no locked instruction before that of the commit. These are
// most of what a small transaction costs besides its fence. The pool is then biased towards that
// thread, its owner.
//
//   The owner's Tx looks after every load whether the thread is still the owner (if not, this is a
//   Conflict), and claims its commit. The next thread that begins a transaction revokes the bias:
//     1. it marks the bias as ending; a barrier on all CPUs of the process
//                                   from here on the owner sees that it is not alone before it uses
//                                   what it loads, and whoever else begins waits for 3
//     2. it waits while the owner commits    never for long: a commit runs no code of the user
//     3. it names no owner, and goes on with ownership records, as everyone does from then on
//   A thread that finds over a while that nobody else has begun a transaction becomes the owner:
//     1. it is named; a barrier on all CPUs  whoever begins from here on sees it, and revokes it
//     2. it looks whether anybody is running; if so, no owner is named again
//   (A former owner may still be running; it finds out by itself.)
//
// The barrier (membarrier) lets begin, load and commit do with plain instructions; where the system
// has none, there is never an owner. Versions of ownership records stay behind while there is an
// owner. That does no harm, because no other transaction runs through that time: whoever begins
// after it, with however old a snapshot, reads what was committed during it, and what it has read
// gets a newer version when it changes again.
// Source: biased locks; the asymmetric barrier of user-level RCU.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

#include "perdure/base/shared.h"
#include "perdure/base/words.h"

namespace perdure {

class BiasedLocking {
 public:
  /// A thread's part. Only its own thread changes it.
  class Place {
   public:
    /// Returns whether the thread is about to run alone. Every begin is followed by one end().
    bool begin(BiasedLocking& biased_locking) {
      if (is_alone(biased_locking)) return true;
      return begin_among_others(biased_locking);
    }
    /// Whether begin() would return true at once. Then it need not be called.
    bool is_alone(const BiasedLocking& biased_locking) const {
      return biased_locking.owner_.load(std::memory_order_acquire) == this;
    }
    void end() { state_.store(began_, std::memory_order_release); }
    /// Whether the thread is the owner still. Call it after the loads that depend on the answer.
    bool still_alone(const BiasedLocking& biased_locking) const {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      return biased_locking.owner_.load(std::memory_order_relaxed) == this;
    }
    /// Called before the owner commits. If it returns true, nobody else begins before end().
    bool claim(const BiasedLocking& biased_locking) {
      state_.store(began_ | kCommitting, std::memory_order_relaxed);
      return still_alone(biased_locking);
    }

   private:
    friend BiasedLocking;
    bool begin_among_others(BiasedLocking& biased_locking) {
      began_ += kOne;
      // Release: an owner-to-be that sees this thread at rest sees all that it did.
      state_.store(began_ | kRunning, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // and membarrier does the rest
      if (biased_locking.owner_.load(std::memory_order_acquire) == nullptr && began_ < look_at_)
        return false;
      return biased_locking.settle(*this);
    }
    static constexpr std::uint64_t kRunning = 1;
    static constexpr std::uint64_t kCommitting = 2;
    static constexpr std::uint64_t kOne = 4;

    Shared<std::uint64_t> state_{0};  // how often it has begun, and what it is doing
    std::uint64_t began_ = 0;
    std::uint64_t look_at_ = kPatience * kOne;  // when to look next whether others are there
    std::uint64_t seen_ = 0;                    // how often the others had begun at the last look
    std::uint64_t patience_ = kPatience;
  };

  /// Throws: std::bad_alloc.
  BiasedLocking();
  ~BiasedLocking();
  BiasedLocking(const BiasedLocking&) = delete;
  BiasedLocking& operator=(const BiasedLocking&) = delete;

  /// Adds a thread. The first one is the owner at once. Throws: std::bad_alloc.
  void add(Place& place);
  /// Ends an owner's biased_locking, unless it is `me`: before something is changed past the
  /// transactions.
  void end_unless(const Place& me);
  /// From now on nobody is the owner.
  void forbid();

 private:
  static constexpr std::uint64_t kPatience = 512;
  static constexpr std::uint64_t kMostPatience = 1 << 16;

  /// Called for a place that begins among others: revokes the bias towards another thread, or looks
  /// whether the place may become the owner.
  bool settle(Place& place);
  void end_owner();
  /// What all but `place` have begun so far; ~0 when one of them is running.
  std::uint64_t others(const Place& place) const;

  // All threads, and a mutex. No thread that stays alone, or stays among others, comes here.
  struct Known;
  Known* const known_;
  Place ending_;  // stands for an owner whose bias is being revoked
  alignas(kLineBytes) Shared<Place*> owner_{nullptr};
};

}  // namespace perdure
