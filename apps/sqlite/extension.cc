// SPDX-License-Identifier: BSD-3-Clause
// The entry points: of the loadable extension, and of the static library. SQLite derives the first one's name from the
// file's, perdure_sqlite.so: its letters between "sqlite3_" and "_init".
#include <sqlite3ext.h>

#include "apps/sqlite/perdure_sqlite.h"
#include "apps/sqlite/vfs.h"

SQLITE_EXTENSION_INIT1

#ifdef SQLITE_CORE

int perdure_sqlite_register(int make_default) {
  if (const int code = sqlite3_initialize(); code != SQLITE_OK) return code;
  return perdure::sqlite::register_vfs(make_default != 0);
}

#else

extern "C" __attribute__((visibility("default"))) int sqlite3_perduresqlite_init(
    sqlite3* /*db*/, char** /*error*/, const sqlite3_api_routines* api) {
  SQLITE_EXTENSION_INIT2(api);
  const int code = perdure::sqlite::register_vfs(false);
  // Other connections will use the VFS when the one that loaded it is closed.
  return code == SQLITE_OK ? SQLITE_OK_LOAD_PERMANENTLY : code;
}

#endif
