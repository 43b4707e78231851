// SPDX-License-Identifier: BSD-3-Clause
// The VFS `perdure-plain`: SQLite as on a file system (SoftWrAP, MSST 2015, its variant "A"). The database and its rollback
// journal are files in the pool; each write is a small relaxed transaction of its own, and a sync makes those before it
// durable. What a cut leaves between two syncs is any number of writes, the first ones first, and the journal takes them back
// when the database is opened again, as SQLite does everywhere:
//   1. old pages go to the journal      crash here => the database is as it was; a journal without pages of the database's
//                                       changes nothing when it is played back
//   2. new pages go to the database     crash here => some are there, and the journal before all of them: they are taken back
//   3. the journal is deleted, cut or zeroed, durably
//                                       crash here => the transaction is there
// Super-journals of ATTACHed databases are ordinary files beside the first database: they say of several pools at once
// whether a transaction is done. Temporary files and statement journals are in DRAM.
// It is here to be measured beside `perdure`, which does the same work with one transaction for all pages, and no journal.
#pragma once

#include <memory>
#include <string>

#include "apps/sqlite/databases.h"
#include "apps/sqlite/open_file.h"

namespace perdure::sqlite {

/// Makes a write that is pending in `file` part of it, in order and not yet durable; if that fails, it never was.
/// Errors: throws Exception as DatabaseFile::commit().
void commit_write(DatabaseFile& file);

/// The journal of the database at `name` without "-journal", which is opened for it. Null when there is no journal, and none is
/// to be made. Errors: throws Refusal.
std::unique_ptr<OpenFile> open_plain_journal(const std::string& name, bool create);
bool plain_journal_exists(const std::string& name);
/// Durable: on return. False when there is none.
bool remove_plain_journal(const std::string& name);

}  // namespace perdure::sqlite
