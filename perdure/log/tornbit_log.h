// SPDX-License-Identifier: BSD-3-Clause
// TornbitLog: Mnemosyne's raw word log (§4.4). Uninterpreted words go in, packed 63 bits to a log
// word; the 64th bit, the torn bit, has one sense for a whole pass over the ring and reverses on
// the next. A word that never reached persistent memory therefore still carries the other sense,
// and one fence is enough to make an append durable: no commit record, no checksum.
//
//   1. append packs and writes the words through   crash here ⇒ some have the old torn bit: not
//                                                  seen
//   2. the fence of make_durable                   returned ⇒ seen by every later recovery
//   3. truncate moves the head, later              crash here ⇒ the old head: records are seen
//                                                  again (replay is idempotent, or the retired
//                                                  timestamp hides them)
//
// Every append is padded to whole log words, so that recovery can tell where the next begins.
// Source: Mnemosyne (ASPLOS 2011) §4.4. Deviation: words are written through in batches, whole
// lines past the cache and partial ones by store + write-back, because single movnti words are
// slower on today's processors.
// Threads: one producer (append) and one consumer (truncate); who may use `free_words` is theirs to
// agree on.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "perdure/log/ring_log.h"

namespace perdure {

class TornbitLog : public RingLog {
 public:
  static constexpr const char* kName = "tornbit";

  /// `head_salt`: seals the head; another one than kHeadSalt tells a ring that is laid out in
  /// another way.
  TornbitLog(Ring ring, std::uint64_t head, std::uint64_t tail, std::uint16_t head_salt = kHeadSalt)
      : RingLog(ring, head, tail, head_salt) {}

  /// Log words that `payload` words take: 64 bits a word into 63.
  static constexpr std::uint64_t log_words(std::uint64_t payload) {
    return (payload * 64 + 62) / 63;
  }

  /// Appends `payload` as one unit.
  /// Requires: log_words(payload.size()) <= free_words().
  /// Durable:  after make_durable().   Errors: none.
  /// Cost:     ceil(64 * words / 63) written-through words, no fence.
  template <Domain D>
  void append(D& domain, std::span<const Word> payload) {
    const std::span<const Word> words = packed(payload);
    ring_.write(domain, tail_, words, Site::kLogRecord);
    advance(words.size());
  }
  /// The same in the way of a log without torn bits: the last word, which makes the others count,
  /// is written after a wait for them. For comparison only. False: the storage failed.
  template <Domain D>
  [[nodiscard]] bool append_in_two(D& domain, std::span<const Word> payload) {
    const std::span<const Word> words = packed(payload);
    ring_.write(domain, tail_, words.first(words.size() - 1), Site::kLogBody);
    if (!domain.fence(Site::kLogBodyFence)) return false;
    ring_.write(domain, tail_ + words.size() - 1, words.last(1), Site::kLogRecord);
    advance(words.size());
    return true;
  }

  /// Reads payload words from `position` on, as far as the torn bits say that they were completely
  /// written.
  class Reader {
   public:
    Reader(const Ring& ring, std::uint64_t position, std::uint64_t limit)
        : ring_(&ring), position_(position), limit_(limit) {}
    /// The next payload word, or false at the end of what was completely written.
    bool next(Word& out) {
      if (!fetch()) return false;
      if (held_ == 0) {  // 63 fresh bits are one too few
        out = fresh_;
        if (!fetch()) return false;
        out |= fresh_ << 63;
        bits_ = fresh_ >> 1;
        held_ = 62;
        return true;
      }
      out = bits_ | (fresh_ << held_);
      bits_ = fresh_ >> (64 - held_);
      --held_;
      return true;
    }
    /// Where the next append would begin: the position after the last word read, padding included.
    std::uint64_t position() const { return position_; }
    /// Forgets the padding bits of the append just read.
    void end_of_append() {
      bits_ = 0;
      held_ = 0;
    }

   private:
    bool fetch() {
      if (position_ >= limit_) return false;
      const Word word = load_word(ring_->at(position_));
      if ((word & kTornBit) != ring_->torn(position_)) return false;
      fresh_ = word & ~kTornBit;
      ++position_;
      return true;
    }
    const Ring* ring_;
    std::uint64_t position_;
    std::uint64_t limit_;
    Word bits_ =
        0;  // bits of the last log word that belong to the next payload word, at the bottom
    unsigned held_ = 0;  // how many: 0 to 62
    Word fresh_ = 0;     // the 63 bits just fetched
  };

  Reader reader() const { return reader_from(head_); }
  Reader reader_from(std::uint64_t position) const {
    return Reader(ring_, position, head_ + ring_.count);
  }

  /// Where the last word from `from` to one lap after the head ends that carries its lap's torn bit:
  /// the remains of a torn append. `from`: there is none.
  std::uint64_t end_of_remains(std::uint64_t from) const {
    std::uint64_t end = from;
    for (std::uint64_t p = from; p < head_ + ring_.count; ++p) {
      if ((load_word(ring_.at(p)) & kTornBit) == ring_.torn(p)) end = p + 1;
    }
    return end;
  }
  bool has_remains(std::uint64_t from) const { return end_of_remains(from) != from; }
  /// Makes everything from `from` (a position after the head) on read as not yet written, and
  /// appends there next.
  /// Durable: after the caller's fence (Site::kEraseFence). A crash before it leaves words that
  /// read as missing or as what they were, never as others: every erased word has the sense of "not
  /// yet written on this lap".
  template <Domain D>
  void erase_from(D& domain, std::uint64_t from) {
    erase(domain, from, head() + ring_.count);
    continue_at(from);
  }
  /// The same for the words of [from, end), at most a ring.
  template <Domain D>
  void erase(D& domain, std::uint64_t from, std::uint64_t end, Site site = Site::kEraseRing) const {
    std::array<Word, 512> missing;
    while (from < end) {
      const std::uint64_t count = std::min<std::uint64_t>(missing.size(), end - from);
      for (std::uint64_t i = 0; i < count; ++i) missing[i] = ring_.torn(from + i) ^ kTornBit;
      ring_.write(domain, from, {missing.data(), count}, site);
      from += count;
    }
  }

  static constexpr std::uint16_t kHeadSalt = 0x4844;

  static constexpr Word kTornBit = Word{1} << 63;

 private:
  /// The log words of an append of `payload` at the tail.
  std::span<const Word> packed(std::span<const Word> payload) {
    const std::uint64_t words = log_words(payload.size());
    PERDURE_CHECK(words <= free_words(), "an append overruns its log");
    Word* const out = built_.room(words);
    pack(payload, out, ring_.torn(tail_));
    // What lies beyond the end of the ring belongs to the next lap.
    for (std::uint64_t i = ring_.until_end(tail_); i < words; ++i) out[i] ^= kTornBit;
    return {out, words};
  }

  /// Packs 64-bit words into words of 63 bits under the torn bit `torn`. The stream takes each word
  /// from its lowest bit up: a log word is what the last one left over, below, and the new word's
  /// first bits above.
  static void pack(std::span<const Word> payload, Word* out, Word torn) {
    Word carry = 0;
    unsigned carried = 0;
    for (const Word word : payload) {
      *out++ = ((carry | (word << carried)) & ~kTornBit) | torn;
      carry = word >> (63 - carried);
      if (++carried == 63) {
        *out++ = carry | torn;
        carry = 0;
        carried = 0;
      }
    }
    if (carried != 0) *out = carry | torn;
  }
};

}  // namespace perdure
