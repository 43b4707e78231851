// SPDX-License-Identifier: BSD-3-Clause
#include "apps/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "perdure/error.h"

namespace perdure {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Exception(Code::kIo, path + ": " + what + ": " + std::strerror(errno));
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    throw Exception(Code::kInvalid, path + ": a socket's path has 1 to " +
                                        std::to_string(sizeof(address.sun_path) - 1) +
                                        " bytes; choose a shorter one");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Whether the path is free, or holds a socket that nobody listens on.
void refuse_if_taken(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return;
    fail(path, "cannot be looked at");
  }
  if (!S_ISSOCK(status.st_mode))
    throw Exception(Code::kExists,
                    path + ": is there and no socket; it is never overwritten, name another path");
  const sockaddr_un address = address_of(path);
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) fail(path, "no socket");
  const bool listened =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(probe);
  if (listened)
    throw Exception(Code::kBusy,
                    path + ": another process listens there; stop it, or name another path");
}

}  // namespace

// A new socket comes into being under another name and takes the place of an old one by rename, so
// that at no moment a socket is there that refuses.
UnixListener::UnixListener(const std::string& path, int backlog, mode_t mode) : path_(path) {
  (void)address_of(path);
  refuse_if_taken(path);
  const std::string fresh = path + "." + std::to_string(::getpid());
  const sockaddr_un address = address_of(fresh);
  descriptor_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor_ < 0) fail(path, "no socket");
  struct stat status{};
  ::unlink(fresh.c_str());
  const bool listening =
      ::fchmod(descriptor_, mode) == 0 &&  // the mode that bind() gives the file
      ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      ::chmod(fresh.c_str(), mode) == 0 && ::listen(descriptor_, backlog) == 0 &&
      ::stat(fresh.c_str(), &status) == 0 && std::rename(fresh.c_str(), path.c_str()) == 0;
  if (!listening) {
    const int why = errno;
    ::unlink(fresh.c_str());
    ::close(descriptor_);
    errno = why;
    fail(path, "cannot be listened on");
  }
  file_ = status.st_ino;
}

UnixListener::~UnixListener() { close(); }

void UnixListener::close() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
  struct stat status{};
  if (::stat(path_.c_str(), &status) == 0 && status.st_ino == file_) ::unlink(path_.c_str());
}

}  // namespace perdure
