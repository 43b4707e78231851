// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "bench/berkeley_db.h"
#include "bench/berkeley_on_pcm_disk.h"

namespace perdure::bench {
namespace {

using reproduce::PcmDisk;

/// The library's hooks are plain functions, one set for the process.
class Disks {
 public:
  static Disks& of_process() {
    static Disks disks;
    return disks;
  }
  void add(const std::string& directory, PcmDisk* disk) {
    const std::unique_lock lock(mutex_);
    disks_.push_back({directory + "/", disk});
  }
  void remove(PcmDisk* disk) {
    const std::unique_lock lock(mutex_);
    std::erase_if(disks_, [&](const Mounted& one) { return one.disk == disk; });
    std::erase_if(files_, [&](const auto& one) { return one.second == disk; });
  }
  void opened(int file, std::string_view path) {
    const std::unique_lock lock(mutex_);
    for (const Mounted& one : disks_) {
      if (path.starts_with(one.directory)) files_[file] = one.disk;
    }
  }
  void closed(int file) {
    const std::unique_lock lock(mutex_);
    files_.erase(file);
  }
  /// Null: it lies elsewhere.
  PcmDisk* of(int file) const {
    const std::shared_lock lock(mutex_);
    const auto found = files_.find(file);
    return found != files_.end() ? found->second : nullptr;
  }

 private:
  struct Mounted {
    std::string directory;
    PcmDisk* disk;
  };
  mutable std::shared_mutex mutex_;
  std::vector<Mounted> disks_;
  std::map<int, PcmDisk*> files_;  // that are open
};

int open_hook(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>(va_arg(more, int));
  va_end(more);
  const int file = ::open(path, flags, mode);
  if (file >= 0) Disks::of_process().opened(file, path);
  return file;
}
ssize_t pwrite_hook(int file, const void* data, std::size_t bytes, off_t offset) {
  const ssize_t done = ::pwrite(file, data, bytes, offset);
  if (PcmDisk* const disk = Disks::of_process().of(file); disk != nullptr && done > 0)
    disk->written(file, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(done));
  return done;
}
ssize_t write_hook(int file, const void* data, std::size_t bytes) {
  const off_t offset = ::lseek(file, 0, SEEK_CUR);
  const ssize_t done = ::write(file, data, bytes);
  if (PcmDisk* const disk = Disks::of_process().of(file); disk != nullptr && done > 0)
    disk->written(file, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(done));
  return done;
}
int fsync_hook(int file) {
  if (PcmDisk* const disk = Disks::of_process().of(file)) disk->sync(file);
  return ::fsync(file);
}
int close_hook(int file) {
  if (PcmDisk* const disk = Disks::of_process().of(file)) disk->close(file);
  Disks::of_process().closed(file);
  return ::close(file);
}

}  // namespace

BerkeleyOnPcmDisk::BerkeleyOnPcmDisk(const reproduce::EmulatedMemory& memory,
                                     const std::string& directory)
    : disk_(memory) {
  BerkeleyDb::check(::db_env_set_func_open(open_hook), "hook open");
  BerkeleyDb::check(::db_env_set_func_pwrite(pwrite_hook), "hook pwrite");
  BerkeleyDb::check(::db_env_set_func_write(write_hook), "hook write");
  BerkeleyDb::check(::db_env_set_func_fsync(fsync_hook), "hook fsync");
  BerkeleyDb::check(::db_env_set_func_close(close_hook), "hook close");
  Disks::of_process().add(directory, &disk_);
}
BerkeleyOnPcmDisk::~BerkeleyOnPcmDisk() { Disks::of_process().remove(&disk_); }

}  // namespace perdure::bench
