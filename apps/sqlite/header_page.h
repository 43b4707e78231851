// SPDX-License-Identifier: BSD-3-Clause
// The first page of an SQLite database: bytes 18 and 19 say by which kind of journal it is written, 1 or 2 (WAL).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "apps/sqlite/database_file.h"

namespace perdure::sqlite {

/// What nearly every commit changes in the first page, and no SQL shows: the change counter, the page count, the list of free
/// pages and its length; the change counter again, and SQLite's version. (PRAGMA page_count and freelist_count show some of it:
/// see Connection::pragma().) SQLite reads the first range when a transaction begins, to learn whether its cache still holds.
inline constexpr std::array<DatabaseFile::Range, 2> kHeaderCounters = {{{24, 40}, {92, 100}}};

/// A copy of a first page that says "WAL", which says "rollback journal"; nothing of one that does not.
/// The copy counts one change more (bytes 24 and 92, big-endian). From that the pager of the connection that wrote the page
/// learns that the one in its cache is not the one in the file.
std::optional<std::vector<unsigned char>> without_wal(const void* page, std::size_t bytes);

}  // namespace perdure::sqlite
