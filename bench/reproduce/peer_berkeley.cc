// Berkeley DB 5.3 as the peer of the hash table: DB_HASH in a transactional environment, one
// transaction per update, committed with DB_TXN_SYNC. Its files lie on the emulated PCM-disk: the
// library lets a program replace its system calls, and ours tell the disk what is written and
// synced. Pages of the database stay in its cache (no checkpoint is taken while it is measured), so
// that what it pays is its log alone.
#include <db.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <string>

#include "bench/reproduce/stores.h"
#include "bench/system.h"

namespace perdure::bench::reproduce {
namespace {

void check(int status, const std::string& what) {
  if (status != 0)
    throw Exception(Code::kIo, "Berkeley DB: " + what + ": " + ::db_strerror(status));
}

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

/// Of its own choice, 4 KiB, for one thread. A value of more than a quarter of that overflows its
/// page, and transactions of several threads then deadlock at nearly every update: for them, pages
/// that hold eight values.
std::uint32_t page_bytes_for(const StoreOptions& options) {
  constexpr std::uint64_t kLeast = 4096;
  constexpr std::uint64_t kMost = 65536;
  if (options.threads == 1) return kLeast;
  return static_cast<std::uint32_t>(
      std::clamp(std::bit_ceil(8 * options.value_bytes), kLeast, kMost));
}

DBT item(const void* data, std::size_t bytes) {
  DBT made{};
  made.data = const_cast<void*>(data);
  made.size = static_cast<std::uint32_t>(bytes);
  return made;
}

class BerkeleyHash final : public UpdateStore {
 public:
  explicit BerkeleyHash(const StoreOptions& options)
      : disk_(options.memory),
        directory_(options.dir, "berkeley"),
        page_bytes_(page_bytes_for(options)) {
    if (disk_of_process != nullptr)
      throw Exception(Code::kMisuse, "Berkeley DB: one environment at a time; close the other");
    disk_of_process = &disk_;
    try {
      open();
    } catch (...) {
      close();
      throw;
    }
  }
  ~BerkeleyHash() override { close(); }
  BerkeleyHash(const BerkeleyHash&) = delete;
  BerkeleyHash& operator=(const BerkeleyHash&) = delete;

  void enter(Phase phase) override {
    disk_.charge(phase != Phase::kFill);
    commit_flags_ = phase == Phase::kFill ? DB_TXN_NOSYNC : DB_TXN_SYNC;
  }

  void put(std::uint64_t key, std::string_view value) override {
    in_transaction("put", [&](DB_TXN* transaction) {
      DBT name = item(&key, sizeof(key));
      DBT record = item(value.data(), value.size());
      return table_->put(table_, transaction, &name, &record, 0);
    });
  }
  void erase(std::uint64_t key) override {
    in_transaction("del", [&](DB_TXN* transaction) {
      DBT name = item(&key, sizeof(key));
      return table_->del(table_, transaction, &name, 0);
    });
  }
  std::string get(std::uint64_t key) override {
    DBT name = item(&key, sizeof(key));
    DBT record{};
    record.flags = DB_DBT_MALLOC;
    const int status = table_->get(table_, nullptr, &name, &record, 0);
    if (status == DB_NOTFOUND) return {};
    check(status, "get");
    std::string found(static_cast<const char*>(record.data), record.size);
    std::free(record.data);
    return found;
  }
  double device_ns() const override { return disk_.busy_ns(); }
  std::uint64_t retries() const override { return deadlocks_.load(std::memory_order_relaxed); }

 private:
  void open() {
    check(::db_env_set_func_pwrite(pwrite_hook), "hook pwrite");
    check(::db_env_set_func_write(write_hook), "hook write");
    check(::db_env_set_func_fsync(fsync_hook), "hook fsync");
    check(::db_env_set_func_close(close_hook), "hook close");
    check(::db_env_create(&environment_, 0), "db_env_create");
    check(environment_->set_cachesize(environment_, 0, 512u << 20, 1), "set_cachesize");
    check(environment_->set_lk_detect(environment_, DB_LOCK_DEFAULT), "set_lk_detect");
    check(environment_->open(environment_, directory_.path().c_str(),
                             DB_CREATE | DB_PRIVATE | DB_THREAD | DB_INIT_LOCK | DB_INIT_LOG |
                                 DB_INIT_MPOOL | DB_INIT_TXN,
                             0600),
          directory_.path());
    check(::db_create(&table_, environment_, 0), "db_create");
    check(table_->set_pagesize(table_, page_bytes_), "set_pagesize");
    check(table_->open(table_, nullptr, "table.db", nullptr, DB_HASH,
                       DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0600),
          "table.db");
  }
  /// What is not durable at the end is scratch, too.
  void close() {
    disk_.charge(false);
    if (table_ != nullptr) table_->close(table_, DB_NOSYNC);
    if (environment_ != nullptr) environment_->close(environment_, 0);
    disk_of_process = nullptr;
  }

  /// Runs `update` until it is not chosen to end a deadlock.
  template <class Update>
  void in_transaction(const char* what, Update update) {
    for (;;) {
      DB_TXN* transaction = nullptr;
      check(environment_->txn_begin(environment_, nullptr, &transaction, 0), "txn_begin");
      const int status = update(transaction);
      if (status == 0) return check(transaction->commit(transaction, commit_flags_), "commit");
      check(transaction->abort(transaction), "abort");
      if (status != DB_LOCK_DEADLOCK) check(status, what);
      deadlocks_.fetch_add(1, std::memory_order_relaxed);
    }
  }

  PcmDisk disk_;
  ScratchDirectory directory_;
  std::uint32_t page_bytes_;
  std::uint32_t commit_flags_ = DB_TXN_SYNC;
  std::atomic<std::uint64_t> deadlocks_{0};
  DB_ENV* environment_ = nullptr;
  DB* table_ = nullptr;
};

const bool kRegistered = [] {
  peers().berkeley_db = [](const StoreOptions& options) -> std::unique_ptr<UpdateStore> {
    return std::make_unique<BerkeleyHash>(options);
  };
  return true;
}();

}  // namespace
}  // namespace perdure::bench::reproduce
