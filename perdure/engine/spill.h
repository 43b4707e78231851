// SPDX-License-Identifier: BSD-3-Clause
// Spill: a record larger than half of what the log may hold stands in space reserved in the heap;
// the record in the ring only names that space.
//   1. reserve space; empty the logs    no older record may be replayed into that space
//   2. write the entries there; fence   crash here ⇒ nobody names them; never allocated
//                                       (a large record in several parts)
//   3. the ring record names them       from here on as any other record
//   4. empty the logs again             then the space may be reused
#pragma once

#include <new>
#include <span>

#include "perdure/engine/transaction.h"
#include "perdure/engine/tx_record.h"
#include "perdure/heap/heap.h"
#include "perdure/log/record_log.h"

namespace perdure {

/// `E`: the engine, whose friend this is.
template <class E>
class Spill {
 public:
  explicit Spill(E& engine) : engine_(&engine) {}
  ~Spill() {
    if (used()) engine_->parts_.heap->cancel(space_);
  }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;
  bool used() const { return space_ != 0; }
  /// Empties the logs after the commit, so that no record names the spilled entries when their
  /// space is reused.
  /// Errors: throws Exception kPoisoned; of memory, too: the transaction is committed, and nobody
  ///         may take it back.
  void truncate_logs() {
    try {
      engine_->truncate();
      give_back_pages(engine_->parts_.region->word(space_), count_);
    } catch (const std::bad_alloc&) {
      engine_->fail();
    }
  }

  /// `record` is the record of `tx`, of whose log words `log` may take so many as `limit`; or all of
  /// it but what was written in bulk, which is so much that it is spilled from where it stands.
  /// Errors: as Engine::commit().
  void write_if_large(Tx& tx, const RecordLog& log, std::uint64_t limit, std::span<Word>& record,
                      bool bulk_is_missing = false) {
    E& engine = *engine_;
    if (!bulk_is_missing && log.log_words(record.size()) <= limit) return;
    count_ = record.size() - 1;
    if (bulk_is_missing) count_ += tx.bulk().entry_words();
    space_ = tx.reserve(count_ * kWordBytes);
    tx.outdate(space_, count_ * kWordBytes);
    engine.truncate();
    engine.forget(space_, count_ * kWordBytes);
    to_ = engine.parts_.region->word(space_);
    write(record.subspan(1));
    if (bulk_is_missing) for_each_bulk_piece(tx, [&](auto words) { write(words); });
    settle();
    record[1] = record::entry_head(space_, 1, record::Kind::kSpill) | record::kLast;
    record[2] = count_;
    record[3] = crc_;
    record = record.first(4);
  }

 private:
  /// Writes the next entries.
  void write(std::span<const Word> words) {
    pieces_.push_back({to_, words.size()});
    engine_->domain_.write_through(to_, words.data(), words.size(), Site::kSpillBody);
    crc_ = crc32c(words.data(), words.size_bytes(), crc_);
    to_ += words.size();
    // On the way, so that on files they take no private pages of their own for long.
    if (static_cast<std::uint64_t>(to_ - pieces_[0].at) >= kSettledWords) settle();
  }
  void settle() {
    if (pieces_.empty()) return;
    E& engine = *engine_;
    // Orders: the entries before the record that names them.
    if (!engine.domain_.fence(Site::kSpillFence)) engine.fail();
    if constexpr (requires { engine.domain_.settle(to_, 0); }) {
      for (const Piece& piece : pieces_) engine.domain_.settle(piece.at, piece.words);
    }
    const Word* const begin = pieces_[0].at;
    give_back_pages(begin, static_cast<std::size_t>(to_ - begin));
    pieces_.clear();
  }
  void give_back_pages(const Word* from, std::size_t words) {
    if constexpr (requires { engine_->give_back_pages(from, words); })
      engine_->give_back_pages(from, words);
  }
  static constexpr std::uint64_t kSettledWords = std::uint64_t{4} << 20;
  struct Piece {
    Word* at;
    std::size_t words;
  };

  E* engine_;
  Offset space_ = 0;
  std::uint64_t count_ = 0;     // of words there
  Word* to_ = nullptr;          // where the next entries go
  std::uint32_t crc_ = 0;       // of those before
  GrowingArray<Piece> pieces_;  // of which it is not said that they are durable
};

}  // namespace perdure
