// SPDX-License-Identifier: BSD-3-Clause
// CommitLog: the log that TornbitLog is compared with (Mnemosyne's "base"): words as they are,
// sealed by a commit record after a fence of its own. Two waits where the torn bit needs one.
//
//   1. append writes [count][words…] through   crash here ⇒ no commit record there; not seen
//   2. fence                                   orders the body before what vouches for it
//   3. the commit record seals the position    crash here ⇒ not seen
//   4. fence                                   returned ⇒ seen by every later recovery
//
// A commit record is the sealed position of its append: a stale one, from an earlier lap, names
// another position. Same interface and threads as TornbitLog. Source: Mnemosyne (ASPLOS 2011) §4.4
// ("the common solution").
#pragma once

#include <vector>

#include "perdure/base/check.h"
#include "perdure/log/ring.h"

namespace perdure {

class CommitLog {
 public:
  static constexpr const char* kName = "commit-record";

  CommitLog(Ring ring, std::uint64_t head, std::uint64_t tail)
      : ring_(ring), head_(head), tail_(tail) {}

  static constexpr std::uint64_t log_words(std::uint64_t payload) { return payload + 2; }

  std::uint64_t capacity_words() const { return ring_.count; }
  std::uint64_t free_words() const { return ring_.count - (tail_ - head_); }
  const Ring& ring() const { return ring_; }
  std::uint64_t head() const { return head_; }
  std::uint64_t tail() const { return tail_; }

  /// Requires: 0 < payload.size(); log_words(payload.size()) <= free_words().  Durable: after
  ///           make_durable(); one append at a time.
  template <Domain D>
  void append(D& domain, std::span<const Word> payload) {
    PERDURE_CHECK(!payload.empty() && log_words(payload.size()) <= free_words(),
                  "an append overruns its log, or is empty");
    const Word count = payload.size();
    ring_.write(domain, tail_, {&count, 1}, Site::kLogBody);
    ring_.write(domain, tail_ + 1, payload, Site::kLogBody);
    pending_ = tail_;
    tail_ += 1 + payload.size();
  }

  template <Domain D>
  [[nodiscard]] bool make_durable(D& domain) {
    // Orders: the body before its commit record. Without it the record could vouch for words that
    //         never came.
    bool durable = domain.fence(Site::kLogBodyFence);
    const Word commit = seal(pending_ & kMax48, kCommitSalt);
    ring_.write(domain, tail_, {&commit, 1}, Site::kLogRecord);
    ++tail_;
    // Orders: the commit record before whatever the caller acknowledges.
    durable = domain.fence(Site::kLogCommit) && durable;
    return durable;
  }

  void truncate() { head_ = tail_; }
  template <Domain D>
  void persist_head(D& domain) {
    domain.store(ring_.head_word, seal(head_, kHeadSalt));
    domain.flush(ring_.head_word, kWordBytes, Site::kHead);
  }

  /// Reads the payload words of one committed append after another.
  class Reader {
   public:
    Reader(const Ring& ring, std::uint64_t position, std::uint64_t limit)
        : ring_(&ring), position_(position), limit_(limit) {}
    bool next(Word& out) {
      if (left_ == 0 && !open_append()) return false;
      out = load_word(ring_->at(position_++));
      --left_;
      return true;
    }
    std::uint64_t position() const { return position_ + (opened_ ? left_ + 1 : 0); }
    void end_of_append() {
      position_ = position();
      opened_ = false;
      left_ = 0;
    }

   private:
    bool open_append() {
      if (opened_ || position_ + 2 > limit_) return false;
      const Word count = load_word(ring_->at(position_));
      if (count == 0 || count > limit_ - position_ - 2) return false;
      if (load_word(ring_->at(position_ + 1 + count)) != seal(position_ & kMax48, kCommitSalt))
        return false;
      ++position_;
      left_ = count;
      opened_ = true;
      return true;
    }
    const Ring* ring_;
    std::uint64_t position_;
    std::uint64_t limit_;
    std::uint64_t left_ = 0;
    bool opened_ = false;
  };
  Reader reader() const { return Reader(ring_, head_, head_ + ring_.count); }

  static constexpr std::uint16_t kHeadSalt = 0x4845;

 private:
  static constexpr std::uint16_t kCommitSalt = 0x434d;
  Ring ring_;
  std::uint64_t head_;
  std::uint64_t tail_;
  std::uint64_t pending_ = 0;
};

}  // namespace perdure
