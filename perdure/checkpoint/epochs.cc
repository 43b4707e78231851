// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/epochs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "perdure/base/quiet_thread.h"

namespace perdure::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPauses = 4096;

bool all_zeros(const std::byte* page) {
  return page[0] == std::byte{0} && std::memcmp(page, page + 1, kPageBytes - 1) == 0;
}

}  // namespace

Epochs::Epochs(EpochStore& store, std::byte* memory, std::byte* shadow, DirtyPages& dirty,
               std::chrono::milliseconds period)
    : store_(store),
      memory_(memory),
      shadow_(shadow),
      dirty_(dirty),
      period_(period),
      granularity_(store.superblock().capacity_bytes / kPageBytes),
      hot_states_(static_cast<std::uint8_t*>(std::calloc(granularity_.pages(), 1))),
      hot_(hot_states_.get(),
           dirty.tracking() == Tracking::kMprotect ? kMprotectCosts : kUserfaultCosts) {
  if (hot_states_ == nullptr) throw std::bad_alloc();
  stats_.epoch = store.epoch();
  // The threads take no signals: a handler of the program may enter the gate.
  epochs_ = quiet_thread([this] { run(); });
  home_ = quiet_thread([this] { bring_home(); });
}

Epochs::~Epochs() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
  home_wanted_.notify_all();
  epochs_.join();
  home_.join();
}

Result<void> Epochs::persist() {
  if (gate_.entered_here())
    return Error{Code::kMisuse, "persist() inside a Guard of the same thread; end the guard first"};
  std::unique_lock lock(mutex_);
  if (poison_) return *poison_;
  const std::uint64_t ticket = ++requested_;
  wanted_.notify_one();
  done_.wait(lock, [&] { return served_ >= ticket || poison_; });
  if (served_ < ticket) return *poison_;
  return {};
}

EpochStats Epochs::stats() {
  const std::lock_guard lock(mutex_);
  EpochStats stats = stats_;
  stats.log_bytes = store_.log_bytes_written();
  stats.home_bytes = store_.home_bytes_written();
  if (!pauses_.empty()) {
    std::vector<std::chrono::nanoseconds> sorted = pauses_;
    std::sort(sorted.begin(), sorted.end());
    stats.pause_p50 = sorted[sorted.size() / 2];
    stats.pause_p99 = sorted[sorted.size() * 99 / 100];
    stats.pause_max = sorted.back();
  }
  return stats;
}

void Epochs::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!poison_) poison_ = error;
  done_.notify_all();
  wanted_.notify_all();
  home_wanted_.notify_all();
}

void Epochs::run() {
  auto due = Clock::now() + period_;
  std::unique_lock lock(mutex_);
  const auto needed = [&] { return stopping_ || poison_ || requested_ > served_; };
  for (;;) {
    if (period_.count() == 0) {
      wanted_.wait(lock, needed);
    } else {
      wanted_.wait_until(lock, due, needed);
    }
    if (stopping_ || poison_) return;
    const std::uint64_t ticket = requested_;
    if (period_.count() != 0 && Clock::now() > due + period_) ++stats_.late;
    due = Clock::now() + period_;
    lock.unlock();

    auto result = end_epoch();
    if (result.ok() && !changes_.empty()) result = store_.commit(changes_, shadow_);
    if (!result) return fail(result.error());

    lock.lock();
    served_ = ticket;
    stats_.epoch = store_.epoch();
    home_due_ = true;
    done_.notify_all();
    home_wanted_.notify_one();
  }
}

void Epochs::bring_home() {
  std::unique_lock lock(mutex_);
  for (;;) {
    home_wanted_.wait(lock, [&] { return stopping_ || poison_ || home_due_; });
    if (stopping_ || poison_) return;
    home_due_ = false;
    lock.unlock();
    if (auto home = store_.bring_home(); !home) return fail(home.error());
    lock.lock();
  }
}

Result<void> Epochs::end_epoch() {
  ranges_.clear();
  changes_.clear();
  const auto begin = Clock::now();
  gate_.close();
  // Watched in the same walk, unless there are hot pages that should not be.
  const bool watch = !hot_.worth_leaving();
  auto collected = dirty_.collect(ranges_, watch);
  if (collected.ok()) collected = stage_all(watch);
  gate_.open();
  const auto pause = std::chrono::nanoseconds(Clock::now() - begin);

  const std::lock_guard lock(mutex_);
  if (pauses_.size() < kPauses) {
    pauses_.push_back(pause);
  } else {
    pauses_[stats_.ended % kPauses] = pause;
  }
  ++stats_.ended;
  for (const PageRange& range : ranges_) stats_.written_pages += range.count;
  stats_.hot_pages = watch ? 0 : hot_.count();
  for (const Change& change : changes_) {
    const bool whole = change.zeros != 0 || change.mask == ~std::uint64_t{0};
    stats_.whole_pages += whole ? std::max<std::uint32_t>(change.zeros, 1) : 0;
    stats_.blocks += whole ? 0 : static_cast<std::uint64_t>(std::popcount(change.mask));
  }
  return collected;
}

Result<void> Epochs::stage_all(bool watched) {
  hot_.begin_epoch();
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const PageRange& range = ranges_[i];
    const std::uint64_t end = range.first + range.count;
    for (std::uint64_t page = range.first; page < end; ++page) {
      if (page + 1 < end || i + 1 < ranges_.size()) {
        const std::uint64_t next = page + 1 < end ? page + 1 : ranges_[i + 1].first;
        fetch_page_early(memory_ + next * kPageBytes);
        fetch_page_early(shadow_ + next * kPageBytes);
      }
      hot_.note(page, stage(page));
    }
  }
  return watched ? Result<void>() : watch_all_but_hot();
}

Result<void> Epochs::watch_all_but_hot() {
  if (!hot_.worth_leaving()) return dirty_.watch_again({0, granularity_.pages()});
  // Pages between two that were written are watched: one call for all from a hot page to the next.
  PageRange group{0, 0};
  for (const PageRange& range : ranges_) {
    for (std::uint64_t page = range.first; page < range.first + range.count; ++page) {
      if (!hot_.hot(page)) {
        if (group.count == 0) group.first = page;
        group.count = page + 1 - group.first;
      } else if (group.count != 0) {
        if (auto watched = dirty_.watch_again(group); !watched) return watched;
        group.count = 0;
      }
    }
  }
  return group.count != 0 ? dirty_.watch_again(group) : Result<void>();
}

bool Epochs::stage(std::uint64_t page) {
  const std::byte* const now = memory_ + page * kPageBytes;
  std::byte* const then = shadow_ + page * kPageBytes;
  const std::uint64_t mask = differing_(now, then);
  if (mask == 0) return false;
  const auto number = static_cast<std::uint32_t>(page);
  if (!granularity_.whole(page, static_cast<std::uint32_t>(std::popcount(mask)))) {
    for (std::uint64_t left = mask; left != 0; left &= left - 1) {
      const std::size_t at = static_cast<std::size_t>(std::countr_zero(left)) * kLineBytes;
      std::memcpy(then + at, now + at, kLineBytes);
    }
    changes_.push_back({number, 0, mask});
    return true;
  }
  std::memcpy(then, now, kPageBytes);
  if (!all_zeros(now)) {
    changes_.push_back({number, 0, ~std::uint64_t{0}});
  } else if (!changes_.empty() && changes_.back().zeros != 0 &&
             changes_.back().page + changes_.back().zeros == number) {
    ++changes_.back().zeros;
  } else {
    changes_.push_back({number, 1, ~std::uint64_t{0}});
  }
  return true;
}

}  // namespace perdure::checkpoint
