#include "perdure/checkpoint/epochs.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstring>

namespace perdure::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPauses = 4096;

/// Which blocks of two pages differ.
std::uint64_t differing(const std::byte* a, const std::byte* b) {
  std::uint64_t mask = 0;
  for (unsigned block = 0; block < 64; ++block, a += kLineBytes, b += kLineBytes) {
    std::uint64_t difference = 0;
    for (std::size_t word = 0; word < kLineBytes; word += kWordBytes) {
      std::uint64_t left = 0;
      std::uint64_t right = 0;
      std::memcpy(&left, a + word, kWordBytes);
      std::memcpy(&right, b + word, kWordBytes);
      difference |= left ^ right;
    }
    mask |= std::uint64_t{difference != 0} << block;
  }
  return mask;
}

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
      granularity_(store.superblock().capacity_bytes / kPageBytes) {
  stats_.epoch = store.epoch();
  // The threads take no signals: a handler of the program may enter the gate.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  epochs_ = std::thread([this] { run(); });
  home_ = std::thread([this] { bring_home(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  auto collected = dirty_.collect(ranges_);
  std::uint64_t pages = 0;
  if (collected.ok()) {
    for (const PageRange& range : ranges_) {
      for (std::uint64_t page = range.first; page < range.first + range.count; ++page) stage(page);
      pages += range.count;
    }
  }
  gate_.open();
  const auto pause = std::chrono::nanoseconds(Clock::now() - begin);

  const std::lock_guard lock(mutex_);
  if (pauses_.size() < kPauses) {
    pauses_.push_back(pause);
  } else {
    pauses_[stats_.ended % kPauses] = pause;
  }
  ++stats_.ended;
  stats_.written_pages += pages;
  for (const Change& change : changes_) {
    const bool whole = change.zeros != 0 || change.mask == ~std::uint64_t{0};
    stats_.whole_pages += whole ? std::max<std::uint32_t>(change.zeros, 1) : 0;
    stats_.blocks += whole ? 0 : static_cast<std::uint64_t>(std::popcount(change.mask));
  }
  return collected;
}

void Epochs::stage(std::uint64_t page) {
  const std::byte* const now = memory_ + page * kPageBytes;
  std::byte* const then = shadow_ + page * kPageBytes;
  const std::uint64_t mask = differing(now, then);
  if (mask == 0) return;
  const auto number = static_cast<std::uint32_t>(page);
  if (!granularity_.whole(page, static_cast<std::uint32_t>(std::popcount(mask)))) {
    for (std::uint64_t left = mask; left != 0; left &= left - 1) {
      const std::size_t at = static_cast<std::size_t>(std::countr_zero(left)) * kLineBytes;
      std::memcpy(then + at, now + at, kLineBytes);
    }
    changes_.push_back({number, 0, mask});
    return;
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
}

}  // namespace perdure::checkpoint
