// SPDX-License-Identifier: BSD-3-Clause
// PCM-disk: the paper's emulated block device (§6.1), and the memory that both it and our pools are
// made of. A peer's files lie on tmpfs; what reaches the device is charged here, in blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "perdure/domain/latency.h"

namespace perdure::bench::reproduce {

/// The emulated memory: one latency for each flushed line, each run written through and each wait,
/// and one limit for the bandwidth.
struct EmulatedMemory {
  double latency_ns = 150;
  double gb_per_s = 4;

  /// For a pool. As on the device below, a thread has the bandwidth to itself.
  LatencyModel model() const {
    LatencyModel model;
    model.flush_ns = latency_ns;
    model.write_through_ns = latency_ns;
    model.fence_ns = latency_ns;
    model.bandwidth_gb_per_s = gb_per_s;
    return model;
  }
};

/// Story of one durable update: 1. the program writes into files, that is into the page cache, at
/// no charge; 2. it syncs a file; 3. each block written since the last sync goes to the device
/// once, as one sequential write-through: the latency, and its bytes at the bandwidth; 4. one
/// fence: the latency again. What is never synced is never charged, and neither are the blocks of a
/// file system's metadata: both favour the peer.
/// Threads: any. A sync of a file waits for the syncs of the same file that are under way.
class PcmDisk {
 public:
  static constexpr std::uint64_t kBlockBytes = 4096;

  explicit PcmDisk(const EmulatedMemory& memory) : memory_(memory) {}

  /// Nothing is charged while it is off: for filling a database before it is measured.
  void charge(bool on) { charged_.store(on, std::memory_order_relaxed); }

  /// The program wrote `bytes` at `offset` of an open file.
  void written(int file, std::uint64_t offset, std::uint64_t bytes);
  /// Waits as long as the device would take for what was written.
  void sync(int file);
  void close(int file);
  /// The same for a program whose writes cannot be seen, only counted.
  void sync_blocks(double blocks);

  /// Time spent waiting so far, of all threads together.
  double busy_ns() const { return static_cast<double>(busy_ns_.load(std::memory_order_relaxed)); }

 private:
  struct File {
    std::mutex mutex;
    std::set<std::uint64_t> dirty_blocks;
  };
  File& file(int number);

  EmulatedMemory memory_;
  std::atomic<bool> charged_{true};
  std::atomic<std::uint64_t> busy_ns_{0};
  std::mutex mutex_;  // of the map; the files in it stay where they are
  std::map<int, std::unique_ptr<File>> files_;
};

}  // namespace perdure::bench::reproduce
