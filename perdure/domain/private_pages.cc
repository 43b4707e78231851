#include "perdure/domain/private_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <thread>

namespace perdure {

PrivatePages::PrivatePages(std::byte* base, Offset begin, Offset end, std::uint64_t most)
    : first_(base + begin), pages_((end - begin) / kPageBytes), most_(most) {
  // Zeroes that take memory where they are written: a pool's capacity is far more than what it uses.
  void* const entries = ::mmap(nullptr, pages_ * sizeof(*entries_), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (entries == MAP_FAILED) throw std::bad_alloc();
  entries_ = static_cast<std::atomic<std::uint32_t>*>(entries);
}
PrivatePages::~PrivatePages() { ::munmap(entries_, pages_ * sizeof(*entries_)); }

template <class Change>
void PrivatePages::update(std::atomic<std::uint32_t>& entry, Change change) {
  std::uint32_t seen = entry.load(std::memory_order_relaxed);
  for (;;) {
    if (seen == kGoing) {  // for some microseconds
      std::this_thread::yield();
      seen = entry.load(std::memory_order_relaxed);
      continue;
    }
    // Acquire: who finds the page given back stores after that. Release: nothing yet; the store comes after.
    if (entry.compare_exchange_weak(seen, change(seen), std::memory_order_acq_rel,
                                    std::memory_order_relaxed))
      break;
  }
  if (seen != 0) return;
  count_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  private_.push_back(static_cast<std::uint32_t>(&entry - entries_));
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
  // Orders: the generation before the look at the clock. Whoever draws a stamp that this look does not see, sees the
  //         generation: a draw is a locked instruction as well.
  generation_.store(after(generation_.load(std::memory_order_relaxed)), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::uint64_t PrivatePages::give_back() {
  if (!are_many() && pinned_.load(std::memory_order_relaxed) == 0) return 0;
  std::vector<std::uint32_t> candidates;
  {
    const std::lock_guard lock(mutex_);
    candidates.swap(private_);
  }
  pinned_.store(count_pinned(candidates), std::memory_order_relaxed);
  const std::uint32_t now = generation_.load(std::memory_order_relaxed);
  const auto of_before = [now](std::uint32_t seen) { return seen != now && after(seen) != now; };
  const auto older = [now](std::uint32_t seen) { return seen != now; };
  std::uint64_t gone = 0;
  if (are_many()) gone = give_back_some(candidates, of_before);
  if (are_many()) gone += give_back_some(candidates, older);
  {
    const std::lock_guard lock(mutex_);
    private_.insert(private_.end(), candidates.begin(), candidates.end());
  }
  return gone;
}

std::uint64_t PrivatePages::count_pinned(const std::vector<std::uint32_t>& pages) const {
  return static_cast<std::uint64_t>(
      std::count_if(pages.begin(), pages.end(), [this](std::uint32_t page) {
        return (entries_[page].load(std::memory_order_relaxed) & kPins) != 0;
      }));
}

template <class MayGo>
std::uint64_t PrivatePages::give_back_some(std::vector<std::uint32_t>& candidates, MayGo may_go) {
  std::vector<std::uint32_t> going;
  std::erase_if(candidates, [&](std::uint32_t page) {
    std::uint32_t seen = entries_[page].load(std::memory_order_relaxed);
    const bool goes = (seen & kPins) == 0 && may_go(seen) &&
                      entries_[page].compare_exchange_strong(
                          seen, kGoing, std::memory_order_acq_rel, std::memory_order_relaxed);
    if (goes) going.push_back(page);
    return goes;
  });
  std::sort(going.begin(), going.end());
  std::uint64_t gone = 0;
  for (std::size_t begin = 0; begin < going.size();) {
    std::size_t end = begin + 1;
    while (end < going.size() && going[end] == going[end - 1] + 1) ++end;
    const bool went = ::madvise(first_ + going[begin] * kPageBytes, (end - begin) * kPageBytes,
                                MADV_DONTNEED) == 0;
    for (std::size_t i = begin; i < end; ++i) {
      // Release: the page shows its home before somebody stores there again.
      entries_[going[i]].store(went ? 0 : kOneGeneration, std::memory_order_release);
      if (!went) candidates.push_back(going[i]);
    }
    if (went) gone += end - begin;
    begin = end;
  }
  count_.fetch_sub(gone, std::memory_order_relaxed);
  return gone;
}

}  // namespace perdure
