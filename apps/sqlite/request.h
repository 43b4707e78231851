// SPDX-License-Identifier: BSD-3-Clause
// What a database's URI asks for: file:PATH?vfs=perdure&engine=...&domain=... docs/SQLITE.md lists the parameters.
#pragma once

#include "apps/sqlite/connection.h"
#include "apps/sqlite/databases.h"

namespace perdure::sqlite {

/// Reads the parameters of `name`, a file name that SQLite handed to xOpen.
/// Errors: throws Refusal that names the parameter, its value, and what it may be.
Request request_of(const char* name, int flags);
/// What of it is the connection's alone.
ConnectionOptions connection_options_of(const char* name, int flags);

}  // namespace perdure::sqlite
