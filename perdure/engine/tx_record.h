// SPDX-License-Identifier: BSD-3-Clause
// The record of a transaction, as an engine hands it to a log.
#pragma once

#include <span>

#include "perdure/base/shared.h"
#include "perdure/base/word_buffer.h"
#include "perdure/engine/transaction.h"
#include "perdure/log/record.h"

namespace perdure {

/// Encodes the record of `tx` in memory of this thread. Whoever draws the commit timestamp fills in
/// the first word.
/// Throws: std::bad_alloc.
inline std::span<Word> encode(Tx& tx) {
  WordBuffer& buffer = of_this_thread<WordBuffer, struct Encoded>();
  std::size_t most = 1 + record::most_words(tx.writes().size());
  for (const Tx::InPlace& object : tx.in_place())
    most += record::in_place_heads(object.bytes / kWordBytes);
  Word* const begin = buffer.room(most);
  Word* end = begin + 1;
  for (const Tx::InPlace& object : tx.in_place()) {
    if (object.used()) end = record::encode_in_place(object.begin, object.bytes / kWordBytes, end);
  }
  return {begin, record::encode_entries(tx.writes(), end)};
}

}  // namespace perdure
