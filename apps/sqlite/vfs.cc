// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/vfs.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>

#include "apps/sqlite/connection.h"
#include "apps/sqlite/errors.h"
#include "apps/sqlite/plain_journal.h"
#include "apps/sqlite/refused_lock.h"
#include "apps/sqlite/request.h"
#include "apps/sqlite/volatile_files.h"
#include "perdure/lost_pages.h"

namespace perdure::sqlite {
namespace {

// ---- an open file ------------------------------------------------------------------------------

/// What SQLite allocates for a file.
struct Handle {
  sqlite3_file base;
  OpenFile* file;
};

OpenFile& file_of(sqlite3_file* handle) { return *reinterpret_cast<Handle*>(handle)->file; }

int close_file(sqlite3_file* handle) {
  return guarded(SQLITE_IOERR_CLOSE, [&] {
    delete reinterpret_cast<Handle*>(handle)->file;
    return SQLITE_OK;
  });
}

int read_file(sqlite3_file* handle, void* to, int bytes, sqlite3_int64 at) {
  return guarded(SQLITE_IOERR_READ, [&] {
    const auto wanted = static_cast<std::size_t>(bytes);
    const std::size_t count = file_of(handle).read(to, wanted, static_cast<std::uint64_t>(at));
    if (count == wanted) return SQLITE_OK;
    std::memset(static_cast<char*>(to) + count, 0, wanted - count);  // as SQLite requires
    return SQLITE_IOERR_SHORT_READ;
  });
}

int write_file(sqlite3_file* handle, const void* from, int bytes, sqlite3_int64 at) {
  return guarded(SQLITE_IOERR_WRITE, [&] {
    return file_of(handle).write(from, static_cast<std::size_t>(bytes),
                                 static_cast<std::uint64_t>(at));
  });
}

int truncate_file(sqlite3_file* handle, sqlite3_int64 bytes) {
  return guarded(SQLITE_IOERR_TRUNCATE,
                 [&] { return file_of(handle).truncate(static_cast<std::uint64_t>(bytes)); });
}

int sync_file(sqlite3_file* handle, int /*flags*/) {
  return guarded(SQLITE_IOERR_FSYNC, [&] { return file_of(handle).sync(); });
}

int file_size(sqlite3_file* handle, sqlite3_int64* bytes) {
  return guarded(SQLITE_IOERR_FSTAT, [&] {
    *bytes = static_cast<sqlite3_int64>(file_of(handle).size());
    return SQLITE_OK;
  });
}

int lock_file(sqlite3_file* handle, int level) {
  return guarded(SQLITE_IOERR_LOCK, [&] { return file_of(handle).lock(level); });
}

int unlock_file(sqlite3_file* handle, int level) {
  return guarded(SQLITE_IOERR_UNLOCK, [&] { return file_of(handle).unlock(level); });
}

int check_reserved_lock(sqlite3_file* handle, int* reserved) {
  return guarded(SQLITE_IOERR_CHECKRESERVEDLOCK, [&] {
    *reserved = file_of(handle).reserved() ? 1 : 0;
    return SQLITE_OK;
  });
}

int control_file(sqlite3_file* handle, int operation, void* argument) {
  return guarded(SQLITE_IOERR, [&] { return file_of(handle).control(operation, argument); });
}

/// The least that SQLite knows. With POWERSAFE_OVERWRITE it says nothing about safety any more.
int sector_size(sqlite3_file* /*handle*/) { return 512; }

/// What holds of a database, and of its journals, which are never read after a crash:
///   POWERSAFE_OVERWRITE  a cut harms no byte beside those that were being written: no sync point tears. SQLite then journals
///                        pages, not sectors
///   SAFE_APPEND          a file is never longer than what was written to it: size and content change together. SQLite then
///                        does not write a journal's page count in a second step
///   SEQUENTIAL           nothing is durable before what was written earlier. SQLite then leaves out syncs of journals
/// Not claimed:
///   ATOMIC, ATOMIC4K...  true, but of use only in builds with SQLITE_ENABLE_ATOMIC_WRITE, and those would take larger pages
///                        for it, of which more has to be compared at each commit
///   BATCH_ATOMIC         would save the journal in DRAM, in builds with SQLITE_ENABLE_BATCH_ATOMIC_WRITE; it has a protocol
///                        of its own, which nobody has needed yet
///   UNDELETABLE_WHEN_OPEN  others can unlink the pool's file
///   IMMUTABLE            it is not
int device_characteristics(sqlite3_file* /*handle*/) {
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE | SQLITE_IOCAP_SAFE_APPEND | SQLITE_IOCAP_SEQUENTIAL;
}

constexpr sqlite3_io_methods kMethods = {
    .iVersion =
        1,  // no shared memory, hence no WAL; no memory mapping, which would go around what is pending
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = lock_file,
    .xUnlock = unlock_file,
    .xCheckReservedLock = check_reserved_lock,
    .xFileControl = control_file,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = device_characteristics,
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

// ---- the file system ---------------------------------------------------------------------------

/// What tells the two VFSs apart, behind their pAppData.
struct Flavour {
  bool plain;
  sqlite3_vfs* system = nullptr;
};

const Flavour& flavour_of(sqlite3_vfs* vfs) { return *static_cast<Flavour*>(vfs->pAppData); }
/// The operating system's VFS, which knows paths, time and chance.
sqlite3_vfs* system_vfs(sqlite3_vfs* vfs) { return flavour_of(vfs).system; }

/// SQLite's names for what lies beside a database. Whatever a file system holds under such a name is another VFS's, and
/// nothing to a pool; but the super-journals of perdure-plain are such files.
enum class Companion { kNone, kJournal, kWal, kSuperJournal };

Companion companion(std::string_view name) {
  if (name.ends_with("-journal")) return Companion::kJournal;
  if (name.ends_with("-wal")) return Companion::kWal;
  constexpr std::size_t kDigits = 9;
  if (name.size() < kDigits + 3 || name.substr(name.size() - kDigits - 3, 3) != "-mj")
    return Companion::kNone;
  for (const char c : name.substr(name.size() - kDigits)) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return Companion::kNone;
  }
  return Companion::kSuperJournal;
}

std::unique_ptr<OpenFile> open_beside(bool plain, const char* name, int flags) {
  const bool create = (flags & SQLITE_OPEN_CREATE) != 0;
  if (name == nullptr || *name == '\0') return open_volatile(std::make_shared<VolatileFile>());
  // By its name: SQLite opens the journals that a super-journal lists as SQLITE_OPEN_SUPER_JOURNAL.
  if (plain && companion(name) == Companion::kJournal) return open_plain_journal(name, create);
  auto file = VolatileFiles::instance().open(name, create, (flags & SQLITE_OPEN_EXCLUSIVE) != 0);
  if (file == nullptr) return nullptr;
  return open_volatile(std::move(file), (flags & SQLITE_OPEN_DELETEONCLOSE) != 0 ? name : "");
}

int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* handle, int flags, int* flags_out) {
  const bool plain = flavour_of(vfs).plain;
  if (plain && (flags & SQLITE_OPEN_SUPER_JOURNAL) != 0 &&
      companion(name) == Companion::kSuperJournal)
    return system_vfs(vfs)->xOpen(system_vfs(vfs), name, handle, flags, flags_out);
  auto* const opened = new (handle) Handle{};  // without methods: xClose is not called
  const int code = guarded(SQLITE_CANTOPEN, [&] {
    if ((flags & SQLITE_OPEN_WAL) != 0) {
      log(SQLITE_CANTOPEN, std::string(name) + ": no WAL mode; see PRAGMA journal_mode");
      return SQLITE_CANTOPEN;
    }
    if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
      opened->file = open_beside(plain, name, flags).release();
      return opened->file != nullptr ? SQLITE_OK : SQLITE_CANTOPEN;
    }
    Request request = request_of(name, flags);
    request.plain = plain;
    opened->file = new Connection(open_database(request), connection_options_of(name, flags));
    return SQLITE_OK;
  });
  if (code != SQLITE_OK) return code;
  opened->base.pMethods = &kMethods;
  if (flags_out != nullptr) *flags_out = flags;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs* vfs, const char* name, int sync_directory) {
  return guarded(SQLITE_IOERR_DELETE, [&] {
    if (VolatileFiles::instance().remove(name)) return SQLITE_OK;
    const Companion beside = companion(name);
    if (flavour_of(vfs).plain && beside == Companion::kSuperJournal)
      return system_vfs(vfs)->xDelete(system_vfs(vfs), name, sync_directory);
    if (flavour_of(vfs).plain && beside == Companion::kJournal && remove_plain_journal(name))
      return SQLITE_OK;
    if (beside != Companion::kNone || ::access(name, F_OK) != 0) return SQLITE_IOERR_DELETE_NOENT;
    if (!is_pool_file(name)) {
      log(SQLITE_IOERR_DELETE, std::string(name) + ": not a Perdure pool, and not removed");
      return SQLITE_IOERR_DELETE;
    }
    return ::unlink(name) == 0 ? SQLITE_OK : SQLITE_IOERR_DELETE;
  });
}

int access_file(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
  return guarded(SQLITE_IOERR_ACCESS, [&] {
    const bool plain = flavour_of(vfs).plain;
    const Companion beside = companion(name);
    if (beside == Companion::kNone || (plain && beside == Companion::kSuperJournal))
      return system_vfs(vfs)->xAccess(system_vfs(vfs), name, flags, result);
    const bool here = plain && beside == Companion::kJournal
                          ? plain_journal_exists(name)
                          : VolatileFiles::instance().exists(name);
    *result = here ? 1 : 0;
    return SQLITE_OK;
  });
}

int full_path_name(sqlite3_vfs* vfs, const char* name, int bytes, char* to) {
  return system_vfs(vfs)->xFullPathname(system_vfs(vfs), name, bytes, to);
}

// ---- what the operating system's VFS does -----------------------------------------------------

void* open_library(sqlite3_vfs* vfs, const char* name) {
  return system_vfs(vfs)->xDlOpen(system_vfs(vfs), name);
}
void library_error(sqlite3_vfs* vfs, int bytes, char* to) {
  system_vfs(vfs)->xDlError(system_vfs(vfs), bytes, to);
}
void (*library_symbol(sqlite3_vfs* vfs, void* library, const char* name))(void) {
  return system_vfs(vfs)->xDlSym(system_vfs(vfs), library, name);
}
void close_library(sqlite3_vfs* vfs, void* library) {
  system_vfs(vfs)->xDlClose(system_vfs(vfs), library);
}
int randomness(sqlite3_vfs* vfs, int bytes, char* to) {
  return system_vfs(vfs)->xRandomness(system_vfs(vfs), bytes, to);
}
/// Also how SQLite's busy handler waits for a lock.
int sleep_microseconds(sqlite3_vfs* vfs, int microseconds) {
  if (await_refused_lock(std::chrono::microseconds(microseconds))) return microseconds;
  return system_vfs(vfs)->xSleep(system_vfs(vfs), microseconds);
}
int current_time(sqlite3_vfs* vfs, double* days) {
  return system_vfs(vfs)->xCurrentTime(system_vfs(vfs), days);
}
int last_error(sqlite3_vfs* vfs, int bytes, char* to) {
  return system_vfs(vfs)->xGetLastError(system_vfs(vfs), bytes, to);
}

}  // namespace

int register_vfs(bool make_default) {
  static std::mutex mutex;
  static Flavour flavours[] = {{.plain = true}, {.plain = false}};
  static sqlite3_vfs both[2];
  const std::lock_guard lock(mutex);
  int code = SQLITE_OK;
  sqlite3_vfs* const system = sqlite3_vfs_find(nullptr);  // at the first call: not one of ours
  survive_lost_pages();  // a program in SQL has no way to ask for it
  for (int i = 0; i < 2 && code == SQLITE_OK; ++i) {
    Flavour& flavour = flavours[i];
    sqlite3_vfs& vfs = both[i];
    if (flavour.system == nullptr) {
      if (system == nullptr) return SQLITE_ERROR;
      flavour.system = system;
      vfs = {
          .iVersion = 1,
          .szOsFile = std::max(static_cast<int>(sizeof(Handle)), system->szOsFile),
          .mxPathname = system->mxPathname,
          .pNext = nullptr,
          .zName = flavour.plain ? kPlainVfsName : kVfsName,
          .pAppData = &flavour,
          .xOpen = open_file,
          .xDelete = delete_file,
          .xAccess = access_file,
          .xFullPathname = full_path_name,
          .xDlOpen = open_library,
          .xDlError = library_error,
          .xDlSym = library_symbol,
          .xDlClose = close_library,
          .xRandomness = randomness,
          .xSleep = sleep_microseconds,
          .xCurrentTime = current_time,
          .xGetLastError = last_error,
          .xCurrentTimeInt64 = nullptr,
          .xSetSystemCall = nullptr,
          .xGetSystemCall = nullptr,
          .xNextSystemCall = nullptr,
      };
    }
    code = sqlite3_vfs_register(&vfs, make_default && !flavour.plain ? 1 : 0);
  }
  return code;
}

}  // namespace perdure::sqlite
