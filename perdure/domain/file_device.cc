// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/file_device.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace perdure {
namespace {

/// pwritev2 until all is written; short writes and EINTR are continued.
bool write_all(int fd, Offset offset, const void* data, std::size_t bytes, int flags) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const iovec piece{const_cast<char*>(from), bytes};
    const ssize_t done = ::pwritev2(fd, &piece, 1, static_cast<off_t>(offset), flags);
    if (done < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    if (done == 0) {
      errno = EIO;
      return false;
    }
    from += done;
    offset += static_cast<std::size_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

bool FileDevice::write(Offset offset, const void* data, std::size_t bytes) {
  return write_all(fd_, offset, data, bytes, 0);
}

bool FileDevice::write_durable(Offset offset, const void* data, std::size_t bytes) {
  if (direct_fd_ >= 0) {
    if (write_all(direct_fd_, offset, data, bytes, RWF_DSYNC)) return true;
    if (errno != EINVAL && errno != EOPNOTSUPP)
      return false;  // else this file system refuses writes of this shape
  }
  return write_all(fd_, offset, data, bytes, 0) && sync();
}

bool FileDevice::sync() { return ::fdatasync(fd_) == 0; }

}  // namespace perdure
