// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/private_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <new>
#include <thread>

namespace perdure {

namespace {

constexpr std::uint64_t kArrays = 3;

}  // namespace

PrivatePages::PrivatePages(std::byte* base, Offset begin, Offset end, std::uint64_t most)
    : first_(base + begin), pages_((end - begin) / kPageBytes), most_(most) {
  // Zeroes that take memory where they are written: a pool's capacity is far more than what it
  // uses.
  void* const arrays =
      ::mmap(nullptr, kArrays * pages_ * sizeof(std::uint32_t), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arrays == MAP_FAILED) throw std::bad_alloc();
  entries_ = static_cast<std::atomic<std::uint32_t>*>(arrays);
  private_ = static_cast<std::uint32_t*>(arrays) + pages_;
  candidates_ = private_ + pages_;
}
PrivatePages::~PrivatePages() { ::munmap(entries_, kArrays * pages_ * sizeof(std::uint32_t)); }

template <class Change>
void PrivatePages::update(std::atomic<std::uint32_t>& entry, Change change) {
  std::uint32_t seen = entry.load(std::memory_order_relaxed);
  std::uint32_t next = 0;
  do {
    while (seen == kGoing) {  // for as long as some pages take to be given back
      std::this_thread::yield();
      seen = entry.load(std::memory_order_relaxed);
    }
    next = change(seen);
    // Acquire: who finds the page given back stores after that.
  } while (!entry.compare_exchange_weak(seen, next, std::memory_order_acq_rel,
                                        std::memory_order_relaxed));
  const bool was_pinned = (seen & kPins) != 0;
  const bool is_pinned = (next & kPins) != 0;
  if (is_pinned && !was_pinned) pinned_.fetch_add(1, std::memory_order_relaxed);
  if (was_pinned && !is_pinned) pinned_.fetch_sub(1, std::memory_order_relaxed);
  if (seen != 0) return;
  count_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  private_[listed_++] = static_cast<std::uint32_t>(&entry - entries_);
}
template <class Change>
void PrivatePages::update_all(const void* address, std::size_t bytes, Change change) {
  if (bytes == 0) return;
  const std::uint64_t last = page_of(static_cast<const std::byte*>(address) + bytes - 1);
  for (std::uint64_t page = page_of(address); page <= last; ++page) update(entries_[page], change);
}

void PrivatePages::mark_anew(std::atomic<std::uint32_t>& entry) {
  update(entry, [this](std::uint32_t seen) {
    return generation_.load(std::memory_order_relaxed) | (seen & kPins);
  });
}
void PrivatePages::pin(const void* address, std::size_t bytes) {
  update_all(address, bytes, [this](std::uint32_t seen) {
    const std::uint32_t generation =
        seen == 0 ? generation_.load(std::memory_order_relaxed) : seen & ~kPins;
    return generation | std::min((seen & kPins) + 1, kForGood);
  });
}
void PrivatePages::unpin(const void* address, std::size_t bytes) {
  update_all(address, bytes,
             [](std::uint32_t seen) { return (seen & kPins) == kForGood ? seen : seen - 1; });
}
void PrivatePages::begin_generation() {
  // Orders: the generation before the look at the clock. Whoever draws a timestamp that this look
  //         does not see, sees the generation: a draw is a locked instruction as well.
  generation_.store(after(generation_.load(std::memory_order_relaxed)), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::uint64_t PrivatePages::give_back() {
  if (!are_many()) return 0;
  std::uint64_t listed = 0;
  {
    const std::lock_guard lock(mutex_);
    listed = listed_;
    std::copy_n(private_, listed, candidates_);
    listed_ = 0;
  }
  std::sort(candidates_, candidates_ + listed);
  const std::uint32_t now = generation_.load(std::memory_order_relaxed);
  std::uint64_t left = give_back_some(
      listed, [now](std::uint32_t seen) { return seen != now && after(seen) != now; });
  if (are_many()) left = give_back_some(left, [now](std::uint32_t seen) { return seen != now; });
  const std::lock_guard lock(mutex_);
  std::copy_n(candidates_, left, private_ + listed_);
  listed_ += left;
  return listed - left;
}

void PrivatePages::give_back_within(const void* address, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(address);
  const std::uint64_t first = page_of(begin + kPageBytes - 1);
  const std::uint64_t end = page_of(begin + bytes);
  std::uint64_t listed = 0;
  {
    const std::lock_guard lock(mutex_);
    listed = listed_;
    std::copy_n(private_, listed, candidates_);
    listed_ = 0;
  }
  std::uint32_t* const others =
      std::partition(candidates_, candidates_ + listed,
                     [&](std::uint32_t page) { return page >= first && page < end; });
  std::sort(candidates_, others);
  const std::uint64_t left = give_back_some(static_cast<std::uint64_t>(others - candidates_),
                                            [](std::uint32_t) { return true; });
  for (std::uint64_t page = first; page < end;) {
    const std::uint64_t begin_of_run = page;
    while (page < end && entries_[page].load(std::memory_order_relaxed) == 0) ++page;
    if (page > begin_of_run)
      ::madvise(first_ + begin_of_run * kPageBytes, (page - begin_of_run) * kPageBytes,
                MADV_DONTNEED);
    ++page;
  }
  const std::lock_guard lock(mutex_);
  std::copy_n(candidates_, left, private_ + listed_);
  std::copy(others, candidates_ + listed, private_ + listed_ + left);
  listed_ += left + static_cast<std::uint64_t>(candidates_ + listed - others);
}

template <class MayGo>
std::uint64_t PrivatePages::give_back_some(std::uint64_t count, MayGo may_go) {
  // A few at a time, because a thread that stores to one of them meanwhile waits.
  std::array<std::uint32_t, 256> going;
  std::uint64_t left = 0;
  for (std::uint64_t next = 0; next < count;) {
    std::uint64_t chosen = 0;
    for (; next < count && chosen < going.size(); ++next) {
      const std::uint32_t page = candidates_[next];
      std::uint32_t seen = entries_[page].load(std::memory_order_relaxed);
      const bool goes = (seen & kPins) == 0 && may_go(seen) &&
                        !stuck_.load(std::memory_order_relaxed) &&
                        entries_[page].compare_exchange_strong(
                            seen, kGoing, std::memory_order_acq_rel, std::memory_order_relaxed);
      if (goes) {
        going[chosen++] = page;
      } else {
        candidates_[left++] = page;
      }
    }
    give_back_now(going.data(), chosen);
    // Those that the system did not take stay.
    for (std::uint64_t i = 0; stuck_.load(std::memory_order_relaxed) && i < chosen; ++i) {
      if (entries_[going[i]].load(std::memory_order_relaxed) == kGoing) {
        entries_[going[i]].store(kOneGeneration, std::memory_order_release);
        candidates_[left++] = going[i];
      }
    }
  }
  return left;
}

void PrivatePages::give_back_now(const std::uint32_t* going, std::uint64_t count) {
  for (std::uint64_t begin = 0; begin < count;) {
    std::uint64_t end = begin + 1;
    while (end < count && going[end] == going[end - 1] + 1) ++end;
    if (::madvise(first_ + going[begin] * kPageBytes, (end - begin) * kPageBytes, MADV_DONTNEED) !=
        0)
      return stuck_.store(true, std::memory_order_relaxed);
    for (std::uint64_t i = begin; i < end; ++i) {
      // Release: the page shows its home before somebody stores there again.
      entries_[going[i]].store(0, std::memory_order_release);
    }
    count_.fetch_sub(end - begin, std::memory_order_relaxed);
    begin = end;
  }
}

}  // namespace perdure
