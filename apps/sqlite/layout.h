// SPDX-License-Identifier: BSD-3-Clause
// What a pool that holds an SQLite database looks like: one StoredFile at the root "sqlite.database". One of the VFS
// `perdure-plain` has a PlainStore at the root "sqlite.plain" instead.
//
//   offset  field
//        0  bytes        the file's size, as SQLite sees it
//        8  defined      [0, defined) was written by transactions that committed; beyond it chunks hold anything
//       16  chunk_bytes  how much of the file one chunk holds
//       24  chunks       chunk i holds [i * chunk_bytes, (i + 1) * chunk_bytes)
//
// Invariants, between transactions: bytes <= defined <= chunks * chunk_bytes; all chunks are objects of the heap.
// `defined` is why no chunk is ever zeroed: a file grows by whole blocks that are written anyway. Where a block lies below
// it, the words that change are enough; above, a word that looks right may stem from a transaction that was rolled back,
// and is in no log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "perdure/container/vector.h"

namespace perdure::sqlite {

struct StoredFile {
  std::uint64_t bytes;
  std::uint64_t defined;
  std::uint64_t chunk_bytes;
  vector<pptr<std::uint64_t>> chunks;
};
static_assert(offsetof(StoredFile, bytes) == 0 && offsetof(StoredFile, defined) == 8 &&
              offsetof(StoredFile, chunk_bytes) == 16 && offsetof(StoredFile, chunks) == 24);

/// A database with its rollback journal.
struct PlainStore {
  StoredFile database;
  StoredFile journal;
  std::uint64_t journal_exists;
};

inline constexpr const char* kPlainRoot = "sqlite.plain";
inline constexpr const char* kRoot = "sqlite.database";

/// SQLite's largest page is as large, so that none straddles two. The heap's segments of 1 MiB hold 15 chunks of it, and
/// waste 4 %; of 128 KiB or 256 KiB they would waste 10 or 23 %. Smaller ones would only make the table longer, which
/// costs 8 bytes of each chunk.
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{64} << 10;
/// What stands in DRAM between two sync points, and is compared with the pool at the second: SQLite's usual page.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 10;

}  // namespace perdure::sqlite
