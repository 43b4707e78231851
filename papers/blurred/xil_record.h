// SPDX-License-Identifier: BSD-3-Clause
// The 128-bit record of execution in log: what XilLog keeps in its ring, two words to a record.
//
//   data half   bits 0-62   the value's low 63 bits                       bit 63      torn bit
//   meta half   bit 0       torn bit                                      bit 1       tail bit: the value's bit 63
//               bits 2-9    MASK: which bytes of the value count          bits 12-15  rewrites in place, 0 to 15
//               bit 10      FLG_DC: 0 data, 1 commit or abort             bits 16-63  ADDR
//               bit 11      FLG_CA: 1 commit, 0 abort
//
//                value                                ADDR                                      bits 2-9, 12-15
//     data       new bytes of the word                byte offset of the word                   as above
//     commit     timestamp (48 bits), CRC16 (16 bits)     back (24): records of its transaction     sum of its records'
//                                                     age (24): timestamp - that of the commit      rewrites
//                                                     before it; 0: none that is needed
//     abort      timestamp of the last commit, CRC16      back (24): records back to that commit;   0
//                                                     0: none that is needed
//
// What the hardware must give. The paper takes "a write of a 64b block" as atomic, and so does this: eight aligned bytes
// arrive whole, sixteen need not. That is why each *half* has a torn bit: a record is there when both say so. One thing is
// added, because a record may be rewritten while its transaction runs: the stores to one line arrive in order (rule 1 of
// docs/CRASH_MODEL.md; a record never crosses a line). The data half is stored first, so that a meta half vouches for its
// data half; how often it was rewritten tells an old version from the last.
//
// Source: Blurred Persistence (ACM TOS 12(1), 2016), figures 7 and 8. Deviations: the paper keeps bits 12-15 in reserve,
// and with one fence for records and commit record could replay a version that was rewritten later. The commit record's
// ADDR and mask are not used there; an abort record's back-pointer stands in its data half. The paper has no CRC.
#pragma once

#include <algorithm>
#include <optional>

#include "perdure/base/crc32c.h"
#include "perdure/base/words.h"
#include "perdure/log/ring.h"

namespace perdure::xil {

inline constexpr std::uint64_t kRecordWords = 2;
inline constexpr std::uint64_t kRecordBytes = kRecordWords * kWordBytes;
inline constexpr unsigned kMaxRewrites = 15;                             // of one record
inline constexpr std::uint64_t kMaxRewriteSum = (1u << 12) - 1;          // of a transaction
inline constexpr std::uint64_t kMaxBack = (std::uint64_t{1} << 24) - 1;  // records
inline constexpr std::uint64_t kMaxAge = (std::uint64_t{1} << 24) - 1;   // timestamps

/// Counts records since the log was opened; never wraps. Means nothing in another life of the process.
using Place = std::uint64_t;

struct Halves {
  Word data;
  Word meta;
};

inline constexpr Word kTornInData = Word{1} << 63;
inline constexpr Word kTornInMeta = Word{1};
inline constexpr Word kTailBit = Word{1} << 1;
inline constexpr Word kClosing = Word{1} << 10;  // FLG_DC
inline constexpr Word kCommits = Word{1} << 11;  // FLG_CA

constexpr Word value_of(const Halves& halves) {
  return (halves.data & ~kTornInData) | ((halves.meta & kTailBit) << 62);
}
constexpr bool is_data(const Halves& halves) { return (halves.meta & kClosing) == 0; }
constexpr bool is_commit(const Halves& halves) {
  return (halves.meta & (kClosing | kCommits)) == (kClosing | kCommits);
}

/// A record of new data.
struct Update {
  Offset address;  // of a whole word, below 2^48
  Word value;
  std::uint8_t bytes;  // bit i: byte i of the value counts
  unsigned rewrites = 0;
};

/// The bytes of a mask. Requires, to lose nothing: is_bytes(mask).
constexpr std::uint8_t bytes_of_mask(Word mask) {
  // Each byte's lowest bit, moved to the top byte; no two meet on the way.
  return static_cast<std::uint8_t>((mask & 0x0101010101010101) * 0x0102040810204080 >> 56);
}
constexpr Word mask_of_bytes(std::uint8_t bytes) {
  Word mask = 0;
  for (unsigned i = 0; i < kWordBytes; ++i) {
    if ((bytes >> i & 1) != 0) mask |= byte_mask(i, 1);
  }
  return mask;
}
/// Whether a mask is one of whole bytes. Any other takes two records: one without bytes, whose value is the mask, and the
/// word's own behind it.
constexpr bool is_bytes(Word mask) { return mask_of_bytes(bytes_of_mask(mask)) == mask; }
static_assert(bytes_of_mask(0xff00'0000'00ff'00ff) == 0b1000'0101 && is_bytes(kWholeWord));

/// The record that closes a transaction.
struct Closing {
  bool commits;
  std::uint64_t timestamp;
  std::uint64_t back;
  std::uint64_t age = 0;
  std::uint64_t rewrites = 0;  // of all its records
};

constexpr std::uint8_t bytes_of(const Halves& halves) {
  return static_cast<std::uint8_t>(halves.meta >> 2);
}
constexpr unsigned rewrites_of(const Halves& halves) {
  return static_cast<unsigned>(halves.meta >> 12) & kMaxRewrites;
}

constexpr Halves with_torn_bits(Word value, Word meta, bool torn) {
  return {(value & ~kTornInData) | (torn ? kTornInData : 0),
          meta | (value >> 62 & kTailBit) | (torn ? kTornInMeta : 0)};
}

constexpr Halves encode(const Update& update, bool torn) {
  return with_torn_bits(
      update.value, Word{update.bytes} << 2 | Word{update.rewrites} << 12 | update.address << 16,
      torn);
}
constexpr Update update_of(const Halves& halves) {
  return {halves.meta >> 16, value_of(halves), bytes_of(halves), rewrites_of(halves)};
}

constexpr Closing closing_of(const Halves& halves) {
  const Word address = halves.meta >> 16;
  return {is_commit(halves), value_of(halves) & kMax48, address & kMaxBack, address >> 24,
          Word{bytes_of(halves)} | Word{rewrites_of(halves)} << 8};
}
constexpr std::uint16_t check_in(const Halves& halves) {
  return static_cast<std::uint16_t>(value_of(halves) >> 48);
}

/// A Ring seen as records.
/// Requires: at most 2^24 records, a whole number of lines, on a line.
class Records {
 public:
  explicit Records(const Ring& ring) : ring_(ring) {}

  const Ring& ring() const { return ring_; }
  std::uint64_t count() const { return ring_.count / kRecordWords; }
  Word* data_half(Place place) const { return ring_.at(place * kRecordWords); }
  Word* meta_half(Place place) const { return data_half(place) + 1; }
  /// The torn bit of what is written at `place`.
  bool torn(Place place) const { return ring_.torn(place * kRecordWords) != 0; }

  Halves load(Place place) const {
    return {load_word(data_half(place)), load_word(meta_half(place))};
  }
  bool data_written(Place place) const {
    return ((load_word(data_half(place)) & kTornInData) != 0) == torn(place);
  }
  bool meta_written(Place place) const {
    return ((load_word(meta_half(place)) & kTornInMeta) != 0) == torn(place);
  }
  /// Whether the record was completely written on this lap.
  bool written(Place place) const { return data_written(place) && meta_written(place); }

  /// The data half first: then a meta half that arrived vouches for it.
  template <Domain D>
  void store(D& domain, Place place, const Halves& halves) const {
    domain.store(data_half(place), halves.data);
    domain.store(meta_half(place), halves.meta);
  }
  /// Starts the write-back of [from, end), at most a ring.
  template <Domain D>
  void flush(D& domain, Place from, Place end, Site site) const {
    while (from < end) {
      const Place piece = std::min(end, from + count() - from % count());
      domain.flush(data_half(from), (piece - from) * kRecordBytes, site);
      from = piece;
    }
  }

  /// The closing record for `place`, with its check: over its own fields, its place in the ring and, for a commit, the
  /// records that it commits as they stand there.
  Halves seal(const Closing& closing, Place place) const {
    const Word meta = kClosing | (closing.commits ? kCommits : 0) | (closing.rewrites & 0xff) << 2 |
                      (closing.rewrites >> 8) << 12 | closing.back << 16 | closing.age << 40;
    return with_torn_bits(closing.timestamp | Word{check_of(closing, meta, place)} << 48, meta,
                          torn(place));
  }
  /// Requires: written(place). The closing record there, or nothing when it fails its check or is none.
  std::optional<Closing> closing_at(Place place) const {
    const Halves found = load(place);
    if (is_data(found)) return std::nullopt;
    const Closing closing = closing_of(found);
    if (closing.commits && closing.back >= count()) return std::nullopt;
    const Halves sealed = seal(closing, place);
    if (sealed.data != found.data || sealed.meta != found.meta) return std::nullopt;
    return closing;
  }

 private:
  /// The torn bits of the records count as they stand: when all are right they are what they were at the commit.
  std::uint16_t check_of(const Closing& closing, Word meta, Place place) const {
    const Word own[] = {closing.timestamp, meta, place % count()};
    std::uint32_t crc = crc32c(own, sizeof(own));
    Place from = closing.commits ? place - closing.back : place;
    while (from < place) {
      const Place piece = std::min(place, from + count() - from % count());
      crc = crc32c(data_half(from), (piece - from) * kRecordBytes, crc);
      from = piece;
    }
    return static_cast<std::uint16_t>(crc ^ (crc >> 16));
  }

  Ring ring_;
};

}  // namespace perdure::xil
