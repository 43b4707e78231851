// Sync: a file on a block device, durable against power loss. The page cache | SSD boundary plays
// the part that the CPU cache | memory boundary plays in the papers.
//
// The program works in a *private* mapping, so nothing reaches the file unless we write it: the
// kernel's own write-back of a shared mapping turns one dirty byte into up to a megabyte of writes.
// flush() notes pages, fence() writes them and waits for the device, once for all threads that are
// waiting at that moment (group commit).
//
// A page is written as it stands in the mapping, so it may carry other threads' newer home words.
// That is harmless: a home word is stored only when its log record is durable, and the record
// outlives the page's next write.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "perdure/domain/domain.h"

namespace perdure {

/// What threads that share a Sync domain share: the batch in the making, and whether the storage
/// ever failed.
template <class Device>
class SyncGroup {
 public:
  SyncGroup(Device device, const std::byte* base) : device_(std::move(device)), base_(base) {}

  struct Pages {
    Offset begin;
    Offset end;
  };

  void note(std::vector<Pages>& pending, const void* address, std::size_t bytes) const {
    const auto offset = static_cast<Offset>(static_cast<const std::byte*>(address) - base_);
    const Pages pages{round_down(offset, kPageBytes), round_up(offset + bytes, kPageBytes)};
    if (!pending.empty() && pending.back().end >= pages.begin &&
        pending.back().begin <= pages.begin) {
      pending.back().end = std::max(pending.back().end, pages.end);
      return;
    }
    pending.push_back(pages);
  }

  /// Writes `pending` (and clears it) and waits for the device, together with every thread waiting
  /// now.
  bool commit(std::vector<Pages>& pending) {
    if (poisoned()) {
      pending.clear();
      return false;
    }
    if (pending.empty()) return true;
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = filling_;
    ++joined_;
    batch_.insert(batch_.end(), pending.begin(), pending.end());
    pending.clear();
    while (done_ < ticket) {
      if (writing_) {
        finished_.wait(lock);
        continue;
      }
      // This thread leads: it takes what all have brought by now; those who come later fill the
      // next batch.
      writing_ = true;
      await_companions(lock);
      std::vector<Pages> mine;
      mine.swap(batch_);
      const std::uint64_t number = filling_++;
      last_joined_ = std::exchange(joined_, 0);
      lock.unlock();
      const bool durable = !poisoned() && write_out(mine);
      lock.lock();
      // A failed sync is final: the kernel drops the dirty state and a later sync reports success
      // for data that was never written. Everything after it is refused.
      if (!durable) poisoned_.store(true, std::memory_order_release);
      done_ = number;
      writing_ = false;
      finished_.notify_all();
    }
    return !poisoned();
  }

  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  /// Tells groups apart for ever: an address may be used again.
  std::uint64_t id() const { return id_; }
  Device& device() { return device_; }

 private:
  /// The threads of the last batch were woken all at once and most are about to commit again: the
  /// first of them, who leads, gives the core to the others as long as more of them come. Without
  /// it small and large batches alternate.
  void await_companions(std::unique_lock<std::mutex>& lock) {
    for (std::size_t before = 0; joined_ != before && joined_ < last_joined_;) {
      before = joined_;
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }

  bool write_out(std::vector<Pages>& pages) {
    std::sort(pages.begin(), pages.end(),
              [](const Pages& a, const Pages& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const Pages& next : pages) {
      if (kept > 0 && next.begin <= pages[kept - 1].end) {
        pages[kept - 1].end = std::max(pages[kept - 1].end, next.end);
      } else {
        pages[kept++] = next;
      }
    }
    pages.resize(kept);
    if (kept == 1)
      return device_.write_durable(pages[0].begin, base_ + pages[0].begin, size_of(pages[0]));
    for (const Pages& range : pages) {
      if (!device_.write(range.begin, base_ + range.begin, size_of(range))) return false;
    }
    return device_.sync();
  }
  static std::size_t size_of(const Pages& pages) { return pages.end - pages.begin; }

  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  Device device_;
  const std::byte* base_;
  const std::uint64_t id_ = next_id();
  std::atomic<bool> poisoned_{false};
  std::mutex mutex_;
  std::condition_variable finished_;
  std::vector<Pages> batch_;
  std::size_t joined_ = 0;       // threads that brought it
  std::size_t last_joined_ = 0;  // those of the batch before
  std::uint64_t filling_ = 1;
  std::uint64_t done_ = 0;
  bool writing_ = false;
};

template <class Device>
class Sync : public CachedStores {
 public:
  explicit Sync(SyncGroup<Device>& group) : group_(&group) {}

  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    for (std::size_t i = 0; i < count; ++i) store(home + i, words[i]);
    flush(home, count * kWordBytes, site);
  }
  void flush(const void* address, std::size_t bytes, Site) {
    group_->note(pending(), address, bytes);
  }
  bool fence(Site) { return group_->commit(pending()); }

 private:
  using Pending = std::vector<typename SyncGroup<Device>::Pages>;
  // Per thread and domain. A thread rarely works on more than one file pool, so the list stays one
  // entry long.
  Pending& pending() {
    struct Entry {
      std::uint64_t group;
      Pending pages;
    };
    thread_local std::vector<Entry> entries;
    for (Entry& entry : entries) {
      if (entry.group == group_->id()) return entry.pages;
    }
    std::erase_if(entries, [](const Entry& entry) { return entry.pages.empty(); });
    entries.push_back({group_->id(), {}});
    return entries.back().pages;
  }
  SyncGroup<Device>* group_;
};

}  // namespace perdure
