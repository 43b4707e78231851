// SPDX-License-Identifier: BSD-3-Clause
// Syncer: one device write for what many workers did. On files transactions are relaxed; a thread of its own syncs the pool
// as long as somebody waits, and a reply is sent when a sync has ended that began after all that the reply tells of.
//
//   1. a writer says that it writes, commits, notes that what the next sync covers includes its commit, says that it is done
//   2. after a round of requests a worker asks needed(): 0 when nothing that it may have read or done is volatile, else the
//      number of the next sync to begin. It keeps the replies back, and request()s that sync
//   3. the syncer begins a sync (its number is drawn first, so whoever drew `next` before is covered), ends it, tells all
//
// A reader that saw another's commit finds its writer writing still, or its note made: the writer says that it is done last.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "perdure/pool.h"

namespace perdure::memcached {

class Syncer {
 public:
  /// `strict` false: nobody ever waits; writes are durable when the pool's relaxed_delay is over.
  /// Requires: the pool outlives the syncer.
  Syncer(Pool& pool, bool strict);
  ~Syncer();
  Syncer(const Syncer&) = delete;
  Syncer& operator=(const Syncer&) = delete;

  /// Whether transactions may be relaxed: the pool is on a file, where that is quicker.
  bool relaxed() const { return relaxed_; }
  /// Whether replies ever have to wait.
  bool delays() const { return relaxed_ && strict_; }

  /// Around a relaxed transaction that may write.
  class Writing {
   public:
    explicit Writing(Syncer& syncer) : syncer_(syncer.delays() ? &syncer : nullptr) {
      if (syncer_ != nullptr) syncer_->writing_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Writing() {
      if (syncer_ == nullptr) return;
      syncer_->note_write();
      syncer_->writing_.fetch_sub(1, std::memory_order_seq_cst);
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    Syncer* syncer_;
  };

  /// The sync that must have ended before a reply may tell what the calling thread has seen so far; 0: none.
  std::uint64_t needed() const {
    if (!delays()) return 0;
    const bool clean = writing_.load(std::memory_order_seq_cst) == 0 &&
                       written_.load(std::memory_order_seq_cst) <= ended();
    return clean ? 0 : begun_.load(std::memory_order_seq_cst) + 1;
  }
  /// Sees that it begins soon.
  void request(std::uint64_t sync);
  std::uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
  /// What went wrong with the device, if anything: no sync ends any more.
  std::string failure() const;

  /// Calls `wake` after each sync, in the syncer's thread. Requires: before the first request.
  void tell(std::function<void()> wake) { wakes_.push_back(std::move(wake)); }
  std::uint64_t syncs() const { return ended(); }

 private:
  void run();
  void note_write() {
    const std::uint64_t next = begun_.load(std::memory_order_seq_cst) + 1;
    std::uint64_t written = written_.load(std::memory_order_relaxed);
    while (written < next &&
           !written_.compare_exchange_weak(written, next, std::memory_order_seq_cst)) {
    }
  }

  Pool* pool_;
  bool relaxed_;
  bool strict_;
  std::atomic<std::uint64_t> writing_{0};  // transactions under way
  std::atomic<std::uint64_t> written_{0};  // the sync that covers all of those that are done
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> ended_{0};
  std::vector<std::function<void()>> wakes_;

  mutable std::mutex mutex_;
  std::condition_variable wanted_;
  std::uint64_t requested_ = 0;
  bool stop_ = false;
  std::string failure_;
  std::thread thread_;
};

}  // namespace perdure::memcached
