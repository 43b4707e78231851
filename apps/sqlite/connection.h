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
//   3. it syncs the database                                             xSync: one transaction of the pool
//      cut in it => all pages and the size, or none (database_file.h)
//   4. it deletes, cuts or zeroes the journal, and says that the transaction is done
//      crash here => the transaction is there, and was not acknowledged. It may
//   5. it gives the lock up; COMMIT returns
//      crash here => the transaction is there
// ROLLBACK before 3, with or without pages that were spilled: the pager writes the old pages over the new ones in DRAM and
// syncs; they do not differ from the pool, and the transaction of the pool writes nothing. ROLLBACK after 3 (something in 4
// failed): they do, and the sync is a second transaction. A cut between the two keeps the first, whose COMMIT had failed
// without being taken back; SQLite says no more of any COMMIT that was interrupted.
//
// Where xSync never comes (PRAGMA synchronous=OFF) the sync points are what the pager says to the VFS instead:
//   SQLITE_FCNTL_COMMIT_PHASETWO  after step 4: commit what is there (with a sync in 3: a file that got shorter)
//   SQLITE_FCNTL_SYNC             in the place of an xSync: what was written is complete, as at the end of a ROLLBACK
// and these commits are relaxed: atomic and in order, durable a little later or with the next strict one.
// When the lock is given up and something is pending still, it was complete, and is committed; or it was not, and is
// forgotten. The latter is a transaction that ended in an error: with its journal left behind, which the next connection
// plays back over pages that are old already; or with journal_mode=OFF, where SQLite leaves a ROLLBACK undefined, and this
// makes it one. (Not under locking_mode=EXCLUSIVE, which gives no lock up.)
//
// Across databases (ATTACH) there is no such step: each is atomic alone, and a cut between the 3 of one and the 3 of the next
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

#include <memory>

#include "apps/sqlite/databases.h"
#include "apps/sqlite/open_file.h"

namespace perdure::sqlite {

class Connection final : public OpenFile {
 public:
  Connection(std::unique_ptr<DatabaseHold> database, bool read_only);
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

  std::unique_ptr<DatabaseHold> hold_;
  Database& database_;
  bool read_only_;
  /// Whether what is pending is known to be all of a transaction.
  bool complete_ = false;
  LockLevel level_ = LockLevel::kNone;
};

}  // namespace perdure::sqlite
