// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/connection.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "apps/sqlite/errors.h"
#include "apps/sqlite/header_page.h"
#include "apps/sqlite/plain_journal.h"
#include "apps/sqlite/refused_lock.h"
#include "apps/sqlite/vfs.h"

namespace perdure::sqlite {
namespace {

/// The connections to which PRAGMA locking_mode=EXCLUSIVE was said, with their handles: said to the main database without naming
/// it, it holds for all that the handle has attached.
class ExclusiveHandles {
 public:
  static ExclusiveHandles& instance() {
    static auto& all = *new ExclusiveHandles;
    return all;
  }
  void add(const sqlite3* handle, const Connection* connection) {
    const std::lock_guard lock(mutex_);
    said_.insert({handle, connection});
    count_.store(said_.size(), std::memory_order_release);
  }
  void remove(const sqlite3* handle, const Connection* connection) {
    const std::lock_guard lock(mutex_);
    said_.erase({handle, connection});
    count_.store(said_.size(), std::memory_order_release);
  }
  bool contains(const sqlite3* handle) const {
    // Acquire: what this thread's own handle was told it has told before.
    if (count_.load(std::memory_order_acquire) == 0) return false;
    const std::lock_guard lock(mutex_);
    const auto first = said_.lower_bound({handle, nullptr});
    return first != said_.end() && first->first == handle;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<const sqlite3*, const Connection*>> said_;
  std::atomic<std::size_t> count_{0};
};

bool is_exclusive_by_default() {
  static const bool is = sqlite3_compileoption_used("DEFAULT_LOCKING_MODE=1") != 0;
  return is;
}

}  // namespace

Connection::Connection(std::unique_ptr<DatabaseHold> database, const ConnectionOptions& options)
    : hold_(std::move(database)), database_(hold_->database()), options_(options) {}

Connection::~Connection() {
  unlock(static_cast<int>(LockLevel::kNone));
  set_exclusive(false);
}

std::size_t Connection::read(void* to, std::size_t bytes, std::uint64_t at) {
  if (has_released_shared_ && take_shared_again() != SQLITE_OK)
    throw Refusal{SQLITE_BUSY, database_.path + ": changed while a commit was waited for"};
  DatabaseFile& file = database_.file;
  Mark newest = 0;
  const std::size_t count = file.read(to, bytes, at, &newest);
  if (shows_counters_ && at == 0) newest = file.newest();
  if (newest == 0) return count;
  if (options_.early_reads && level_ >= LockLevel::kReserved && !may_keep_its_lock()) {
    seen_ = std::max(seen_, newest);
  } else {
    file.await(newest);
  }
  return count;
}

int Connection::write(const void* from, std::size_t bytes, std::uint64_t at) {
  if (options_.read_only) return SQLITE_READONLY;
  complete_ = false;
  const auto changed = at == 0 ? without_wal(from, bytes) : std::nullopt;
  database_.file.write(changed ? changed->data() : from, bytes, at);
  if (database_.plain != nullptr) commit_write(database_.file);
  return SQLITE_OK;
}

int Connection::truncate(std::uint64_t bytes) {
  if (options_.read_only) return SQLITE_READONLY;
  complete_ = false;
  database_.file.truncate(bytes);
  if (database_.plain != nullptr) commit_write(database_.file);
  return SQLITE_OK;
}

int Connection::sync() {
  complete_ = false;  // if this fails, it is not to be tried again when the lock is given up
  if (database_.plain != nullptr) {
    database_.file.commit(Durability::kStrict);
    return SQLITE_OK;
  }
  synced_ = true;
  owe(database_.file.commit_early());
  if (has_super_journal_) await_what_is_owed();
  return SQLITE_OK;
}

std::uint64_t Connection::size() { return database_.file.bytes(); }

int Connection::lock(int level) {
  if (has_released_shared_) {
    if (const int code = take_shared_again(); code != SQLITE_OK) return code;
  }
  if (level_ == LockLevel::kNone) {
    // Left by a transaction that could not say so: its cache may show it now.
    await_what_is_owed();
  }
  return lock_or_note(database_.locks, level_, static_cast<LockLevel>(level)) ? SQLITE_OK
                                                                              : SQLITE_BUSY;
}

/// Needed where other connections share this one's cache, and go on reading; it was not to be seen that there are any.
int Connection::take_shared_again() {
  if (!lock_or_note(database_.locks, level_, LockLevel::kShared)) return SQLITE_BUSY;
  if (database_.file.commits() != commits_) {
    database_.locks->unlock(level_, LockLevel::kNone);
    return SQLITE_BUSY;
  }
  has_released_shared_ = false;
  return SQLITE_OK;
}

int Connection::unlock(int level) {
  const auto to = static_cast<LockLevel>(level);
  if (to == LockLevel::kNone) has_released_shared_ = false;
  if (level_ <= LockLevel::kShared) {
    database_.locks->unlock(level_, to);
    return SQLITE_OK;
  }
  // Before the lock goes: the next connection may read at once.
  const int ended = end_writing();
  const bool is_commit = std::exchange(done_, false);
  synced_ = has_super_journal_ = false;
  if (to == LockLevel::kNone || (owed_ == 0 && seen_ == 0)) {
    owed_ = 0;  // its COMMIT has failed, or will not be heard of
    database_.locks->unlock(level_, to);
    return ended;
  }
  has_released_shared_ = is_commit && !is_read_by_others();
  commits_ = database_.file.commits();
  database_.locks->unlock(level_, has_released_shared_ ? LockLevel::kNone : LockLevel::kShared);
  const int waited = guarded(SQLITE_IOERR_FSYNC, [&] {
    await_what_is_owed();
    return SQLITE_OK;
  });
  return ended != SQLITE_OK ? ended : waited;
}

int Connection::end_writing() {
  DatabaseFile& file = database_.file;
  if (!file.pending()) return SQLITE_OK;
  const int code = guarded(SQLITE_IOERR_UNLOCK, [&] {
    if (complete_) file.commit(Durability::kRelaxed);
    return SQLITE_OK;
  });
  file.discard();
  return code;
}

void Connection::owe(Mark mark) { owed_ = std::max(owed_, mark); }

void Connection::await_what_is_owed() {
  const Mark owed = std::exchange(owed_, 0);
  const Mark seen = std::exchange(seen_, 0);
  database_.file.await(std::max(owed, seen));
}

/// Whether SQLite may keep its lock when a transaction ends, so that no xUnlock comes. What an attached database is told reaches
/// the file of the main database, which may be another VFS's.
bool Connection::may_keep_its_lock() const {
  if (handle_ == nullptr || is_exclusive_by_default() ||
      ExclusiveHandles::instance().contains(*handle_))
    return true;
  const char* const main = sqlite3_db_filename(*handle_, "main");
  return main == nullptr || main != database_.path;
}

void Connection::set_exclusive(bool exclusive) {
  if (exclusive_for_ != nullptr) ExclusiveHandles::instance().remove(exclusive_for_, this);
  exclusive_for_ = exclusive && handle_ != nullptr ? *handle_ : nullptr;
  if (exclusive_for_ != nullptr) ExclusiveHandles::instance().add(exclusive_for_, this);
}

/// Whether SQLite goes on reading when a transaction has committed: it does if a statement is open beside the one that commits.
bool Connection::is_read_by_others() const {
  if (handle_ == nullptr || options_.shares_cache) return true;
  int open = 0;
  for (sqlite3_stmt* statement = sqlite3_next_stmt(*handle_, nullptr); statement != nullptr;
       statement = sqlite3_next_stmt(*handle_, statement))
    open += sqlite3_stmt_busy(statement) != 0 ? 1 : 0;
  return open > 1;
}

bool Connection::reserved() { return database_.locks->reserved(); }

int Connection::control(int operation, void* argument) {
  switch (operation) {
    case SQLITE_FCNTL_PDB: handle_ = static_cast<sqlite3* const*>(argument); return SQLITE_OK;
    case SQLITE_FCNTL_SYNC:
      complete_ = true;
      has_super_journal_ = argument != nullptr;
      return SQLITE_OK;
    case SQLITE_FCNTL_COMMIT_PHASETWO:
      complete_ = false;  // as in sync()
      if (database_.file.pending()) {
        if (std::exchange(synced_, false)) {
          owe(database_.file.commit_early());
        } else {
          database_.file.commit(Durability::kRelaxed);
        }
      }
      done_ = !may_keep_its_lock();
      if (!done_) await_what_is_owed();
      return SQLITE_OK;
    case SQLITE_FCNTL_LOCKSTATE:
      *static_cast<int*>(argument) =
          static_cast<int>(has_released_shared_ ? LockLevel::kShared : level_);
      return SQLITE_OK;
    case SQLITE_FCNTL_HAS_MOVED:  // Asked before a transaction writes; it then fails with SQLITE_READONLY_DBMOVED.
      *static_cast<int*>(argument) = database_.moved() ? 1 : 0;
      return SQLITE_OK;
    case SQLITE_FCNTL_SIZE_HINT: return SQLITE_OK;  // the pool grows by itself
    case SQLITE_FCNTL_POWERSAFE_OVERWRITE:
      // On, and it cannot be switched off: see vfs.cc, device_characteristics().
      *static_cast<int*>(argument) = 1;
      return SQLITE_OK;
    case SQLITE_FCNTL_VFSNAME:
      *static_cast<char**>(argument) =
          sqlite3_mprintf("%s", database_.plain != nullptr ? kPlainVfsName : kVfsName);
      return SQLITE_OK;
    case SQLITE_FCNTL_PRAGMA: return pragma(static_cast<char**>(argument));
    default: return SQLITE_NOTFOUND;
  }
}

/// `arguments`: [0] receives an answer, [1] the pragma's name, [2] its value or null.
int Connection::pragma(char** arguments) {
  const auto is = [&](const char* name) { return sqlite3_stricmp(arguments[1], name) == 0; };
  const auto says = [&](const char* value) {
    return arguments[2] != nullptr && sqlite3_stricmp(arguments[2], value) == 0;
  };
  if (is("perdure_info")) {
    const std::string info = "engine " + database_.engine + ", domain " +
                             std::string(domain_name(database_.pool.domain())) + ", survives " +
                             std::string(database_.pool.guarantee());
    arguments[0] = sqlite3_mprintf("%s", info.c_str());
    return arguments[0] != nullptr ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (is("locking_mode")) {
    if (says("exclusive")) set_exclusive(true);
    if (says("normal")) set_exclusive(false);
  }
  if (is("page_count") || is("freelist_count") || is("max_page_count")) {
    // From now on this connection waits for every commit that has changed them; and for those that its cache may know.
    shows_counters_ = true;
    database_.file.await(database_.file.newest());
  }
  if (is("journal_mode") && says("wal")) {
    // Without shared memory SQLite itself refuses, unless locking_mode=EXCLUSIVE. A value that is no mode makes the pragma
    // a question in either case, and its answer is the mode that stays.
    log(SQLITE_NOTICE,
        database_.path + ": no WAL mode; every commit is one write already, in any journal mode");
    arguments[2][0] = '?';
  }
  return SQLITE_NOTFOUND;
}

}  // namespace perdure::sqlite
