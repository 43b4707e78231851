// SPDX-License-Identifier: BSD-3-Clause
// What each file of this library needs of the operating system: creation that is all or nothing, a
// lock for one process, complete reads and writes, and knowledge of the storage underneath.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "perdure/base/words.h"
#include "perdure/domain/domain.h"
#include "perdure/error.h"

// Linux 4.15; older headers do not have them.
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif

namespace perdure {

/// `what`, and why the last system call failed (errno): kNotFound, kExists, kNoSpace or kIo.
Error io_error(const std::string& what);

/// A file descriptor that closes itself unless it is released.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// All of the bytes, or false with errno set (0 when the file ends before them).
bool read_at(int fd, void* data, std::size_t bytes, Offset offset);
bool write_at(int fd, const void* data, std::size_t bytes, Offset offset);
/// Real blocks for a range of the file, which grows if it must. False with errno set.
bool allocate_blocks(int fd, Offset offset, std::uint64_t bytes);

std::string directory_of(const std::string& path);

/// Creates the file whole or not at all: `fill` writes it while it has no name; it is synced, then
/// linked, and the directory is synced.
/// Errors: kExists, kIo, kNoSpace, and what `fill` answers; then there is no new file.
Result<void> create_whole_file(const std::string& path, unsigned mode,
                               const std::function<Result<void>(int fd)>& fill);

/// Opens a file that is there, without waiting for anything. A symbolic link is followed if it belongs
/// to the owner of the file, or to root: who may put links into a directory does not make others open
/// what the others can write.   `flags`: as of open(), to which O_CLOEXEC | O_NONBLOCK is added.
/// Errors: kNotFound, kInvalid (whose link it is), kIo.
Result<Descriptor> open_followed(const std::string& path, int flags);

struct LockedFile {
  Descriptor fd;
  std::uint64_t bytes;
};
/// Opens a regular file and takes its lock: alone for writing, with other readers for inspection. Who
/// wants it alone waits for readers, for two seconds at most.
/// Errors: those of open_followed(), kForeign (not a regular file), kBusy (with the holder's pid).
Result<LockedFile> open_locked(const std::string& path, bool inspect);

/// kAdr where the kernel vouches for synchronous mappings, kDram on tmpfs, else kSync. eADR cannot
/// be told from user space with certainty: it is asked for, never assumed.
DomainKind domain_of_file(int fd, std::uint64_t file_bytes);

}  // namespace perdure
