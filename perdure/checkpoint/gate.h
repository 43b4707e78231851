// SPDX-License-Identifier: BSD-3-Clause
// Gate: threads hold it open while they change memory; the end of an epoch closes it for a moment,
// in which nothing changes.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "perdure/base/check.h"
#include "perdure/error.h"

namespace perdure::checkpoint {

class Gate {
 public:
  Gate() {
    // An epoch's end must not wait for ever because some thread always is inside.
    pthread_rwlockattr_t attributes;
    ::pthread_rwlockattr_init(&attributes);
    ::pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    ::pthread_rwlock_init(&lock_, &attributes);
    ::pthread_rwlockattr_destroy(&attributes);
  }
  ~Gate() { ::pthread_rwlock_destroy(&lock_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Calls may be nested: only the outermost waits.
  void enter() {
    if (depth()++ > 0) return;
    PERDURE_CHECK(::pthread_rwlock_rdlock(&lock_) == 0, "too many guards");
  }
  /// Requires: the calling thread has entered.
  void leave() {
    std::uint32_t& inside = depth();
    PERDURE_CHECK(inside > 0, "a guard ended on another thread than it began on");
    if (--inside == 0) ::pthread_rwlock_unlock(&lock_);
  }
  bool entered_here() { return depth() > 0; }

  void close() { ::pthread_rwlock_wrlock(&lock_); }
  void open() { ::pthread_rwlock_unlock(&lock_); }

 private:
  /// How often this thread has entered. A thread is rarely in more than one gate.
  std::uint32_t& depth() {
    struct Entry {
      std::uint64_t gate;
      std::uint32_t depth;
    };
    thread_local std::vector<Entry> entries;
    for (Entry& entry : entries) {
      if (entry.gate == id_) return entry.depth;
    }
    std::erase_if(entries, [](const Entry& entry) { return entry.depth == 0; });
    entries.push_back({id_, 0});
    return entries.back().depth;
  }
  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  pthread_rwlock_t lock_;
  const std::uint64_t id_ = next_id();  // an address may be used again
};

}  // namespace perdure::checkpoint
