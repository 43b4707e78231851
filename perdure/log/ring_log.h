// SPDX-License-Identifier: BSD-3-Clause
// RingLog: what the logs of records have in common: where they stand in their ring, and how what
// is not needed any more is dropped. TornbitLog and LineLog say how words lie between head and
// tail; none of them has a state besides this.
//
// Threads: one producer (append) and one consumer (truncate); who may use `free_words` is theirs to
// agree on.
#pragma once

#include "perdure/base/check.h"
#include "perdure/base/word_buffer.h"
#include "perdure/log/ring.h"

namespace perdure {

class RingLog {
 public:
  /// `head_salt`: seals the head; it tells how the ring is laid out.
  RingLog(Ring ring, std::uint64_t head, std::uint64_t tail, std::uint16_t head_salt)
      : ring_(ring), head_(head), tail_(tail), place_(tail % ring.count), head_salt_(head_salt) {}

  std::uint64_t capacity_words() const { return ring_.count; }
  std::uint64_t free_words() const { return ring_.count - (tail() - head()); }
  bool is_empty() const { return head() == tail(); }
  const Ring& ring() const { return ring_; }
  // Head and tail are atomic: a Lamport buffer, whose consumer reads what lies before the tail
  // while the producer goes on, and whose producer reuses what lies before the head while the
  // consumer goes on. Acquire and release hand the words between them over.
  std::uint64_t head() const {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(head_))
        .load(std::memory_order_acquire);
  }
  std::uint64_t tail() const {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(tail_))
        .load(std::memory_order_acquire);
  }
  /// For the producer: where the tail is.
  Word* at_tail() const { return ring_.words + place_; }
  /// For the producer: appends the `words` words after the tail, which it has written.
  void advance(std::uint64_t words) {
    std::atomic_ref<std::uint64_t>(tail_).store(tail_ + words, std::memory_order_release);
    place_ += words;
    if (place_ >= ring_.count) place_ -= ring_.count;
  }
  /// Memory for an append of `words` log words, which then needs none.
  void reserve_memory(std::uint64_t words) { built_.room(words); }

  /// Orders: all words appended so far before whatever the caller does next. Without it home stores
  /// could become durable while their record is torn, and recovery could not take them back.
  template <Domain D>
  [[nodiscard]] bool make_durable(D& domain) {
    return domain.fence(Site::kLogCommit);
  }

  /// Drops everything up to the tail in memory; persist_head() makes that survive.
  void truncate() { truncate_to(tail_); }
  /// The same up to `position`, the end of a record.
  void truncate_to(std::uint64_t position) {
    std::atomic_ref<std::uint64_t>(head_).store(position, std::memory_order_release);
  }
  /// Durable: after the caller's fence (Site::kHeadFence), which must come before the next append.
  template <Domain D>
  void persist_head(D& domain) {
    persist_head_at(domain, head_);
  }
  /// The same ahead of truncate_to(position), so that the producer gets the room only when the head
  /// is durable.
  template <Domain D>
  void persist_head_at(D& domain, std::uint64_t position) {
    domain.store(ring_.head_word, seal(position, head_salt_));
    domain.flush(ring_.head_word, kWordBytes, Site::kHead);
  }

  /// The same for the whole ring.
  template <Domain D>
  void adopt(D& domain) {
    adopt(domain, head_ + ring_.count);
  }

  /// Appends at `position` next. Requires: nothing from there on reads as written.
  void continue_at(std::uint64_t position) {
    tail_ = position;
    place_ = position % ring_.count;
  }
  /// Starts the write-back of the head and of all from there to `end`: what a killed process left may
  /// be in caches only.
  template <Domain D>
  void adopt(D& domain, std::uint64_t end) {
    const std::uint64_t words = end - head_;
    const std::uint64_t first = std::min(words, ring_.until_end(head_));
    domain.flush(ring_.at(head_), first * kWordBytes, Site::kAdopt);
    if (words > first) domain.flush(ring_.words, (words - first) * kWordBytes, Site::kAdopt);
    domain.flush(ring_.head_word, kWordBytes, Site::kAdopt);
  }
  /// Whether all that the log holds, and the tail, is on one lap: then every word of it stands at the
  /// same place in a ring of another length that has the same words.
  bool is_on_one_lap() const { return head() / ring_.count == tail() / ring_.count; }
  /// Says of the head what go_on_in() says. Durable: after a fence.
  template <Domain D>
  void persist_head_in(D& domain, std::uint64_t count, std::uint16_t head_salt) const {
    domain.store(ring_.head_word, seal(ring_.position_in(count, head_), head_salt));
    domain.flush(ring_.head_word, kWordBytes, Site::kLongHead);
  }
  /// Goes on in a ring of `count` words from the same one on.
  /// Requires: is_on_one_lap(), less than `count` words on it; whatever lies behind the tail reads as
  ///           not yet written there; neither producer nor consumer is at work.
  void go_on_in(std::uint64_t count, std::uint16_t head_salt) {
    const std::uint64_t tail = ring_.position_in(count, tail_);
    head_ = ring_.position_in(count, head_);
    ring_.count = count;
    head_salt_ = head_salt;
    continue_at(tail);
  }
  /// Where a ring that begin_at() makes ready starts: on a lap whose torn bit is 1, and not at 0,
  /// which a pool's head keeps for "never used".
  std::uint64_t first_position() const { return 2 * ring_.count; }
  /// Empties the log and appends at `position` next. Durable: after persist_head() and a fence.
  void begin_at(std::uint64_t position) {
    std::atomic_ref<std::uint64_t>(head_).store(position, std::memory_order_relaxed);
    continue_at(position);
  }

 protected:
  Ring ring_;
  std::uint64_t head_;
  std::uint64_t tail_;
  std::uint64_t place_;  // of the tail in the ring: a division is too slow for each append
  std::uint16_t head_salt_;
  WordBuffer built_;  // what an append writes
};

}  // namespace perdure
