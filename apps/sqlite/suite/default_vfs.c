// SPDX-License-Identifier: BSD-3-Clause
/* Linked into SQLite's testfixture, which calls perdure_suite_init() at the end of each sqlite3_initialize()
   (SQLITE_EXTRA_INIT): makes the VFS that PERDURE_SUITE_VFS names the default. Child processes inherit the choice.

   Pools get 16 logs instead of 64 where a URI does not say otherwise: some scripts copy the database thousands of times. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "apps/sqlite/perdure_sqlite.h"

static int (*open_as_ever)(sqlite3_vfs*, const char*, sqlite3_file*, int, int*);

static int open_with_few_logs(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
                              int* flags_out) {
  const char* parameters[] = {"threads", "16"};
  const char* named;
  int code;
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0 || name == NULL || sqlite3_uri_key(name, 0) != NULL)
    return open_as_ever(vfs, name, file, flags, flags_out);
  named = sqlite3_create_filename(name, "", "", 1, parameters);
  if (named == NULL) return SQLITE_NOMEM;
  code = open_as_ever(vfs, named, file, flags, flags_out);
  sqlite3_free_filename((char*)named); /* of which the VFS has made a copy */
  return code;
}

int perdure_suite_init(const char* unused) {
  const char* const name = getenv("PERDURE_SUITE_VFS");
  sqlite3_vfs* vfs;
  int code;
  (void)unused;
  if (name == NULL || strcmp(name, "unix") == 0)
    return SQLITE_OK; /* as if Perdure were not there */
  code = perdure_sqlite_register(0);
  if (code != SQLITE_OK) return code;
  vfs = sqlite3_vfs_find(name);
  if (vfs == NULL) return SQLITE_ERROR;
  if (vfs->xOpen != open_with_few_logs) {
    open_as_ever = vfs->xOpen;
    vfs->xOpen = open_with_few_logs;
  }
  return sqlite3_vfs_register(vfs, 1);
}
