// SPDX-License-Identifier: BSD-3-Clause
// When and how logs are emptied: while commits stand still, or, by a consumer in the background,
// while they go on.
#pragma once

#include <exception>

#include "perdure/engine/redo.h"

namespace perdure {

template <Domain D, class Log>
void Redo<D, Log>::empty_logs() {
  {
    const CommitGate gate(*parts_.clock, *parts_.logs);
    if constexpr (PrivatePagesDomain<D>) domain_.pages().begin_generation();
    empty_closed_logs();
  }
  if constexpr (PrivatePagesDomain<D>) domain_.pages().give_back();
}
template <Domain D, class Log>
void Redo<D, Log>::empty_closed_logs() {
  if (kPrivatePages) return consume_up_to(parts_.clock->now());
  const Site site = mode() == Truncation::kNextCommit ? Site::kHome : Site::kHomeBulk;
  PrimitivesOf<D> primitives(domain_);
  if (!parts_.logs->truncate(primitives, parts_.clock->now(), site)) fail();
}

template <Domain D, class Log>
void Redo<D, Log>::empty_full_log() {
  if (forces_home()) {
    empty_logs();  // quick: little is left to write back
  } else {
    consume();  // this thread stalls, and does the work; the others go on
  }
}

// ---- asynchronous truncation ------------------------------------------------------------------

template <Domain D, class Log>
void Redo<D, Log>::consume() {
  if constexpr (PrivatePagesDomain<D>) domain_.pages().begin_generation();
  const std::uint64_t last_timestamp = parts_.clock->now();
  LogArea& logs = *parts_.logs;
  // A commit announces itself before it draws its timestamp. So all commits up to the last
  // timestamp have announced themselves, and those under way now may be among them.
  for (std::size_t i = 0; i < logs.slot_count(); ++i) {
    const std::uint64_t phase = logs.slot(i).phase.load(std::memory_order_acquire);
    while ((phase & 1) != 0 && logs.slot(i).phase.load(std::memory_order_acquire) == phase)
      give_way();
  }
  consume_up_to(last_timestamp);
  if constexpr (PrivatePagesDomain<D>) domain_.pages().give_back();
  if (shared_) suit_log_to_work();
}
template <Domain D, class Log>
void Redo<D, Log>::consume_up_to(std::uint64_t last_timestamp) {
  PrimitivesOf<D> primitives(domain_);
  bool consumed = false;
  if constexpr (kPrivatePages) {
    class BringHome final : public HomeWriter {
     public:
      explicit BringHome(D& domain) : domain_(&domain) {}
      void bring_home(Word* word, Word value, Word mask) override {
        domain_->bring_home(word, value, mask);
      }

     private:
      D* domain_;
    };
    BringHome home(domain_);
    consumed = parts_.logs->consume(primitives, last_timestamp, LogArea::Homes::kFlush, &home);
  } else {
    consumed = parts_.logs->consume(primitives, last_timestamp);
  }
  if (!consumed) fail();
}

/// A log that is twice as long is emptied half as often, and a page that many records change is then
/// written once for twice as many. It stops where pages are no more to write than records.
template <Domain D, class Log>
void Redo<D, Log>::suit_log_to_work() {
  LogArea& logs = *parts_.logs;
  const TruncationWork& work = logs.last_work();
  // Less was dropped where private pages, not the log, were too many.
  const bool was_full = work.log_bytes >= logs.length_bytes() / 4;
  if (!was_full || work.home_bytes < 2 * work.log_bytes || !may_double_ || !logs.may_double() ||
      2 * logs.length_bytes() > parts_.tuning.log_limit_bytes)
    return;
  PrimitivesOf<D> primitives(domain_);
  LogArea::Doubling doubling = logs.prepare_to_double(primitives);
  if (doubling == LogArea::Doubling::kDone) {
    const LogLatch latch(log_latch_);
    doubling = logs.double_length(primitives);
  }
  may_double_ = doubling != LogArea::Doubling::kNoSpace;
  if (doubling == LogArea::Doubling::kStorageFailed) fail();
}

/// Logs are emptied when they are half full, on memory also after 10 ms: a consumer that comes later
/// writes a line that many commits changed once. On files it also looks now and then which pages
/// nobody writes any more, as long as some were written.
template <Domain D, class Log>
void Redo<D, Log>::start_consumer() {
  consumer_.start(
      [this] {
        try {
          if (parts_.clock->now() == consumed_ || !is_truncation_due()) {
            if (shared_) parts_.region->rest_quiet(kRestedWhenIdle);
            return true;
          }
          {
            const std::lock_guard lock(truncation_);
            consumed_ = parts_.clock->now();
            consume();
          }
          if (shared_) parts_.region->rest_quiet(kRestedWhenBusy);
        } catch (const std::exception&) {
          // Out of memory or a storage that failed: the engine is poisoned, and the next commit
          // says so.
          poison();
        }
        return !poisoned();
      },
      std::chrono::nanoseconds(0), std::chrono::milliseconds(shared_ ? 5000 : 10));
  consuming_.store(true, std::memory_order_release);
}
/// On files a consumer that wakes up by itself leaves alone what is little.
template <Domain D, class Log>
bool Redo<D, Log>::is_truncation_due() {
  if constexpr (PrivatePagesDomain<D>) {
    if (domain_.pages().are_many()) return true;
  }
  return !shared_ || is_half_full(log_slot(0));
}
template <Domain D, class Log>
void Redo<D, Log>::wake_consumer(const LogSlot& slot) {
  if (is_half_full(slot)) consumer_.nudge();
}
/// Where the background is the default, its thread starts when there is something to do, not with the
/// pool.
template <Domain D, class Log>
void Redo<D, Log>::truncate_soon(std::size_t slot_index)
  requires PrivatePagesDomain<D>
{
  if (mode() != Truncation::kBackground) return;
  if (!domain_.pages().are_many() && !is_half_full(log_slot(slot_index))) return;
  if (!consuming_.load(std::memory_order_acquire)) {
    const std::unique_lock lock(mode_mutex_, std::try_to_lock);
    if (!lock || mode() != Truncation::kBackground) return;  // being changed
    try {
      if (!consuming_.load(std::memory_order_relaxed)) start_consumer();
    } catch (const std::exception&) {
      return;  // no thread to be had: commits that find a full log do the work
    }
  }
  consumer_.nudge();
}

}  // namespace perdure
