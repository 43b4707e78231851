// SPDX-License-Identifier: BSD-3-Clause
// The workloads of Blurred Persistence's Table I, on any engine of ours.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "measure/pcm_disk.h"
#include "papers/pool.h"
#include "perdure/engine/engine.h"

namespace perdure::bench::reproduce {

enum class Work : std::uint8_t { kSps, kHash, kRbTree, kBTree, kStore };
inline constexpr std::array kAllWork = {Work::kSps, Work::kHash, Work::kRbTree, Work::kBTree,
                                        Work::kStore};
inline constexpr std::string_view work_name(Work work) {
  switch (work) {
    case Work::kSps: return "SPS";
    case Work::kHash: return "Hash";
    case Work::kRbTree: return "RBTree";
    case Work::kBTree: return "B+Tree";
    case Work::kStore: return "KVStore";
  }
  return "unknown";
}

struct JobOptions {
  std::string dir;
  EmulatedMemory memory;
  papers::EngineKind engine = papers::EngineKind::kMnemosyne;
  Truncation truncation = Truncation::kAuto;
  bool in_place = false;  // large new objects, which no paper's system does
  std::uint64_t ring_bytes = std::uint64_t{1} << 20;  // of each thread, for its log
  unsigned threads = 1;                               // in one structure
  std::uint64_t live = 1000;                          // entries of each thread
  /// All threads draw from the same keys, of which `live` are there at first: a key that is found is deleted, any other is
  /// inserted. Else each thread has keys of its own. (Swaps: entries in place of keys.)
  bool shared_keys = false;
  std::uint64_t value_bytes = 8;  // of kSps, kHash and kStore; at least 8
  std::uint64_t operations = 0;   // of a transaction; 0: one, and four in a B+ tree
  double idle_part = 0;           // of a thread's time, after every transaction
  double look_up_part = 0;        // of the transactions of a map: read one live key, change nothing
  std::uint64_t seed = 1;
};

/// A pool with one structure, filled. Inserts and deletes take turns, or are as frequent, so that its size stays.
class Job {
 public:
  virtual ~Job() = default;
  /// Threads: each with its own number.
  virtual void run(std::uint64_t transactions, unsigned thread) = 0;
  /// Attempts that met another thread and were repeated, of all attempts so far.
  virtual double abort_part() const = 0;
  /// What opening a copy of the pool as it is spends on recovery. Requires: nobody runs.
  virtual double recovery_us() = 0;
  /// Errors: throws Exception kCorrupt when the structure does not hold what was put into it.
  virtual void verify() = 0;
};

/// Errors: those of Pool::create, thrown.
std::unique_ptr<Job> make_job(Work work, const JobOptions& options);

}  // namespace perdure::bench::reproduce
