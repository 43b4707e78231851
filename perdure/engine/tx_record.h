// SPDX-License-Identifier: BSD-3-Clause
// The record of a transaction, as an engine hands it to a log.
#pragma once

#include <algorithm>
#include <span>

#include "perdure/base/shared.h"
#include "perdure/base/word_buffer.h"
#include "perdure/engine/bulk_writes.h"
#include "perdure/engine/transaction.h"
#include "perdure/log/record.h"

namespace perdure {

/// Calls `put(words)` with the entries of what `tx` wrote in bulk, piece by piece. They come after
/// all other entries.
template <class Put>
void for_each_bulk_piece(const Tx& tx, Put put) {
  const auto& runs = tx.bulk().runs();
  for (const BulkWrites::Run& run : runs) {
    const Word head = record::entry_head(run.begin, run.count, record::Kind::kRun) |
                      (&run == &runs.back() ? record::kLast : 0);
    put(std::span(&head, 1));
    put(std::span<const Word>(run.words, run.count));
  }
}

/// How many words the record of `tx` has at most.
inline std::uint64_t most_record_words(Tx& tx) {
  std::uint64_t most = 1 + record::most_words(tx.writes().size());
  for (const Tx::InPlace& object : tx.in_place())
    most += record::in_place_heads(object.bytes / kWordBytes);
  return most + (tx.has_bulk() ? tx.bulk().entry_words() : 0);
}

/// Encodes the record of `tx` in memory of this thread; without the entries of what it wrote in bulk,
/// if these are left out. Whoever draws the commit timestamp fills in the first word. Before it there is
/// room for kStatementWords.
/// Throws: std::bad_alloc.
inline std::span<Word> encode(Tx& tx, bool leave_out_bulk = false) {
  WordBuffer& buffer = of_this_thread<WordBuffer, struct Encoded>();
  const std::uint64_t most = most_record_words(tx);
  Word* const begin = record::kStatementWords +
                      buffer.room(record::kStatementWords +
                                  (leave_out_bulk ? most - tx.bulk().entry_words() : most));
  Word* end = begin + 1;
  for (const Tx::InPlace& object : tx.in_place()) {
    if (object.used()) end = record::encode_in_place(object.begin, object.bytes / kWordBytes, end);
  }
  end = record::encode_entries(tx.writes(), end, tx.has_bulk() ? 0 : record::kLast);
  if (tx.has_bulk() && !leave_out_bulk)
    for_each_bulk_piece(
        tx, [&](std::span<const Word> words) { end = std::copy(words.begin(), words.end(), end); });
  return {begin, end};
}

}  // namespace perdure
