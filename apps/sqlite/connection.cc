// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/connection.h"

#include <string>
#include <utility>

#include "apps/sqlite/errors.h"
#include "apps/sqlite/header_page.h"
#include "apps/sqlite/plain_journal.h"
#include "apps/sqlite/vfs.h"

namespace perdure::sqlite {

Connection::Connection(std::unique_ptr<DatabaseHold> database, bool read_only)
    : hold_(std::move(database)), database_(hold_->database()), read_only_(read_only) {}

Connection::~Connection() { unlock(static_cast<int>(LockLevel::kNone)); }

std::size_t Connection::read(void* to, std::size_t bytes, std::uint64_t at) {
  return database_.file.read(to, bytes, at);
}

int Connection::write(const void* from, std::size_t bytes, std::uint64_t at) {
  if (read_only_) return SQLITE_READONLY;
  complete_ = false;
  const auto changed = at == 0 ? without_wal(from, bytes) : std::nullopt;
  database_.file.write(changed ? changed->data() : from, bytes, at);
  if (database_.plain != nullptr) commit_write(database_.file);
  return SQLITE_OK;
}

int Connection::truncate(std::uint64_t bytes) {
  if (read_only_) return SQLITE_READONLY;
  complete_ = false;
  database_.file.truncate(bytes);
  if (database_.plain != nullptr) commit_write(database_.file);
  return SQLITE_OK;
}

int Connection::sync() {
  complete_ = false;  // if this fails, it is not to be tried again when the lock is given up
  database_.file.commit(Durability::kStrict);
  return SQLITE_OK;
}

std::uint64_t Connection::size() { return database_.file.bytes(); }

int Connection::lock(int level) {
  return database_.locks.lock(level_, static_cast<LockLevel>(level)) ? SQLITE_OK : SQLITE_BUSY;
}

int Connection::unlock(int level) {
  // Before the lock goes: the next connection may read at once.
  const int ended = level_ > LockLevel::kShared ? end_writing() : SQLITE_OK;
  database_.locks.unlock(level_, static_cast<LockLevel>(level));
  return ended;
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

bool Connection::reserved() { return database_.locks.reserved(); }

int Connection::control(int operation, void* argument) {
  switch (operation) {
    case SQLITE_FCNTL_SYNC: complete_ = true; return SQLITE_OK;
    case SQLITE_FCNTL_COMMIT_PHASETWO:
      complete_ = false;  // as in sync()
      if (database_.file.pending()) database_.file.commit(Durability::kRelaxed);
      return SQLITE_OK;
    case SQLITE_FCNTL_LOCKSTATE:
      *static_cast<int*>(argument) = static_cast<int>(level_);
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
  if (sqlite3_stricmp(arguments[1], "perdure_info") == 0) {
    const std::string info = "engine " + database_.engine + ", domain " +
                             std::string(domain_name(database_.pool.domain())) + ", survives " +
                             std::string(database_.pool.guarantee());
    arguments[0] = sqlite3_mprintf("%s", info.c_str());
    return arguments[0] != nullptr ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (sqlite3_stricmp(arguments[1], "journal_mode") == 0 && arguments[2] != nullptr &&
      sqlite3_stricmp(arguments[2], "wal") == 0) {
    // Without shared memory SQLite itself refuses, unless locking_mode=EXCLUSIVE. A value that is no mode makes the pragma
    // a question in either case, and its answer is the mode that stays.
    log(SQLITE_NOTICE,
        database_.path + ": no WAL mode; every commit is one write already, in any journal mode");
    arguments[2][0] = '?';
  }
  return SQLITE_NOTFOUND;
}

}  // namespace perdure::sqlite
