// SPDX-License-Identifier: BSD-3-Clause
// The floor: what the hardware takes for the bare stores, write-backs and waits, without any
// software around them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "measure/measure.h"

namespace perdure::bench {

/// Loops on a scratch file mapped from the directory that the pools live in, so that it is the same
/// kind of memory.
class MemoryFloor {
 public:
  MemoryFloor(const std::string& dir, std::uint64_t bytes);
  ~MemoryFloor();
  MemoryFloor(const MemoryFloor&) = delete;
  MemoryFloor& operator=(const MemoryFloor&) = delete;

  /// `lines` consecutive lines of a log: store, clwb each, one sfence. A log of its own for each of
  /// up to 64 threads.
  Contestant log_lines(unsigned lines);
  /// `lines` random lines: store, clwb each, one sfence.
  Contestant random_lines(unsigned lines);
  /// The same without write-back and fence: what the cache misses alone take.
  Contestant random_stores(unsigned stores);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

/// Durable 4 KiB writes (O_DIRECT | O_DSYNC) into a prewritten file, each thread going round in a
/// part of its own.
class DiskFloor {
 public:
  DiskFloor(const std::string& dir, unsigned threads);
  ~DiskFloor();
  DiskFloor(const DiskFloor&) = delete;
  DiskFloor& operator=(const DiskFloor&) = delete;
  Contestant writes();

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace perdure::bench
