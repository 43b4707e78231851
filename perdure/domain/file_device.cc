// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/file_device.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

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
  int flags = ::fcntl(durable_fd_, F_GETFL);
  if (flags < 0) return false;
  if ((flags & O_DIRECT) != 0) {
    if (write_all(durable_fd_, offset, data, bytes, RWF_DSYNC)) return true;
    if (errno != EINVAL && errno != EOPNOTSUPP) return false;
    // This file system refuses writes of this shape past its cache.
    if (::fcntl(durable_fd_, F_SETFL, flags & ~O_DIRECT) != 0) return false;
  }
  // One at a time, so that none is told of another's failure in its place.
  static std::mutex one;
  const std::lock_guard lock(one);
  return write_all(durable_fd_, offset, data, bytes, RWF_DSYNC);
}

bool FileDevice::sync() { return ::fdatasync(fd_) == 0; }

int open_for_durable_writes(int fd) {
  const std::string self = "/proc/self/fd/" + std::to_string(fd);
  const int direct = ::open(self.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
  return direct >= 0 ? direct : ::open(self.c_str(), O_WRONLY | O_CLOEXEC);
}

}  // namespace perdure
