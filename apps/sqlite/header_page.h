// SPDX-License-Identifier: BSD-3-Clause
// The first page of an SQLite database: bytes 18 and 19 say by which kind of journal it is written, 1 or 2 (WAL).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace perdure::sqlite {

/// A copy of a first page that says "WAL", which says "rollback journal"; nothing of one that does not.
/// The copy counts one change more (bytes 24 and 92, big-endian). From that the pager of the connection that wrote the page
/// learns that the one in its cache is not the one in the file.
std::optional<std::vector<unsigned char>> without_wal(const void* page, std::size_t bytes);

}  // namespace perdure::sqlite
