// SPDX-License-Identifier: BSD-3-Clause
// BiasedLocking: while one thread has the pool to itself, or several only read it, transactions need
// no isolation, hence no ownership records, no read set and no locked instruction before that of the
// commit. These are most of what a small transaction costs besides its fence, and nearly all of what
// a look-up costs. The pool is then biased: towards one thread, its owner, or towards its readers.
//
//   A biased Tx looks after every load whether the bias is still the one that it began with (if
//   not, this is a Conflict); the owner claims its commit. The next thread that begins something
//   else revokes the bias:
//     1. it marks the bias as changing; a barrier on all CPUs of the process
//                                   from here on who was biased sees it before it uses what it
//                                   loads, and whoever else begins waits for 3
//     2. it waits while the owner commits, or somebody looks at bytes in place
//                                   a commit runs no code of the user; a look should be short
//     3. it names nobody, and goes on with ownership records, as everyone does from then on
//   A thread that finds over a while that nobody else has begun a transaction becomes the owner:
//     1. it is named; a barrier on all CPUs  whoever begins from here on sees it, and revokes it
//     2. it looks whether anybody is running; if so, no owner is named again
//   (A former owner may still be running; it finds out by itself.)
//   A thread that begins to read, and finds that for a while nobody has committed, favours readers:
//     1. it marks the bias as changing; a barrier on all CPUs  whoever begins from here on waits
//     2. it looks whether an update is running, or somebody is reading still who was favoured
//                                   before: that one could not tell the new bias from the old one.
//                                   If so, there is none
//     3. it names the readers. Others read with ownership records meanwhile; that does no harm
//
// The barrier (membarrier) lets begin, load and commit do with plain instructions; where the system
// has none, there is never a bias. Versions of ownership records stay behind while there is an
// owner. That does no harm, because no other transaction runs through that time: whoever begins
// after it, with however old a snapshot, reads what was committed during it, and what it has read
// gets a newer version when it changes again.
// Source: biased locks, for readers as in BRAVO (USENIX ATC 2019); the asymmetric barrier of
//         user-level RCU.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

#include "perdure/base/shared.h"
#include "perdure/base/words.h"
#include "perdure/engine/lock_table.h"

namespace perdure {

class BiasedLocking {
 public:
  /// A thread's part. Only its own thread changes it.
  class Place {
   public:
    /// Returns whether the thread is about to run without isolation. Every begin is followed by one
    /// end().
    bool begin(BiasedLocking& bias, bool read_only = false) {
      return begin_biased(bias, read_only) || begin_among_others(bias, read_only);
    }
    /// Begins if begin() would return true at once. Else nothing has happened.
    bool begin_biased(const BiasedLocking& bias, bool read_only) {
      const Place* const owner = bias.owner_.load(std::memory_order_acquire);
      if (owner == this) {
        ticket_ = this;
        return true;
      }
      return read_only && owner == &bias.readers_ && begin_as_reader(bias);
    }
    void end() { state_.store(began_, std::memory_order_release); }
    /// Whether the bias is what it was at the begin. Call it after the loads that depend on the
    /// answer.
    bool still_biased(const BiasedLocking& bias) const {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      return bias.owner_.load(std::memory_order_relaxed) == ticket_;
    }
    /// Called before the owner commits. If it returns true, nobody else begins before end().
    bool claim(const BiasedLocking& bias) {
      state_.store(began_ | kClaims, std::memory_order_relaxed);
      return still_biased(bias);
    }

   private:
    friend BiasedLocking;
    bool begin_as_reader(const BiasedLocking& bias) {
      state_.store(began_ | kReads, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // and membarrier does the rest
      ticket_ = &bias.readers_;
      if (still_biased(bias)) return true;
      end();
      return false;
    }
    bool begin_among_others(BiasedLocking& bias, bool read_only) {
      began_ += kOne;
      // Release: an owner-to-be that sees this thread at rest sees all that it did.
      state_.store(began_ | (read_only ? kLooks : kUpdates), std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // and membarrier does the rest
      if (bias.owner_.load(std::memory_order_acquire) == nullptr && began_ < look_at_) return false;
      return bias.settle(*this, read_only);
    }
    // What it is doing.
    static constexpr std::uint64_t kUpdates = 1;  // as the next: with ownership records
    static constexpr std::uint64_t kLooks = 2;
    static constexpr std::uint64_t kReads = 4;   // as one of the favoured readers
    static constexpr std::uint64_t kClaims = 8;  // see claim()
    static constexpr std::uint64_t kAnything = kUpdates | kLooks | kReads | kClaims;
    static constexpr std::uint64_t kOne = 16;

    Shared<std::uint64_t> state_{0};  // how often it has begun among others, and what it is doing
    const Place* ticket_ = this;      // of what bias->owner_ had to be at the begin
    std::uint64_t began_ = 0;
    std::uint64_t look_at_ = kPatience * kOne;  // when to look next whether others are there
    std::uint64_t seen_ = 0;                    // how often the others had begun at the last look
    std::uint64_t clock_seen_ = 0;
    std::uint64_t patience_ = kPatience;
  };

  /// While it exists, and is true, no update of another thread begins: what a biased transaction
  /// looks at stays as it is. Such claims may be nested.
  class Claim {
   public:
    Claim(Place& place, const BiasedLocking& bias)
        : place_(place),
          before_(place.state_.load(std::memory_order_relaxed)),
          holds_(place.claim(bias)) {}
    ~Claim() { place_.state_.store(before_, std::memory_order_release); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    explicit operator bool() const { return holds_; }

   private:
    Place& place_;
    const std::uint64_t before_;
    const bool holds_;
  };

  /// `clock` must outlive it. Throws: std::bad_alloc.
  explicit BiasedLocking(const CommitClock& clock);
  ~BiasedLocking();
  BiasedLocking(const BiasedLocking&) = delete;
  BiasedLocking& operator=(const BiasedLocking&) = delete;

  /// Adds a thread. The first one is the owner at once. Throws: std::bad_alloc.
  void add(Place& place);
  /// Ends the bias, unless it is towards `me`: before something is changed past the transactions.
  void end_unless(const Place& me);
  /// From now on there is none.
  void forbid();

 private:
  static constexpr std::uint64_t kPatience = 512;
  static constexpr std::uint64_t kMostPatience = 1 << 16;

  /// Called for a place that begins among others: revokes a bias that it has no part in, or looks
  /// whether there may be one. Returns whether the place is biased now.
  bool settle(Place& place, bool read_only);
  bool make_owner(Place& place, std::uint64_t others_began);
  bool favour_readers(Place& place);
  void end_bias();
  /// How often all but `place` have begun among others; kBusy when one of them is doing any of
  /// `what`.
  std::uint64_t others(const Place& place, std::uint64_t what) const;
  static constexpr std::uint64_t kBusy = ~std::uint64_t{0};

  // All threads, and a mutex. No thread that stays alone, or stays among others, comes here.
  struct Known;
  Known* const known_;
  const CommitClock& clock_;
  Place changing_;  // stands for a bias that is being revoked, or found
  Place readers_;   // stands for all who only read
  alignas(kLineBytes) Shared<const Place*> owner_{nullptr};
};

}  // namespace perdure
