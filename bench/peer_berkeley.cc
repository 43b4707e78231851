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

/// The library's hooks are plain functions, one set for the process.
class Disks {
 public:
  static Disks& of_process() {
    static Disks disks;
    return disks;
  }
  void add(const std::string& directory, BerkeleyOnPcmDisk* disk) {
    const std::unique_lock lock(mutex_);
    disks_.push_back({directory + "/", disk});
  }
  void remove(BerkeleyOnPcmDisk* disk) {
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
  BerkeleyOnPcmDisk* of(int file) const {
    const std::shared_lock lock(mutex_);
    const auto found = files_.find(file);
    return found != files_.end() ? found->second : nullptr;
  }

 private:
  struct Mounted {
    std::string directory;
    BerkeleyOnPcmDisk* disk;
  };
  mutable std::shared_mutex mutex_;
  std::vector<Mounted> disks_;
  std::map<int, BerkeleyOnPcmDisk*> files_;  // that are open
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
  if (BerkeleyOnPcmDisk* const disk = Disks::of_process().of(file); disk != nullptr && done > 0)
    disk->written(file, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(done));
  return done;
}
ssize_t write_hook(int file, const void* data, std::size_t bytes) {
  const off_t offset = ::lseek(file, 0, SEEK_CUR);
  const ssize_t done = ::write(file, data, bytes);
  if (BerkeleyOnPcmDisk* const disk = Disks::of_process().of(file); disk != nullptr && done > 0)
    disk->written(file, static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(done));
  return done;
}
int fsync_hook(int file) {
  BerkeleyOnPcmDisk* const disk = Disks::of_process().of(file);
  return disk != nullptr ? disk->sync(file) : ::fsync(file);
}
int close_hook(int file) {
  if (BerkeleyOnPcmDisk* const disk = Disks::of_process().of(file)) disk->close(file);
  Disks::of_process().closed(file);
  return ::close(file);
}

}  // namespace

BerkeleyOnPcmDisk::BerkeleyOnPcmDisk(const reproduce::EmulatedMemory& memory,
                                     const std::string& directory, const reproduce::RamDisk* device)
    : disk_(memory), device_(device) {
  BerkeleyDb::check(::db_env_set_func_open(open_hook), "hook open");
  BerkeleyDb::check(::db_env_set_func_pwrite(pwrite_hook), "hook pwrite");
  BerkeleyDb::check(::db_env_set_func_write(write_hook), "hook write");
  BerkeleyDb::check(::db_env_set_func_fsync(fsync_hook), "hook fsync");
  BerkeleyDb::check(::db_env_set_func_close(close_hook), "hook close");
  Disks::of_process().add(directory, this);
}
BerkeleyOnPcmDisk::~BerkeleyOnPcmDisk() { Disks::of_process().remove(this); }

void BerkeleyOnPcmDisk::begin_counting() {
  if (device_ == nullptr) return;
  syncs_before_ = syncs_;
  blocks_before_ = device_->blocks_written();
}
void BerkeleyOnPcmDisk::end_counting() {
  if (device_ == nullptr || syncs_ == syncs_before_) return;
  blocks_per_sync_ =
      (device_->blocks_written() - blocks_before_) / static_cast<double>(syncs_ - syncs_before_);
}
double BerkeleyOnPcmDisk::sync_ns() const {
  return disk_.busy_ns() + static_cast<double>(file_system_ns_.load(std::memory_order_relaxed));
}
void BerkeleyOnPcmDisk::written(int file, std::uint64_t offset, std::uint64_t bytes) {
  if (device_ == nullptr) disk_.written(file, offset, bytes);
}
int BerkeleyOnPcmDisk::sync(int file) {
  if (device_ == nullptr) {
    disk_.sync(file);
    return ::fsync(file);
  }
  const std::uint64_t start = TscClock::now();
  const int done = ::fdatasync(file);  // as the library does by itself
  const auto ns = static_cast<double>(TscClock::now() - start) / TscClock::ticks_per_ns();
  file_system_ns_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
  syncs_.fetch_add(1, std::memory_order_relaxed);
  disk_.sync_blocks(blocks_per_sync_);
  return done;
}

}  // namespace perdure::bench
