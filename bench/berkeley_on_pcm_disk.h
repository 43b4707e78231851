// SPDX-License-Identifier: BSD-3-Clause
// Berkeley DB's files on an emulated PCM-disk: the library lets a program replace its system calls, and ours tell the disk what
// is written and synced in its directory.
#pragma once

#include <atomic>
#include <string>

#include "measure/pcm_disk.h"
#include "measure/ram_disk.h"

namespace perdure::bench {

/// The disk below a directory, for environments that are opened while it lives.   Threads: any.
///
/// Without a device the directory lies on tmpfs, a sync of which costs nothing, and the blocks that
/// the program wrote are charged. With one a sync goes through its file system, and what that wrote
/// is charged, its own blocks with the data: the mean of the syncs that were counted before, as
/// asking the device costs more than a block.
class BerkeleyOnPcmDisk {
 public:
  /// `device`: that the directory is on. Errors: throws Exception kIo.
  BerkeleyOnPcmDisk(const reproduce::EmulatedMemory& memory, const std::string& directory,
                    const reproduce::RamDisk* device = nullptr);
  ~BerkeleyOnPcmDisk();
  BerkeleyOnPcmDisk(const BerkeleyOnPcmDisk&) = delete;
  BerkeleyOnPcmDisk& operator=(const BerkeleyOnPcmDisk&) = delete;
  reproduce::PcmDisk* operator->() { return &disk_; }
  const reproduce::PcmDisk* operator->() const { return &disk_; }

  /// With a device: from one to the other, the blocks of each sync are counted, and then charged.
  /// Requires: no thread syncs.
  void begin_counting();
  void end_counting();
  /// Time in syncs so far, of all threads together: the emulated device's and, with a device, the
  /// file system's.
  double sync_ns() const;

  // For the hooks.
  void written(int file, std::uint64_t offset, std::uint64_t bytes);
  int sync(int file);
  void close(int file) { disk_.close(file); }

 private:
  reproduce::PcmDisk disk_;
  const reproduce::RamDisk* device_;
  std::atomic<std::uint64_t> syncs_{0};
  std::atomic<std::uint64_t> file_system_ns_{0};
  std::uint64_t syncs_before_ = 0;  // the counting
  double blocks_before_ = 0;
  double blocks_per_sync_ = 0;
};

}  // namespace perdure::bench
