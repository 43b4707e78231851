// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/databases.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <list>
#include <map>
#include <utility>

#include "apps/sqlite/errors.h"
#include "apps/sqlite/header_page.h"
#include "apps/sqlite/volatile_files.h"
#include "perdure/api/pool_core.h"
#include "perdure/region/layout.h"

namespace perdure::sqlite {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Database>> by_path;
  /// Whose file was removed, renamed or replaced: the connections that have them go on reading; new ones open what is there.
  std::list<std::unique_ptr<Database>> gone;
  pid_t process = ::getpid();
};

/// Never destroyed: what is open when the process ends is recovered as after a crash. A forked child cannot use its
/// parent's pools and takes a registry of its own.
Registry& registry() {
  static std::mutex mutex;
  static Registry* current = nullptr;
  const std::lock_guard lock(mutex);
  if (current == nullptr || current->process != ::getpid()) current = new Registry;
  return *current;
}

std::string first_bytes(const std::string& path) {
  std::array<char, 16> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return {bytes.data(), static_cast<std::size_t>(file.gcount())};
}

/// Where a file stands: its device and inode; zeros when there is none.
std::pair<dev_t, ino_t> place_of(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

Refusal refusal(const Request& request, const Error& error) {
  switch (error.code) {
    case Code::kBusy: return {SQLITE_BUSY, error.message};
    case Code::kCorrupt:
    case Code::kTruncated: return {SQLITE_CORRUPT, error.message};
    case Code::kTypeMismatch: return {SQLITE_NOTADB, error.message};
    case Code::kNoSpace: return {SQLITE_FULL, error.message};
    case Code::kForeign: break;
    default: return {SQLITE_CANTOPEN, error.message};
  }
  const std::string head = first_bytes(request.path);
  if (head.empty())
    return {SQLITE_NOTADB, request.path +
                               ": an empty file, not a Perdure pool; remove it, and the "
                               "database is made when it is opened"};
  if (head != std::string("SQLite format 3\0", 16)) return {SQLITE_NOTADB, error.message};
  return {SQLITE_NOTADB,
          request.path +
              ": an ordinary SQLite database, not a Perdure pool; open it without vfs=perdure, "
              "and copy it with VACUUM INTO 'file:NEW?vfs=perdure'"};
}

PoolOpener opener = open_with_library;

std::unique_ptr<Database> open_pool(const Request& request) {
  auto pool = opener(request);
  if (!pool) throw refusal(request, pool.error());
  if (const auto& recovery = pool->recovery(); recovery.records_replayed > 0)
    log(SQLITE_NOTICE,
        request.path + ": replayed " + std::to_string(recovery.records_replayed) + " log records");
  try {
    return std::make_unique<Database>(request, std::move(pool).value());
  } catch (const Exception& exception) {
    throw refusal(request, exception.error());
  }
}

void refuse_other_options(const Database& open, const Request& request) {
  // The journal of one of the VFS perdure-plain is found by its name.
  if (open.plain != nullptr && open.moved())
    throw Refusal{SQLITE_CANTOPEN, request.path +
                                       ": removed, renamed or replaced while it is open in this "
                                       "process; close every connection to it first"};
  if (request.plain != (open.plain != nullptr))
    throw Refusal{SQLITE_CANTOPEN, request.path + ": open in this process by the VFS perdure" +
                                       (request.plain ? "" : "-plain")};
  if (open.of_the_past && !request.only_reads)
    throw Refusal{
        SQLITE_BUSY,
        request.path +
            ": in use by another process, and open in this one with mode=ro; close it there"};
  if (!request.engine.empty() && request.engine != open.engine)
    throw Refusal{SQLITE_CANTOPEN, request.path + ": open in this process with engine=" +
                                       open.engine + "; all connections share it"};
  if (request.names_domain && request.options.domain != open.pool.domain())
    throw Refusal{SQLITE_CANTOPEN, request.path + ": open in this process with domain=" +
                                       std::string(domain_name(open.pool.domain())) +
                                       "; all connections share it"};
}

PlainStore* plain_store(Pool& pool, const Request& request) {
  const bool other = request.plain ? pool.find_root<StoredFile>(kRoot) != nullptr
                                   : pool.find_root<PlainStore>(kPlainRoot) != nullptr;
  if (other)
    throw Exception(Code::kTypeMismatch, request.path + ": a database of the VFS perdure" +
                                             (request.plain ? "" : "-plain") +
                                             "; open it with that one");
  return request.plain ? pool.root<PlainStore>(kPlainRoot) : nullptr;
}

}  // namespace

Result<Pool> open_with_library(const Request& request) {
  const auto invalid = [&](const std::string& what) {
    return Error{Code::kInvalid, request.path + ": " + what};
  };
  if (!request.engine.empty() && request.engine != "mnemosyne" && request.engine != "softwrap")
    return invalid("engine=" + request.engine +
                   " in its URI; it may be one of mnemosyne, softwrap");
  if (request.line_ns != 0 || request.alias_words != 0)
    return invalid("line_ns and alias_words in its URI are the laboratory's; leave them out");
  ExpertOptions options = request.options;
  if (request.engine == "softwrap") options.placement = Placement::kPrivatePages;
  auto opened = request.create ? Pool::open_or_create(request.path, options)
                               : Pool::open(request.path, options);
  if (opened || opened.error().code != Code::kBusy || !request.only_reads) return opened;
  auto copy = Pool::inspect(request.path);
  return copy ? std::move(copy) : std::move(opened);
}

void open_pools_by(PoolOpener chosen) { opener = chosen; }

Database::Database(const Request& request, Pool opened)
    : path(request.path),
      place(place_of(request.path)),
      engine(request.engine.empty() ? "mnemosyne" : request.engine),
      pool(std::move(opened)),
      of_the_past(core_of(pool).region().is_live()),
      plain(plain_store(pool, request)),
      file(pool, plain != nullptr ? &plain->database : pool.root<StoredFile>(kRoot),
           {.unawaited = kHeaderCounters}) {
  DatabaseFile::Shape keeps;
  keeps.gives_chunks_back = false;  // a journal is made anew with each transaction
  if (plain != nullptr) journal.emplace(pool, &plain->journal, keeps);
}

bool Database::moved() const { return place_of(path) != place; }

std::unique_ptr<DatabaseHold> open_database(const Request& request) {
  Registry& all = registry();
  // Held while a pool is opened or closed: who meets one on its way waits, and is not told that it is busy.
  const std::lock_guard lock(all.mutex);
  auto& database = all.by_path[request.path];
  // To join the connections of a file that is not there any more would be to read what is not in the file that is, and to lose
  // what is written.
  if (database != nullptr && database->plain == nullptr && database->moved())
    all.gone.push_back(std::move(database));
  try {
    if (database == nullptr) {
      // A journal of an earlier opening has nothing to say to this one: see connection.h.
      VolatileFiles::instance().remove(request.path + "-journal");
      database = open_pool(request);
    } else {
      refuse_other_options(*database, request);
    }
    auto hold = std::make_unique<DatabaseHold>(database.get());
    ++database->connections;
    return hold;
  } catch (...) {
    if (database == nullptr || database->connections == 0) all.by_path.erase(request.path);
    throw;
  }
}

DatabaseHold::~DatabaseHold() {
  if (database_->process != ::getpid()) return;  // the parent's
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (--database_->connections != 0) return;
  const auto here = all.by_path.find(database_->path);
  if (here != all.by_path.end() && here->second.get() == database_) {
    all.by_path.erase(here);
  } else {
    std::erase_if(all.gone, [&](const auto& gone) { return gone.get() == database_; });
  }
}

bool is_pool_file(const std::string& path) {
  return first_bytes(path).starts_with(std::string_view(kMagic.data(), kMagic.size()));
}

}  // namespace perdure::sqlite
