// SPDX-License-Identifier: BSD-3-Clause
/* SQLite on Perdure, for programs that link it: registers the VFS `perdure` with the SQLite library of the process.

     perdure_sqlite_register(0);
     sqlite3_open_v2("file:shop.db?vfs=perdure", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, NULL);

   Programs that cannot be linked anew load the extension perdure_sqlite.so instead. docs/SQLITE.md has the rest. */
#ifndef PERDURE_SQLITE_H
#define PERDURE_SQLITE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Returns an SQLite result code. With `make_default` other than 0, databases opened without a vfs= become pools, too.
   May be called again, also to change the default. Threads: any. */
int perdure_sqlite_register(int make_default);

#ifdef __cplusplus
}
#endif

#endif
