// SPDX-License-Identifier: BSD-3-Clause
// FileDevice: what Sync needs of a file on a block device, as four calls that can fail.
#pragma once

#include <cstddef>

#include "perdure/base/words.h"

namespace perdure {

/// Every call returns false on failure with errno set. Offsets and sizes are multiples of
/// kPageBytes, buffers are page-aligned. Threads: any.
class FileDevice {
 public:
  /// Takes no ownership. `durable_fd`: the same file, from open_for_durable_writes().
  FileDevice(int fd, int durable_fd) : fd_(fd), durable_fd_(durable_fd) {}

  /// Hands the bytes to the page cache. Durable: after sync(), which gives the device all of them
  /// at once; written past the cache, one range would wait for the other.
  bool write(Offset offset, const void* data, std::size_t bytes);
  /// Writes one range and waits until the device has it. On a prewritten range this is the fastest
  /// durable write that a disk offers (O_DIRECT with RWF_DSYNC: one command, no journal commit).
  /// It fails for its own bytes, and takes no failure away from sync().
  bool write_durable(Offset offset, const void* data, std::size_t bytes);
  /// Waits until the device has everything written so far, sizes included.
  bool sync();
  /// Whether both are the same opened file.
  friend bool operator==(const FileDevice&, const FileDevice&) = default;

 private:
  int fd_;
  int durable_fd_;
};

/// Opens a file anew for FileDevice::write_durable(): past the page cache, where its file system
/// allows. Opened anew, because the kernel tells of a failed write-back once to each opening.
/// -1: errno says why.
int open_for_durable_writes(int fd);

}  // namespace perdure
