/* Linked into SQLite's testfixture, which calls perdure_suite_init() at the end of each sqlite3_initialize()
   (SQLITE_EXTRA_INIT): makes the VFS that PERDURE_SUITE_VFS names the default. Child processes inherit the choice. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "apps/sqlite/perdure_sqlite.h"

int perdure_suite_init(const char* unused) {
  const char* const name = getenv("PERDURE_SUITE_VFS");
  sqlite3_vfs* vfs;
  int code;
  (void)unused;
  if (name == NULL || strcmp(name, "unix") == 0) return SQLITE_OK; /* as if Perdure were not there */
  code = perdure_sqlite_register(0);
  if (code != SQLITE_OK) return code;
  vfs = sqlite3_vfs_find(name);
  return vfs != NULL ? sqlite3_vfs_register(vfs, 1) : SQLITE_ERROR;
}
