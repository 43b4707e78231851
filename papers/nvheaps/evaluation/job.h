// SPDX-License-Identifier: BSD-3-Clause
// The workloads of NV-heaps' evaluation (Table 2) in the layers that it compares, behind one face.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "papers/nvheaps/evaluation/checkpointed_memory.h"
#include "papers/nvheaps/evaluation/heap_setting.h"
#include "papers/nvheaps/evaluation/sizes.h"

namespace perdure::bench::nvheaps {

enum class Work : std::uint8_t { kSwaps, kSixDegrees, kBTree, kHashTable, kRedBlackTree, kSsca };
inline constexpr std::array<Work, 6> kAllWork = {Work::kSwaps,        Work::kSixDegrees,
                                                 Work::kBTree,        Work::kHashTable,
                                                 Work::kRedBlackTree, Work::kSsca};
constexpr std::string_view work_name(Work work) {
  constexpr std::array<std::string_view, 6> kNames = {"SPS",       "SixDegs", "BTree",
                                                      "HashTable", "RBTree",  "SSCA"};
  return kNames[static_cast<std::size_t>(work)];
}

/// A structure on a heap of its own, filled.
class Job {
 public:
  virtual ~Job() = default;
  /// Threads: one call for each of them; in BASE, SAFE and TX there is one.
  virtual void run(std::uint64_t operations, unsigned thread) = 0;
  /// Errors: throws Exception kCorrupt when an invariant does not hold, or an operation is lost. Requires: nobody runs.
  virtual void check() = 0;
  /// Requires: HeapSetting::count; not BASE.
  virtual DomainCounts counts() = 0;
  /// Lines read by an operation of the counted layer, on average.
  virtual double touched_lines(std::uint64_t operations) = 0;

  // The following require HeapSetting::checkpoints. run() takes checkpoints, too, when they are due.

  /// Saves the heap as it is.   Durable: on return. Requires: nobody runs.
  virtual void checkpoint() = 0;
  /// Goes on with what the last checkpoint holds, read from its file alone, as after a crash. Errors: those of CheckpointedMemory and
  /// of Pool::open. Requires: nobody runs.
  virtual void recover() = 0;
  virtual CheckpointCounts checkpoints() = 0;
};

/// So much a heap takes at most, with that structure in whatever layer, while it is run.
std::uint64_t heap_bytes(Work work, const Sizes& sizes);

/// HeapSetting::bytes is chosen by the sizes.   Errors: those of Pool::create.
std::unique_ptr<Job> make_job(Work work, const HeapSetting& setting, const Sizes& sizes,
                              unsigned threads, std::uint64_t seed);
/// BASE, with lines counted: only for touched_lines().
std::unique_ptr<Job> make_counted_job(Work work, const HeapSetting& setting, const Sizes& sizes,
                                      std::uint64_t seed);

}  // namespace perdure::bench::nvheaps
