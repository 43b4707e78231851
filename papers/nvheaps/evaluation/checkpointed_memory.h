// SPDX-License-Identifier: BSD-3-Clause
// The check-pointing of NV-heaps' layers BASE and SAFE (§5.2), which the paper names and does not describe: memory that is saved as a
// whole when the program asks. The kernel tells which pages were written since the last time, and what changed in them goes into a
// file of its own by the library's protocol (perdure/checkpoint/epoch_store.h): all of it counts, or nothing. perdure/arena.h does
// the same on other threads; here it is the caller's time, so that it is measured.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/system.h"
#include "perdure/checkpoint/dirty_pages.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/checkpoint/granularity.h"
#include "perdure/checkpoint/page_difference.h"

namespace perdure::bench::nvheaps {

struct CheckpointCounts {
  std::uint64_t taken = 0;
  std::uint64_t pages = 0;  // that were written to
  std::uint64_t bytes = 0;  // that went into the file, home included
  CheckpointCounts operator-(const CheckpointCounts& before) const {
    return {taken - before.taken, pages - before.pages, bytes - before.bytes};
  }
};

class CheckpointedMemory {
 public:
  /// All zero, and not saved yet. `bytes`: rounded up to 2 MiB.   Errors: throws Exception kIo, kNoSpace.
  CheckpointedMemory(std::string dir, std::uint64_t bytes);
  ~CheckpointedMemory();
  CheckpointedMemory(const CheckpointedMemory&) = delete;
  CheckpointedMemory& operator=(const CheckpointedMemory&) = delete;

  std::byte* begin() const { return memory_; }
  std::uint64_t bytes() const { return bytes_; }

  /// Saves what changed since the last call.
  /// Requires: nobody writes to the memory.   Durable: on return.   Errors: throws Exception kPoisoned, kIo.
  /// Cost:     a fault for the first write to each page since the last call, a look at the page, and the lines that differ.
  void take();
  /// Memory of its own, as it was at the last take(); found in the file alone, which stays as it is.
  /// Errors: throws Exception kNotFound when nothing was ever saved, and those of the constructor.
  std::unique_ptr<CheckpointedMemory> read_back() const;

  CheckpointCounts counts() const;

 private:
  void stage(std::uint64_t page);

  std::string dir_;
  ScratchFile file_;
  std::uint64_t bytes_;
  std::byte* memory_ = nullptr;
  std::byte* shadow_ = nullptr;  // as it was at the last take()
  std::unique_ptr<checkpoint::FileStorage> log_, home_;
  std::unique_ptr<checkpoint::EpochStore> store_;
  std::unique_ptr<checkpoint::DirtyPages> dirty_;
  checkpoint::Granularity granularity_;
  checkpoint::PageDifference differing_ = checkpoint::best_page_difference();
  std::vector<checkpoint::PageRange> written_;
  std::vector<checkpoint::Change> changes_;
  CheckpointCounts counts_;
};

/// When the next checkpoint is due, by the CPU time of the calling thread. The clock is looked at some sixteen times in a period.
class CheckpointPace {
 public:
  using Period = std::chrono::nanoseconds;
  /// Zero: after each operation.
  explicit CheckpointPace(Period period) : period_ns_(static_cast<double>(period.count())) {}

  /// Called after each operation.
  bool due() {
    if (--until_look_ > 0) return false;
    return period_ns_ == 0 || look();
  }

 private:
  bool look();

  double period_ns_;
  std::int64_t until_look_ = 1;
  std::int64_t stride_ = 1;
  double looked_ns_ = -1;
  double taken_ns_ = 0;
};

}  // namespace perdure::bench::nvheaps
