// SPDX-License-Identifier: BSD-3-Clause
// Spill: a record larger than half of what the log may hold stands in space reserved in the heap;
// the record in the ring only names that space.
//   1. reserve space; empty the logs    no older record may be replayed into that space
//   2. write the entries there; fence   crash here ⇒ nobody names them; never allocated
//   3. the ring record names them       from here on as any other record
//   4. empty the logs again             then the space may be reused
#pragma once

#include <new>
#include <span>

#include "perdure/engine/transaction.h"
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
    } catch (const std::bad_alloc&) {
      engine_->fail();
    }
  }

  /// `limit`: how many log words of `log` the record may take.   Errors: as Engine::commit().
  void write_if_large(Tx& tx, const RecordLog& log, std::uint64_t limit, std::span<Word>& record) {
    E& engine = *engine_;
    if (log.log_words(record.size()) <= limit) return;
    const std::span<const Word> entries(record.data() + 1, record.size() - 1);
    space_ = tx.reserve(entries.size_bytes());
    tx.outdate(space_, entries.size_bytes());
    engine.truncate();
    engine.forget(space_, entries.size_bytes());
    Word* to = engine.parts_.region->word(space_);
    engine.domain_.write_through(to, entries.data(), entries.size(), Site::kSpillBody);
    // Orders: the entries before the record that names them.
    if (!engine.domain_.fence(Site::kSpillFence)) engine.fail();
    if constexpr (requires { engine.domain_.settle(to, entries.size()); })
      engine.domain_.settle(to, entries.size());
    const Word crc = crc32c(entries.data(), entries.size_bytes());
    const Word count = entries.size();
    record[1] = record::entry_head(space_, 1, record::Kind::kSpill) | record::kLast;
    record[2] = count;
    record[3] = crc;
    record = record.first(4);
  }

 private:
  E* engine_;
  Offset space_ = 0;
};

}  // namespace perdure
