// SPDX-License-Identifier: BSD-3-Clause
// Berkeley DB's files on an emulated PCM-disk: the library lets a program replace its system calls, and ours tell the disk what
// is written and synced in its directory.
#pragma once

#include <string>

#include "measure/pcm_disk.h"

namespace perdure::bench {

/// The disk below a directory, for environments that are opened while it lives.   Threads: any.
class BerkeleyOnPcmDisk {
 public:
  /// Errors: throws Exception kIo.
  BerkeleyOnPcmDisk(const reproduce::EmulatedMemory& memory, const std::string& directory);
  ~BerkeleyOnPcmDisk();
  BerkeleyOnPcmDisk(const BerkeleyOnPcmDisk&) = delete;
  BerkeleyOnPcmDisk& operator=(const BerkeleyOnPcmDisk&) = delete;
  reproduce::PcmDisk* operator->() { return &disk_; }
  const reproduce::PcmDisk* operator->() const { return &disk_; }

 private:
  reproduce::PcmDisk disk_;
};

}  // namespace perdure::bench
