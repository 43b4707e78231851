// SPDX-License-Identifier: BSD-3-Clause
// What can be proved of a damaged database's file: the chunks that its table still leads to. Of the VFS perdure-plain the same of
// its journal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "apps/sqlite/layout.h"
#include "perdure/container/salvage.h"

namespace perdure::detail {

/// Takes (offset in the file, bytes) in order. What is lost in between was not zero.
template <>
struct Salvage<sqlite::StoredFile> {
  template <class Tx, class Finder>
  static void run(Tx& tx, const sqlite::StoredFile& from, Finder& finder) {
    std::uint64_t chunk_bytes = tx.load(from.chunk_bytes);
    if (chunk_bytes == 0 && tx.load(from.bytes) == 0) return;  // made, and never written
    if (chunk_bytes != sqlite::kChunkBytes) {
      finder.lose("database: its chunks claim " + std::to_string(chunk_bytes) + " bytes");
      chunk_bytes = sqlite::kChunkBytes;
    }
    Chunks<Tx, Finder> chunks{tx, finder, tx.load(from.bytes), chunk_bytes};
    Salvage<vector<pptr<std::uint64_t>>>::run(tx, from.chunks, chunks);
    if (chunks.end < chunks.bytes)
      finder.lose("database: claims " + std::to_string(chunks.bytes) +
                  " bytes, of which the last " + std::to_string(chunks.bytes - chunks.end) +
                  " are nowhere");
  }

 private:
  /// Is shown the table's elements.
  template <class Tx, class Finder>
  struct Chunks {
    Tx& tx;
    Finder& finder;
    const std::uint64_t bytes;  // of the file
    const std::uint64_t chunk_bytes;
    std::uint64_t end = 0;  // of what there are chunks for

    void take(std::uint64_t index, pptr<std::uint64_t> link) {
      const std::uint64_t begin = index * chunk_bytes;
      const std::uint64_t stop = std::min(bytes, begin + chunk_bytes);
      end = std::max(end, begin + chunk_bytes);
      const std::string what =
          "database: bytes " + std::to_string(begin) + " to " + std::to_string(stop);
      const auto* const chunk =
          reinterpret_cast<const std::byte*>(object_at(tx, finder, what, link, chunk_bytes));
      if (chunk != nullptr && begin < stop) finder.take(begin, std::span(chunk, stop - begin));
    }
    Room visit(Offset offset) { return finder.visit(offset); }
    void release(Offset offset) { finder.release(offset); }
    void lose(const std::string& what) { finder.lose("database: its table of chunks: " + what); }
  };
};

/// Takes (part, offset in its file, bytes) of the database, part 0, and of its journal, part 1, each in order; then whether the
/// journal exists. A journal with a hole takes back what comes before: SQLite does not miss the rest, so it is told.
template <>
struct Salvage<sqlite::PlainStore> {
  template <class Tx, class Finder>
  static void run(Tx& tx, const sqlite::PlainStore& from, Finder& finder) {
    Part<Finder> database{finder, 0, ""};
    Salvage<sqlite::StoredFile>::run(tx, from.database, database);
    const std::string journal_is =
        "the journal, by which a transaction that had not ended is taken back: ";
    std::uint64_t exists = tx.load(from.journal_exists);
    const std::uint64_t bytes = tx.load(from.journal.bytes);
    if (exists > 1 || (exists == 0 && bytes != 0)) {
      finder.lose(journal_is + "says " + std::to_string(exists) +
                  " of whether it exists, and has " + std::to_string(bytes) +
                  " bytes; it is taken as " + (exists == 0 ? "none" : "one"));
      exists = exists == 0 ? 0 : 1;
    }
    Part<Finder> journal{finder, 1, journal_is};
    Salvage<sqlite::StoredFile>::run(tx, from.journal, journal);
    finder.take(exists == 1);
  }

 private:
  template <class Finder>
  struct Part {
    Finder& finder;
    int number;
    std::string prefix;

    void take(std::uint64_t at, std::span<const std::byte> bytes) {
      finder.take(number, at, bytes);
    }
    Room visit(Offset offset) { return finder.visit(offset); }
    void release(Offset offset) { finder.release(offset); }
    void lose(const std::string& what) { finder.lose(prefix + what); }
  };
};

}  // namespace perdure::detail
