// SPDX-License-Identifier: BSD-3-Clause
// FileBacking: the file of a region as what it grows in, and what is written past its mapping.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "perdure/region/file.h"
#include "perdure/region/onlookers.h"
#include "perdure/region/region.h"

namespace perdure {

class FileBacking final : public Backing {
 public:
  /// Takes no ownership of `fd`, but of `sync_fd`: the same file opened anew, or -1 if it is only
  /// looked at. The kernel tells of a failed write-back once to each opening of a file: an error
  /// that this sync met, and a commit's data had, must not be gone when the commit asks.
  FileBacking(int fd, int sync_fd, Onlookers* onlookers, std::string path)
      : fd_(fd),
        sync_fd_(sync_fd),
        onlookers_(onlookers),
        path_(std::move(path)),
        writable_(sync_fd >= 0) {}
  ~FileBacking() override {
    if (sync_fd_ >= 0) ::close(sync_fd_);
  }
  FileBacking(const FileBacking&) = delete;
  FileBacking& operator=(const FileBacking&) = delete;
  Result<void> extend(std::uint64_t from, std::uint64_t bytes) override {
    if (!writable_) return Error{Code::kNoSpace, path_ + ": opened for inspection; it cannot grow"};
    if (auto blocks = allocate(from, bytes - from); !blocks) return blocks;
    // The size is metadata of the file system, which no flush of a domain makes durable.
    if (::fsync(sync_fd_) != 0)
      return Error{Code::kPoisoned, io_error(path_ + ": sync after growing").message +
                                        "; fix the device and reopen the pool"};
    return {};
  }
  Result<void> allocate(Offset offset, std::uint64_t bytes) override {
    if (!writable_) return {};  // the pages of a private copy come from memory
    if (allocate_blocks(fd_, offset, bytes)) return {};
    return io_error(path_ + ": reserving " + std::to_string(bytes) + " bytes");
  }
  void release(Offset offset, std::uint64_t bytes) override {
    const Onlookers::Writing writing(onlookers_, 0, 0);
    if (writable_ && writing.is_alone())
      (void)::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                        static_cast<off_t>(bytes));
  }
  bool keeps_sums() const override { return writable_; }
  bool read(Offset offset, void* to, std::uint64_t bytes) override {
    return read_at(fd_, to, bytes, offset);
  }
  bool write(Offset offset, const void* data, std::uint64_t bytes) override {
    const Onlookers::Writing writing(onlookers_, offset, bytes);
    return write_at(fd_, data, bytes, offset);
  }
  bool sync(Site) override { return ::fdatasync(sync_fd_) == 0; }
  bool tell(Offset offset, Word value) override {
    if (!writable_) return true;
    const Onlookers::Writing writing(onlookers_, offset, sizeof(value));
    return write_at(fd_, &value, sizeof(value), offset);
  }

 private:
  int fd_;
  int sync_fd_;
  Onlookers* onlookers_;
  std::string path_;
  bool writable_;
};

}  // namespace perdure
