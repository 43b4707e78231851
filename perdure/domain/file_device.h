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
  /// Takes no ownership of `fd`. `direct_fd` is the same file opened with O_DIRECT, or -1.
  FileDevice(int fd, int direct_fd) : fd_(fd), direct_fd_(direct_fd) {}

  /// Hands the bytes to the page cache. Durable: after sync(), which gives the device all of them
  /// at once; written past the cache, one range would wait for the other.
  bool write(Offset offset, const void* data, std::size_t bytes);
  /// Writes one range and waits until the device has it. On a prewritten range this is the fastest
  /// durable write that a disk offers (O_DIRECT with RWF_DSYNC: one command, no journal commit).
  bool write_durable(Offset offset, const void* data, std::size_t bytes);
  /// Waits until the device has everything written so far, sizes included.
  bool sync();
  /// Whether both are the same opened file.
  friend bool operator==(const FileDevice&, const FileDevice&) = default;

 private:
  int fd_;
  int direct_fd_;
};

}  // namespace perdure
