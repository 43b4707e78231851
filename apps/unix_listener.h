// SPDX-License-Identifier: BSD-3-Clause
// A Unix socket that a server listens on, and its file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace perdure {

class UnixListener {
 public:
  /// Listens at `path`. A socket file that nobody listens on any more is replaced, at no moment by one that refuses.
  /// Errors: throws Exception kBusy when another process listens there, kExists when the path is something other than a
  /// socket, kInvalid for a path that is too long, kIo.
  UnixListener(const std::string& path, int backlog, mode_t mode);
  /// As close().
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  int descriptor() const { return descriptor_; }
  /// Ends it, and removes the file if it is still ours.
  void close();

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t file_ = 0;  // inode of our socket file
};

}  // namespace perdure
