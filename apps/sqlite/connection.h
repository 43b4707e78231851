// SPDX-License-Identifier: BSD-3-Clause
// Connection: a database that SQLite has opened through the VFS `perdure`, and the protocol by which it survives.
//
// SQLite's pager makes a transaction atomic by a rollback journal: it saves old pages there, syncs it, writes new pages to
// the database, syncs that, and deletes the journal. Here the database changes by whole sync points only, each one durable
// transaction of the pool (SoftWrAP, MSST 2015, its variant "B"), so that the journal is needed for ROLLBACK, but not for
// crashes: it is in DRAM, and gone with the process. A COMMIT, step by step:
//   1. the pager writes old pages to the journal, and syncs it           DRAM; the sync does nothing
//      crash here => the pool is as before, and there is no journal: nothing has happened
//   2. it writes new pages to the database, under the EXCLUSIVE lock     DRAM: DatabaseFile's blocks
//      crash here => as in 1. So it is for pages that a full cache spills in mid-transaction: the pager syncs the journal for
//      them, never the database
//   3. it syncs the database                                             xSync: one transaction of the pool. On files its
//                                                                        record is in the log, and not durable yet
//      crash here => all pages and the size, or none (database_file.h)
//   4. it deletes, cuts or zeroes the journal, and says that the transaction is done
//      crash here => as in 3. The transaction was not acknowledged
//   5. it lowers its lock to SHARED                                      xUnlock: the lock is released, as far as it goes; the
//                                                                        others read and write. Then this thread waits until
//                                                                        the log is durable up to the record
//      crash before it is => as in 3. Whatever was committed by then on top of it is behind it in the log, and gone with it
//   6. COMMIT returns
//      crash here => the transaction is there
// The lock cannot be released before 5, since a journal that is not finalised looks hot. The wait cannot come later, in
// xUnlock(NONE), whose error the pager drops. (perdure/engine/durable_horizon.h has the same rule for transactions of pools.)
//
// What nobody may be shown before it is durable:
//   - xRead waits when a commit that may not be durable has changed the page. What a connection has in its cache it has read
//     before, or written itself; so a cached page, the schema and user_version are durable without another look
//   - of the first page only a change beyond the counters counts (header_page.h), or every connection would wait for every commit
//   - a writer waits in the same way, and holds its lock meanwhile. With early_reads=1 in the URI it does not: it remembers what
//     it has seen, and waits in 5, also at the end of a ROLLBACK, whose cache stays
//   - who waits in 5 has released SHARED too, as it would keep the next writer from EXCLUSIVE; unless another statement of
//     the connection is open, and goes on reading
//   - with locking_mode=EXCLUSIVE there is no 5. The wait is in 4, when the transaction is done
//   - with a super-journal (ATTACH) the pager heeds no error after 3. The wait is in 3
// When the device fails, whoever waits gets an error, and so does everybody who commits later, or reads what may be lost.
//
// ROLLBACK before 3, with or without pages that were spilled: the pager writes the old pages over the new ones in DRAM and
// syncs; they do not differ from the pool, and the transaction of the pool writes nothing. ROLLBACK after 3 (something in 4
// failed): they do, and the sync is a second transaction. A crash between the two keeps the first, whose COMMIT had failed
// without being taken back; SQLite says no more of any COMMIT that was interrupted.
//
// Where xSync never comes (PRAGMA synchronous=OFF) the sync points are what the pager says to the VFS instead:
//   SQLITE_FCNTL_COMMIT_PHASETWO  after step 4: commit what is there (with a sync in 3: a file that got shorter)
//   SQLITE_FCNTL_SYNC             in the place of an xSync: what was written is complete, as at the end of a ROLLBACK
// and these commits are relaxed: atomic and in order, durable a little later or with the next strict one. Nobody waits for them.
// When the lock is given up and something is pending still, it was complete, and is committed; or it was not, and is
// forgotten. The latter is a transaction that ended in an error: with its journal left behind, which the next connection
// plays back over pages that are old already; or with journal_mode=OFF, where SQLite leaves a ROLLBACK undefined, and this
// makes it one. (Not under locking_mode=EXCLUSIVE, which gives no lock up.)
//
// Across databases (ATTACH) there is no such step: each is atomic alone, and a crash between the 3 of one and the 3 of the next
// keeps the one. The super-journal, which would tell, is in DRAM, too.
//
// Opening: a journal that is there stems from a connection of this process. One that an earlier opening of the database left
// behind is thrown away: what it would take back was never committed, or is whole.
//
// WAL mode needs a second file that is durable, and buys nothing here: readers and a writer exclude each other during the
// commit only, and a commit is one write already. It is refused where it begins: PRAGMA journal_mode=WAL answers with the
// mode that is, a `-wal` file is not opened, and a header that says "WAL" (of a database that was copied page by page) is
// stored as one that does not.
#pragma once

#include <cstdint>
#include <memory>

#include "apps/sqlite/databases.h"
#include "apps/sqlite/open_file.h"
#include "apps/sqlite/sqlite_api.h"

namespace perdure::sqlite {

/// How a connection behaves: what its URI says of it alone.
struct ConnectionOptions {
  bool read_only = false;
  bool early_reads = false;
  bool shares_cache = false;
};

class Connection final : public OpenFile {
 public:
  Connection(std::unique_ptr<DatabaseHold> database, const ConnectionOptions& options);
  ~Connection() override;
  std::size_t read(void* to, std::size_t bytes, std::uint64_t at) override;
  int write(const void* from, std::size_t bytes, std::uint64_t at) override;
  int truncate(std::uint64_t bytes) override;
  int sync() override;
  std::uint64_t size() override;
  int lock(int level) override;
  int unlock(int level) override;
  bool reserved() override;
  int control(int operation, void* argument) override;

 private:
  int pragma(char** arguments);
  int end_writing();
  void owe(Mark mark);
  void await_what_is_owed();
  int take_shared_again();
  void set_exclusive(bool exclusive);
  bool may_keep_its_lock() const;
  bool is_read_by_others() const;

  std::unique_ptr<DatabaseHold> hold_;
  Database& database_;
  const ConnectionOptions options_;
  /// Where SQLite keeps whose connection this is; null until it says so.
  sqlite3* const* handle_ = nullptr;
  LockLevel level_ = LockLevel::kNone;
  /// SQLite takes this connection to be at kShared, and it is at kNone since commits() was `commits_`.
  bool has_released_shared_ = false;
  std::uint64_t commits_ = 0;
  const sqlite3* exclusive_for_ = nullptr;  // a handle that has said PRAGMA locking_mode=EXCLUSIVE
  bool shows_counters_ = false;             // PRAGMA page_count or freelist_count
  /// Whether what is pending is known to be all of a transaction.
  bool complete_ = false;
  // Of the transaction that writes:
  bool synced_ = false;
  bool done_ = false;  // and an xUnlock comes
  bool has_super_journal_ = false;
  Mark owed_ = 0;  // what it has committed,
  Mark seen_ = 0;  // or read of others, which may not be durable
};

}  // namespace perdure::sqlite
