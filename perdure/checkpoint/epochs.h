// SPDX-License-Identifier: BSD-3-Clause
// Epochs: saves memory as a whole, again and again, while the program goes on changing it.
//
// The end of an epoch, on a thread of its own:
//   1. the epoch before it is committed (or this one waits, and is late)
//   2. the gate is closed: nobody changes memory
//   3. the kernel says which pages were written
//   4. each is compared with the shadow, the image of the epoch before, block by block; what
//      differs is copied there, and noted; and the pages are watched again, but for hot ones
//      (hot_pages.h): those are compared in each epoch
//   5. the gate is opened: the program has paused from 2 to here
//   6. the store commits what was noted, from the shadow, which stays as it is until step 4 of the
//      next epoch
// Another thread brings home the epochs that may be.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "perdure/checkpoint/dirty_pages.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/checkpoint/gate.h"
#include "perdure/checkpoint/granularity.h"
#include "perdure/checkpoint/hot_pages.h"
#include "perdure/checkpoint/page_difference.h"

namespace perdure::checkpoint {

struct EpochStats {
  std::uint64_t epoch = 0;          // the last one that is committed, ever
  std::uint64_t ended = 0;          // since the arena was opened: ends of epochs,
  std::uint64_t late = 0;           // of which so many waited for the commit before
  std::uint64_t written_pages = 0;  // pages the program wrote to, in all epochs,
  std::uint64_t whole_pages = 0;    // of which so many were recorded whole,
  std::uint64_t blocks = 0;         // and of the others so many blocks of 64 bytes
  std::uint64_t hot_pages = 0;      // in the last epoch: not watched, but compared each time
  std::uint64_t log_bytes = 0;      // written to the log
  std::uint64_t home_bytes = 0;     // and to home
  std::chrono::nanoseconds pause_p50{}, pause_p99{}, pause_max{};  // of the last 4096
};

class Epochs {
 public:
  /// Requires: memory and shadow hold the image of store.epoch(); all of these outlive it.
  /// `period` zero: epochs end by persist() only.
  Epochs(EpochStore& store, std::byte* memory, std::byte* shadow, DirtyPages& dirty,
         std::chrono::milliseconds period);
  /// Ends no epoch, but waits for a commit that is under way.
  ~Epochs();
  Epochs(const Epochs&) = delete;
  Epochs& operator=(const Epochs&) = delete;

  Gate& gate() { return gate_; }
  /// Ends an epoch and waits until it is committed. Errors: kMisuse (inside the gate), kPoisoned.
  Result<void> persist();
  EpochStats stats();

 private:
  void run();
  void bring_home();
  /// Steps 2 to 5.
  Result<void> end_epoch();
  Result<void> stage_all(bool watched);
  /// Returns whether the page changed.
  bool stage(std::uint64_t page);
  Result<void> watch_all_but_hot();
  void fail(const Error& error);

  EpochStore& store_;
  std::byte* const memory_;
  std::byte* const shadow_;
  DirtyPages& dirty_;
  const std::chrono::milliseconds period_;
  const PageDifference differing_ = best_page_difference();
  Gate gate_;
  Granularity granularity_;
  struct Free {
    void operator()(std::uint8_t* states) const { std::free(states); }
  };
  std::unique_ptr<std::uint8_t, Free>
      hot_states_;  // zeros that take no memory before they are used
  HotPages hot_;
  std::vector<PageRange> ranges_;
  std::vector<Change> changes_;

  std::mutex mutex_;
  std::condition_variable wanted_, done_, home_wanted_;
  std::uint64_t requested_ = 0;  // calls of persist()
  std::uint64_t served_ = 0;     // of which so many have their epoch
  bool stopping_ = false;
  bool home_due_ = false;
  std::optional<Error> poison_;
  EpochStats stats_;
  std::vector<std::chrono::nanoseconds> pauses_;
  std::thread epochs_, home_;
};

}  // namespace perdure::checkpoint
