// SPDX-License-Identifier: BSD-3-Clause
// SQLite's functions, for code that is compiled twice: in the loadable extension they are called through the table that
// SQLite hands to its entry point, in the static library (SQLITE_CORE) directly.
#pragma once

#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT3
