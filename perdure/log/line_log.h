// SPDX-License-Identifier: BSD-3-Clause
// LineLog: a raw word log in whole cache lines, for memory. An append takes lines of its own: a
// header and seven words as they are. The stores to one line reach memory in their order, so a line
// whose header is stored last, and is the one of its place and lap, is whole; nothing has to be
// packed, and one fence makes an append durable.
//
//   1. each line but the first: its words, then its header   crash here ⇒ no first line: not seen
//   2. the first line: its words, then its header            crash here ⇒ seen if all lines came
//   3. the fence of make_durable()                           returned ⇒ seen by every later recovery
//   4. truncate() moves the head, later                      crash here ⇒ the old head: as in
//                                                            tornbit_log.h
//
// Lines that are streamed past the cache come in parts, in any order. They are cheaper, and a long
// append uses them: it waits for all lines but the first before it stores that one.
//
//   header   bits 62-63  1: the first line of an append, 2: another, 0: never written
//            bits 32-61  the line's number: its position / 8
//            bits 0-31   the first line: what the writer gave as check of the append's words;
//                        others: how many lines of the append come before
//
// A number is not used twice before every line of the ring has been written since, so a line of an
// earlier lap never reads as one of this.
// Source: the same-line order of Trinity (PPoPP 2021) and In-Cache-Line Logging (ASPLOS 2019), in a
// redo log.
// Threads: as RingLog.
#pragma once

#include <span>

#include "perdure/log/ring_log.h"

namespace perdure {

class LineLog : public RingLog {
 public:
  static constexpr const char* kName = "line";
  static constexpr std::uint64_t kLineWords = kLineBytes / kWordBytes;
  static constexpr std::uint64_t kPayloadWords = kLineWords - 1;

  /// `ring`: whole lines.
  LineLog(Ring ring, std::uint64_t head, std::uint64_t tail)
      : RingLog(ring, head, tail, kHeadSalt) {}

  /// Log words that `payload` words take.
  static constexpr std::uint64_t log_words(std::uint64_t payload) {
    return (payload + kPayloadWords - 1) / kPayloadWords * kLineWords;
  }

  /// Builds an append at the tail, line by line.
  /// Requires: log_words() of all that is put fits into free_words().
  template <Domain D>
  class Writer;

  /// Appends `payload`, at least one word, as one unit. False: the storage failed.
  /// Requires: log_words(payload.size()) <= free_words().
  /// Durable:  after make_durable().
  /// Cost:     a store for each log word and a flush for each line; beyond kStreamedFrom words
  ///           written through, and one fence.
  template <Domain D>
  [[nodiscard]] bool append(D& domain, std::span<const Word> payload, std::uint32_t check = 0) {
    PERDURE_CHECK(!payload.empty() && log_words(payload.size()) <= free_words(),
                  "an append overruns its log, or is empty");
    if (log_words(payload.size()) >= kStreamedFrom) return append_in_two(domain, payload, check);
    Writer<D> writer(domain, *this, Site::kLogRecord);
    for (const Word word : payload.subspan(1)) writer.put(word);
    writer.finish(payload[0], check);
    return true;
  }

  /// Reads the payload words of one append after another from `position` on, as far as they were
  /// completely written. What fills the last line of an append is read, too, if it is asked for.
  class Reader {
   public:
    Reader(const Ring& ring, std::uint64_t position, std::uint64_t limit)
        : ring_(&ring), position_(position), limit_(limit) {}
    /// The next payload word, or false at the end of what was completely written.
    bool next(Word& out) {
      if (left_ == 0 && !open_line()) return false;
      out = load_word(ring_->at(position_ - left_));
      --left_;
      return true;
    }
    /// Where the next append would begin: the end of the line of the last word read.
    std::uint64_t position() const { return position_; }
    void end_of_append() {
      left_ = 0;
      lines_ = 0;
    }
    /// What the writer of the append that is being read gave for its check.
    std::uint32_t check() const { return check_; }

   private:
    bool open_line() {
      if (position_ + kLineWords > limit_) return false;
      const Word header = load_word(ring_->at(position_));
      if (lines_ == 0) {
        if (!is_first(header, position_)) return false;
        check_ = static_cast<std::uint32_t>(header);
      } else if (header != (kNext | number(position_) | lines_)) {
        return false;
      }
      position_ += kLineWords;
      left_ = kPayloadWords;
      ++lines_;
      return true;
    }
    const Ring* ring_;
    std::uint64_t position_;
    std::uint64_t limit_;
    std::uint64_t left_ = 0;   // words of the open line that were not read yet
    std::uint32_t lines_ = 0;  // of the append, so far
    std::uint32_t check_ = 0;
  };

  Reader reader() const { return Reader(ring_, head_, head_ + ring_.count); }

  /// Where the next line from `from` on stands that begins an append on its lap; as far as one lap
  /// after the head. Returns its position, or that limit.
  std::uint64_t next_first_line(std::uint64_t from) const {
    const std::uint64_t limit = head_ + ring_.count;
    while (from < limit && !is_first(load_word(ring_.at(from)), from)) from += kLineWords;
    return from;
  }
  /// Whether any line from `from` to one lap after the head reads as written on this lap: the
  /// remains of a torn append.
  bool has_remains(std::uint64_t from) const {
    for (std::uint64_t p = from; p < head_ + ring_.count; p += kLineWords) {
      const Word header = load_word(ring_.at(p));
      if ((header & kNumberMask) == number(p) && (header & ~kNumberMask) >> 32 != 0) return true;
    }
    return false;
  }
  /// Makes everything from `from` (a position after the head) on read as not yet written, and
  /// appends there next.
  /// Durable: after the caller's fence (Site::kEraseFence). A crash before it leaves lines that
  /// read as missing or as what they were.
  template <Domain D>
  void erase_from(D& domain, std::uint64_t from) {
    erase(domain, from, head() + ring_.count);
    continue_at(from);
  }
  /// The same for the lines of [from, end), at most a ring.
  template <Domain D>
  void erase(D& domain, std::uint64_t from, std::uint64_t end) const {
    for (; from < end; from += kLineWords) {
      domain.store(ring_.at(from), 0);
      domain.flush(ring_.at(from), kWordBytes, Site::kEraseRing);
    }
  }

  static constexpr std::uint16_t kHeadSalt = 0x4c48;

 private:
  /// From this many log words on, a second wait costs no more than flushing each line.
  static constexpr std::uint64_t kStreamedFrom = 64 * kLineWords;
  static constexpr Word kFirst = Word{1} << 62;
  static constexpr Word kNext = Word{2} << 62;
  static constexpr Word kNumberMask = ((Word{1} << 30) - 1) << 32;

  static constexpr Word number(std::uint64_t position) {
    return position / kLineWords << 32 & kNumberMask;
  }
  static constexpr bool is_first(Word header, std::uint64_t position) {
    return header >> 32 == (kFirst | number(position)) >> 32;
  }

  template <Domain D>
  bool append_in_two(D& domain, std::span<const Word> payload, std::uint32_t check) {
    const std::uint64_t words = log_words(payload.size());
    Word* const built = built_.room(words);
    for (std::uint64_t at = 0; at < words; at += kLineWords) {
      built[at] = kNext | number(tail_ + at) | at / kLineWords;
      const auto piece = payload.first(std::min<std::size_t>(kPayloadWords, payload.size()));
      std::fill(std::copy(piece.begin(), piece.end(), built + at + 1), built + at + kLineWords, 0);
      payload = payload.subspan(piece.size());
    }
    ring_.write(domain, tail_ + kLineWords, {built + kLineWords, words - kLineWords},
                Site::kLogBody);
    // Orders: the other lines before the first. Without it the first could vouch for lines of which
    //         a part never came.
    if (!domain.fence(Site::kLogBodyFence)) return false;
    Word* const first = at_tail();
    for (std::uint64_t i = 1; i < kLineWords; ++i) domain.store(first + i, built[i]);
    domain.store(first, kFirst | number(tail_) | check);
    domain.flush(first, kLineBytes, Site::kLogRecord);
    advance(words);
    return true;
  }
};

/// All of it is inlined: a writer whose address is known has its members stored with each word of
/// the ring, which might be one of them.
template <Domain D>
class LineLog::Writer {
 public:
  Writer(D& domain, LineLog& log, Site site)
      : domain_(&domain),
        log_(&log),
        first_(log.at_tail()),
        line_(first_),
        to_(first_ + 2),  // the first word comes last, as the first header does
        position_(log.tail_),
        site_(site) {}

  /// The next word; the first is given to finish().
  [[gnu::always_inline]] void put(Word word) {
    if (to_ == line_ + kLineWords) [[unlikely]]
      next_line();
    domain_->store(to_++, word);
  }
  [[gnu::always_inline]] void finish(Word first_word, std::uint32_t check) {
    if (line_ != first_) end_line();
    domain_->store(first_ + 1, first_word);
    domain_->store(first_, kFirst | number(log_->tail_) | check);
    domain_->flush(first_, kLineBytes, site_);
    log_->advance(position_ + kLineWords - log_->tail_);
  }

 private:
  [[gnu::always_inline]] void next_line() {
    if (line_ != first_) end_line();
    position_ += kLineWords;
    line_ += kLineWords;
    if (line_ == log_->ring_.words + log_->ring_.count) line_ = log_->ring_.words;
    to_ = line_ + 1;
  }
  [[gnu::always_inline]] void end_line() {
    domain_->store(line_, kNext | number(position_) | (position_ - log_->tail_) / kLineWords);
    domain_->flush(line_, kLineBytes, site_);
  }

  D* domain_;
  LineLog* log_;
  Word* first_;
  Word* line_;
  Word* to_;
  std::uint64_t position_;  // of line_
  Site site_;
};

}  // namespace perdure
