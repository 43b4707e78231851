// SPDX-License-Identifier: BSD-3-Clause
// RecordPacker: builds a record as log words where they belong in the ring, in one pass over its
// words. (TornbitLog::append() packs a record that stands elsewhere.)
//
// The record's first word holds the checksum of the others, so it comes last. A log word takes 63
// bits: the second one holds a bit of the first word and is kept back, too. So no log word is ever
// in the ring with the torn bit of its lap and another value than its own; a cache line that the
// processor evicts early shows none.
// Threads: one.
#pragma once

#include "perdure/base/crc32c.h"
#include "perdure/log/record.h"
#include "perdure/log/tornbit_log.h"

namespace perdure {

/// All of it is inlined: a packer whose address is known has its members stored with each word of
/// the ring, which might be one of them.
/// Requires: has_crc32c_step().
template <Domain D>
class RecordPacker {
 public:
  RecordPacker(D& domain, TornbitLog::Piece piece, std::uint64_t timestamp)
      : domain_(&domain),
        begin_(piece.words),
        to_(piece.words + 1),
        torn_(piece.torn),
        timestamp_(timestamp),
        crc_(crc32c_step(~std::uint64_t{0} >> 32, timestamp)) {}

  /// The next word of the entries.
  [[gnu::always_inline]] void put(Word word) {
    crc_ = crc32c_step(crc_, word);
    append(((carry_ | (word << carried_)) & ~TornbitLog::kTornBit) | torn_);
    carry_ = word >> (63 - carried_);
    if (++carried_ == 63) [[unlikely]]
      flush_carry();
  }
  /// Stores what is left, the record's first word last, and starts their write-back. Returns how
  /// many log words the record takes.
  [[gnu::always_inline]] std::uint64_t finish(Site site) {
    if (carried_ != 0) flush_carry();
    const Word first = record::header(timestamp_, ~static_cast<std::uint32_t>(crc_));
    domain_->store(begin_ + 1, second_ | first >> 63);
    domain_->store(begin_, (first & ~TornbitLog::kTornBit) | torn_);
    const auto words = static_cast<std::uint64_t>(to_ - begin_);
    domain_->flush(begin_, words * kWordBytes, site);
    return words;
  }

 private:
  [[gnu::always_inline]] void append(Word packed) {
    if (to_ == begin_ + 1) [[unlikely]] {
      second_ = packed;
    } else {
      domain_->store(to_, packed);
    }
    ++to_;
  }
  [[gnu::always_inline]] void flush_carry() {
    append(carry_ | torn_);
    carry_ = 0;
    carried_ = 0;
  }

  D* domain_;
  Word* begin_;
  Word* to_;
  Word torn_;
  std::uint64_t timestamp_;
  std::uint64_t crc_;
  Word second_ = 0;
  Word carry_ = 0;
  unsigned carried_ = 1;  // the bit of the first word that the second log word begins with
};

}  // namespace perdure
