// What of a transaction is large: new objects, initialised where they are, and records that the log has no room for.
#pragma once

#include "perdure/engine/redo.h"

namespace perdure {

template <Domain D, RingLayout kLayout>
void Redo<D, kLayout>::force_in_place(const Tx& tx) {
  bool any = false;
  for (const Tx::InPlace& object : tx.in_place()) {
    any = any || object.used();
    if (object.low < object.high)
      domain_.flush(parts_.region->at<std::byte>(object.low), object.high - object.low,
                    Site::kInPlace);
  }
  // Orders: new objects before the record that leads to them. Torn bits vouch for the record only, and it cannot vouch for
  //         the objects, which later transactions change.
  if (any && !domain_.fence(Site::kInPlaceFence)) fail();
}

/// A record larger than half of what the log may hold goes to space reserved in the heap; the ring then only names
/// it.
///   1. reserve space; empty the logs    no older record may, at replay, write into that space
///   2. write the entries there; fence   cut here ⇒ nobody names them; never allocated
///   3. the ring record names them       from here on as any other record
///   4. empty the logs again             then the space may be reused
template <Domain D, RingLayout kLayout>
class Redo<D, kLayout>::Spill {
 public:
  explicit Spill(Redo& engine) : engine_(&engine) {}
  ~Spill() {
    if (used()) engine_->parts_.heap->cancel(space_);
  }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;
  bool used() const { return space_ != 0; }

  void write_if_large(Tx& tx, const TornbitLog& log, std::span<Word>& record) {
    Redo& engine = *engine_;
    const std::size_t limit = engine.usable(log.ring().count) / 2;
    if (TornbitLog::log_words(record.size()) <= limit) return;
    const std::span<const Word> entries(record.data() + 1, record.size() - 1);
    space_ = engine.parts_.heap->reserve(tx.heap_cache(), entries.size_bytes());
    tx.outdate(space_, entries.size_bytes());
    engine.truncate();
    Word* to = engine.parts_.region->word(space_);
    engine.domain_.write_through(to, entries.data(), entries.size(), Site::kSpillBody);
    // Orders: the entries before the record that names them.
    if (!engine.domain_.fence(Site::kSpillFence)) engine.fail();
    const Word crc = crc32c(entries.data(), entries.size_bytes());
    const Word count = entries.size();
    record[1] = record::entry_head(space_, 1, record::Kind::kSpill) | record::kLast;
    record[2] = count;
    record[3] = crc;
    record = record.first(4);
  }

 private:
  Redo* engine_;
  Offset space_ = 0;
};

}  // namespace perdure
