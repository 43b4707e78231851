// SPDX-License-Identifier: BSD-3-Clause
// A block device in memory with a file system on it, for who compares with files on memory as a
// disk.
#pragma once

#include <cstdint>
#include <string>

#include "bench/system.h"

namespace perdure::bench::reproduce {

/// A new device of zram with an empty ext2, mounted while it lives: as the paper's PCM-disk, which
/// was made of Linux's RAM disk (brd), the kernel writes it in the context of who syncs, without
/// another thread and without a wait. What it writes it compresses (lz4), which is some
/// microseconds less or more than brd's copy; delays are the caller's to add. Needs root and a
/// kernel with zram. A process that is killed leaves device and mount behind. Threads: any.
class RamDisk {
 public:
  /// Mounts it on a new directory in `dir`. Errors: throws Exception kIo and says what it lacks.
  RamDisk(const std::string& dir, std::uint64_t bytes);
  ~RamDisk();
  RamDisk(const RamDisk&) = delete;
  RamDisk& operator=(const RamDisk&) = delete;

  /// The root of its file system.
  const std::string& path() const { return mount_point_.path(); }
  /// What was written to the device since it was made, file system included, in blocks of 4 KiB.
  /// Some microseconds.
  double blocks_written() const;

 private:
  ScratchDirectory mount_point_;
  std::string number_;  // of the device
};

}  // namespace perdure::bench::reproduce
