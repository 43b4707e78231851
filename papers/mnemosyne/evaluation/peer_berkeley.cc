// SPDX-License-Identifier: BSD-3-Clause
// Berkeley DB 5.3 as the peer of the hash table: DB_HASH in a transactional environment, one
// transaction per update, committed with DB_TXN_SYNC. Its files lie on the emulated PCM-disk: the
// library lets a program replace its system calls, and ours tell the disk what is written and
// synced. Pages of the database stay in its cache (no checkpoint is taken while it is measured), so
// that what it pays is its log alone.
#include <unistd.h>

#include <string>

#include "bench/berkeley_db.h"
#include "bench/system.h"
#include "papers/mnemosyne/evaluation/stores.h"

namespace perdure::bench::reproduce {
namespace {

/// The library's hooks are plain functions, one set for the process.
PcmDisk* disk_of_process = nullptr;

ssize_t pwrite_hook(int file, const void* data, std::size_t bytes, off_t offset) {
  const ssize_t done = ::pwrite(file, data, bytes, offset);
  if (done > 0 && disk_of_process != nullptr)
    disk_of_process->written(file, static_cast<std::uint64_t>(offset),
                             static_cast<std::uint64_t>(done));
  return done;
}
ssize_t write_hook(int file, const void* data, std::size_t bytes) {
  const off_t offset = ::lseek(file, 0, SEEK_CUR);
  const ssize_t done = ::write(file, data, bytes);
  if (done > 0 && disk_of_process != nullptr)
    disk_of_process->written(file, static_cast<std::uint64_t>(offset),
                             static_cast<std::uint64_t>(done));
  return done;
}
int fsync_hook(int file) {
  if (disk_of_process != nullptr) disk_of_process->sync(file);
  return ::fsync(file);
}
int close_hook(int file) {
  if (disk_of_process != nullptr) disk_of_process->close(file);
  return ::close(file);
}

/// The disk of this process, while it lives.
class HookedDisk {
 public:
  explicit HookedDisk(const EmulatedMemory& memory) : disk_(memory) {
    if (disk_of_process != nullptr)
      throw Exception(Code::kMisuse, "Berkeley DB: one environment at a time; close the other");
    BerkeleyDb::check(::db_env_set_func_pwrite(pwrite_hook), "hook pwrite");
    BerkeleyDb::check(::db_env_set_func_write(write_hook), "hook write");
    BerkeleyDb::check(::db_env_set_func_fsync(fsync_hook), "hook fsync");
    BerkeleyDb::check(::db_env_set_func_close(close_hook), "hook close");
    disk_of_process = &disk_;
  }
  ~HookedDisk() { disk_of_process = nullptr; }
  HookedDisk(const HookedDisk&) = delete;
  HookedDisk& operator=(const HookedDisk&) = delete;
  PcmDisk* operator->() { return &disk_; }
  const PcmDisk* operator->() const { return &disk_; }

 private:
  PcmDisk disk_;
};

class BerkeleyHash final : public UpdateStore {
 public:
  explicit BerkeleyHash(const StoreOptions& options)
      : disk_(options.memory),
        directory_(options.dir, "berkeley"),
        table_(directory_.path(),
               {.page_bytes = berkeley_page_bytes(options.value_bytes, options.threads)}) {}
  // What is not durable at the end is scratch, too.
  ~BerkeleyHash() override { disk_->charge(false); }
  BerkeleyHash(const BerkeleyHash&) = delete;
  BerkeleyHash& operator=(const BerkeleyHash&) = delete;

  void enter(Phase phase) override {
    disk_->charge(phase != Phase::kFill);
    commit_flags_ = phase == Phase::kFill ? DB_TXN_NOSYNC : DB_TXN_SYNC;
  }

  void put(std::uint64_t key, std::string_view value) override {
    table_.in_transaction("put", commit_flags_, [&](DB_TXN* transaction) {
      return table_.put(transaction, name_of(key), value);
    });
  }
  void erase(std::uint64_t key) override {
    table_.in_transaction("del", commit_flags_, [&](DB_TXN* transaction) {
      return table_.erase(transaction, name_of(key));
    });
  }
  std::string get(std::uint64_t key) override {
    std::string found;
    return table_.get(name_of(key), found) ? found : std::string();
  }
  double device_ns() const override { return disk_->busy_ns(); }
  std::uint64_t retries() const override { return table_.deadlocks(); }

 private:
  static std::string_view name_of(const std::uint64_t& key) {
    return {reinterpret_cast<const char*>(&key), sizeof(key)};
  }

  HookedDisk disk_;
  ScratchDirectory directory_;
  BerkeleyDb table_;
  std::uint32_t commit_flags_ = DB_TXN_SYNC;
};

const bool kRegistered = [] {
  peers().berkeley_db = [](const StoreOptions& options) -> std::unique_ptr<UpdateStore> {
    return std::make_unique<BerkeleyHash>(options);
  };
  return true;
}();

}  // namespace
}  // namespace perdure::bench::reproduce
