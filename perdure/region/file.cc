// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include "perdure/region/live_protocol.h"

namespace perdure {
namespace {

/// Who holds the flock on this file, from the kernel's own list.
std::string lock_holder(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return "unknown";
  std::ifstream locks("/proc/locks");
  const std::string inode = ":" + std::to_string(status.st_ino) + " ";
  for (std::string line; std::getline(locks, line);) {
    if (line.find(inode) == std::string::npos) continue;
    std::istringstream fields(line);
    std::string number;
    std::string type;
    std::string advisory;
    std::string mode;
    std::string pid;
    if (fields >> number >> type >> advisory >> mode >> pid && type == "FLOCK") return pid;
  }
  return "unknown";
}

constexpr std::chrono::seconds kReadersEndWithin(2);
constexpr std::chrono::milliseconds kBetweenLooks(1);

/// Those who only look end soon: they are waited for, and new ones wait for us.
bool lock_alone(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  const auto end = std::chrono::steady_clock::now() + kReadersEndWithin;
  bool waits = false;
  bool locked = false;
  while (!locked && errno == EWOULDBLOCK && ::flock(fd, LOCK_SH | LOCK_NB) == 0) {
    ::flock(fd, LOCK_UN);
    waits = waits || live::set_lock(fd, F_WRLCK, live::kWaitingByte);
    if (std::chrono::steady_clock::now() > end) {
      errno = EWOULDBLOCK;
      break;
    }
    std::this_thread::sleep_for(kBetweenLooks);
    locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  }
  const int error = errno;
  if (waits) (void)live::set_lock(fd, F_UNLCK, live::kWaitingByte);
  errno = error;
  return locked;
}

bool lock_to_look(int fd) {
  const auto end = std::chrono::steady_clock::now() + kReadersEndWithin;
  while (live::find_lock(fd, live::kWaitingByte, 1) != 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kBetweenLooks);
  return ::flock(fd, LOCK_SH | LOCK_NB) == 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Error io_error(const std::string& what) {
  const int saved = errno;
  const Code code = saved == ENOENT                                          ? Code::kNotFound
                    : saved == EEXIST                                        ? Code::kExists
                    : (saved == ENOSPC || saved == EDQUOT || saved == EFBIG) ? Code::kNoSpace
                                                                             : Code::kIo;
  return {code, what + ": " + std::strerror(saved)};
}

bool read_at(int fd, void* data, std::size_t bytes, Offset offset) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = 0;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<std::size_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_at(int fd, const void* data, std::size_t bytes, Offset offset) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(fd, from, bytes, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    offset += static_cast<std::size_t>(put);
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

bool allocate_blocks(int fd, Offset offset, std::uint64_t bytes) {
  do {
    errno = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (errno == EINTR);
  return errno == 0;
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> create_whole_file(const std::string& path, unsigned mode,
                               const std::function<Result<void>(int fd)>& fill) {
  // The name appears last, with everything behind it durable: a crash during creation leaves no
  // file at all.
  const std::string directory = directory_of(path);
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  std::string temporary;
  if (file.get() < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
    // A name that nobody has: one that a killed process left must not be in the way.
    std::uint64_t random = 0;
    (void)::getrandom(&random, sizeof(random), 0);
    temporary = path + ".creating." + std::to_string(::getpid()) + "." + std::to_string(random);
    file = Descriptor(
        ::open(temporary.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, mode));
  }
  if (file.get() < 0) return io_error(path + ": creating in " + directory);
  const auto give_up = [&](Error error) -> Error {
    if (!temporary.empty()) ::unlink(temporary.c_str());
    return error;
  };
  const auto fail = [&](const std::string& step) { return give_up(io_error(path + ": " + step)); };

  if (auto filled = fill(file.get()); !filled) return give_up(filled.error());
  if (::fsync(file.get()) != 0) return fail("sync of the format");
  const Descriptor parent(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0) return fail("opening " + directory);
  const std::string self = "/proc/self/fd/" + std::to_string(file.get());
  const int named = temporary.empty() ? ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(),
                                                 AT_SYMLINK_FOLLOW)
                                      : ::link(temporary.c_str(), path.c_str());
  if (named != 0) return fail("naming");
  if (!temporary.empty()) ::unlink(temporary.c_str());
  if (::fsync(parent.get()) != 0) {
    const Error error = io_error(directory + ": sync of the new name");
    ::unlink(path.c_str());
    return error;
  }
  return {};
}

Result<Descriptor> open_followed(const std::string& path, int flags) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::string name = path;
  std::vector<uid_t> owners;
  struct stat status{};
  while (owners.size() <= kMostLinks) {
    Descriptor file(::open(name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.get() >= 0) {
      if (::fstat(file.get(), &status) != 0) return io_error(path);
      for (const uid_t owner : owners) {
        if (owner == status.st_uid || owner == 0) continue;
        return Error{Code::kInvalid, path + ": is a symbolic link of user " +
                                         std::to_string(owner) + " to " + name + " of user " +
                                         std::to_string(status.st_uid) + "; name that file itself"};
      }
      return file;
    }
    if (errno != ELOOP) return io_error(owners.empty() ? path : path + ": links to " + name);
    // The link is opened, so that its owner and its target are of one link, whoever replaces it.
    const Descriptor link(::open(name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (link.get() < 0 || ::fstat(link.get(), &status) != 0) return io_error(path);
    if (!S_ISLNK(status.st_mode)) continue;  // it was one a moment ago
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlinkat(link.get(), "", target.data(), target.size());
    if (length <= 0) return io_error(path + ": reading the symbolic link " + name);
    const std::string_view to(target.data(), static_cast<std::size_t>(length));
    name = to.front() == '/' ? std::string(to) : directory_of(name) + "/" + std::string(to);
    owners.push_back(status.st_uid);
  }
  errno = ELOOP;
  return io_error(path);
}

Result<LockedFile> open_locked(const std::string& path, bool inspect) {
  auto opened = open_followed(path, inspect ? O_RDONLY : O_RDWR);
  if (!opened) return opened.error();
  Descriptor file = std::move(opened).value();
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return io_error(path);
  if (!S_ISREG(status.st_mode)) return Error{Code::kForeign, path + ": not a regular file"};
  if (inspect ? !lock_to_look(file.get()) : !lock_alone(file.get())) {
    if (errno != EWOULDBLOCK) return io_error(path + ": locking");
    return Error{Code::kBusy, path + ": in use by process " + lock_holder(file.get()) +
                                  "; close it there first"};
  }
  return LockedFile{std::move(file), static_cast<std::uint64_t>(status.st_size)};
}

DomainKind domain_of_file(int fd, std::uint64_t file_bytes) {
  // A mapping that may be made synchronous is persistent memory; the kernel refuses it for
  // everything else.
  void* probe = ::mmap(nullptr, std::min<std::uint64_t>(file_bytes, kPageBytes), PROT_READ,
                       MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
  if (probe != MAP_FAILED) {
    ::munmap(probe, kPageBytes);
    return DomainKind::kAdr;
  }
  struct statfs system{};
  if (::fstatfs(fd, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC))
    return DomainKind::kDram;
  return DomainKind::kSync;
}

}  // namespace perdure
