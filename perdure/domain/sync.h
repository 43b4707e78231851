// SPDX-License-Identifier: BSD-3-Clause
// Sync: a file on a block device, durable against power loss. The page cache | SSD boundary plays
// the part that the CPU cache | memory boundary plays in the papers.
//
// The program works in a *private* mapping, so nothing reaches the file unless we write it: the
// kernel's own write-back of a shared mapping turns one dirty byte into up to a megabyte of writes.
// flush() notes pages, fence() writes them and waits for the device, once for all threads that are
// waiting at that moment (group commit).
//
// post() hands pages over without waiting: they reach the device with the next fence of any thread,
// and *before* what that fence writes. It is how a log that many threads append to is written: a
// record is posted, and whatever becomes visible after it, in home pages that another thread
// happens to write, cannot be durable without it. wait_for() waits for what was posted, and for
// nothing else.
//
// A page is written as it stands in the mapping, so it may carry other threads' newer home words.
// That is harmless: a home word is stored only when its log record is durable or posted. The story
// of a batch:
//   1. copy home pages      the device must never see a page change under it
//   2. take what is posted  after the copy: the records of all that the copy carries are among it
//   3. write that; wait     crash here ⇒ records without home words: replayed
//   4. write the copy; wait
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "perdure/domain/domain.h"

namespace perdure {

/// The state that threads on one Sync domain share: the batch that is being collected, and whether
/// the storage ever failed.
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
    add(pending, {round_down(offset, kPageBytes), round_up(offset + bytes, kPageBytes)});
  }

  /// Hands `pending` over (and clears it), to be written before anything that is copied from now
  /// on. `mark` is a name under which wait_for() finds it; marks grow. 0: none.
  /// Requires: pages that are posted never go any other way while others use the group.
  /// Durable: after any thread's commit().   False: the storage failed before.   Threads: any.
  bool post(std::vector<Pages>& pending, std::uint64_t mark) {
    const std::lock_guard lock(mutex_);
    for (const Pages& pages : pending) add(posted_, pages);
    pending.clear();
    ++posts_;
    if (mark != 0) posted_mark_ = mark;
    return !poisoned();
  }

  /// Waits until what was posted under `mark`, and all before it, is durable.
  /// Durable: on return.   False: the storage failed, now or before.   Threads: any.
  bool wait_for(std::uint64_t mark) {
    if (durable_mark_.load(std::memory_order_acquire) >= mark) return true;
    std::unique_lock lock(mutex_);
    mark = std::min(mark, posted_mark_);
    ++joined_;
    return write_until(lock, [&] { return durable_mark_.load(std::memory_order_relaxed) >= mark; });
  }
  /// The mark up to which all is durable.
  const Shared<std::uint64_t>& durable_mark() const { return durable_mark_; }

  /// Writes `pending` (and clears it) and all that is posted, and waits for the device, together
  /// with every thread waiting now.
  /// Durable: on return.   False: the storage failed, now or before.   Threads: any.
  bool commit(std::vector<Pages>& pending) {
    if (poisoned()) {
      pending.clear();
      return false;
    }
    std::unique_lock lock(mutex_);
    const std::uint64_t posts = posts_;
    if (pending.empty() && durable_posts_ == posts) return true;
    const std::uint64_t ticket = pending.empty() ? 0 : filling_;
    ++joined_;
    batch_.insert(batch_.end(), pending.begin(), pending.end());
    pending.clear();
    return write_until(lock, [&] { return done_ >= ticket && durable_posts_ >= posts; });
  }

  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  /// Identifies the group; an address would not, because it may be used again.
  std::uint64_t id() const { return id_; }
  Device& device() { return device_; }

 private:
  /// Waits until `done()`. Whoever finds that nobody writes leads: writes what all have brought.
  /// False: the storage failed.
  template <class Done>
  bool write_until(std::unique_lock<std::mutex>& lock, Done done) {
    while (!done()) {
      if (poisoned()) return false;
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
      const bool durable = write_out(mine);
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

  static constexpr std::size_t kCopyBytes = std::size_t{256} << 10;
  /// Where pages stand still while the device reads them.
  class Copy {
   public:
    Copy() : memory_(static_cast<Word*>(std::aligned_alloc(kPageBytes, kCopyBytes))) {
      if (!memory_) throw std::bad_alloc();
    }
    const std::byte* take(const std::byte* from, std::size_t bytes) {
      // Word by word: other threads go on storing, and a torn word is none that they stored.
      for (std::size_t i = 0; i < bytes / kWordBytes; ++i)
        memory_.get()[i] = load_word(reinterpret_cast<const Word*>(from) + i);
      return reinterpret_cast<const std::byte*>(memory_.get());
    }

   private:
    struct Free {
      void operator()(Word* memory) const { std::free(memory); }
    };
    std::unique_ptr<Word, Free> memory_;
  };

  /// The threads of the last batch were woken all at once and most are about to commit again: the
  /// first of them, who leads, gives the core to the others as long as more of them come. Without
  /// it small and large batches alternate. But where other programs want the core, it is gone for
  /// milliseconds: then the next batches do without.
  void await_companions(std::unique_lock<std::mutex>& lock) {
    if (alone_for_ > 0) {
      --alone_for_;
      return;
    }
    for (std::size_t before = 0; joined_ != before && joined_ < last_joined_;) {
      before = joined_;
      lock.unlock();
      const auto given = std::chrono::steady_clock::now();
      std::this_thread::yield();
      const auto away = std::chrono::steady_clock::now() - given;
      lock.lock();
      if (away <= kYieldOfOne * (1 + joined_ - before)) continue;
      alone_for_ = kBatchesWithout;
      return;
    }
  }
  /// In so long a companion comes, or none does.
  static constexpr std::chrono::microseconds kYieldOfOne{200};
  static constexpr unsigned kBatchesWithout = 256;

  static void add(std::vector<Pages>& list, const Pages& pages) {
    if (!list.empty() && list.back().end >= pages.begin && list.back().begin <= pages.begin) {
      list.back().end = std::max(list.back().end, pages.end);
      return;
    }
    list.push_back(pages);
  }
  static void join(std::vector<Pages>& list) {
    std::sort(list.begin(), list.end(),
              [](const Pages& a, const Pages& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const Pages& next : list) {
      if (kept > 0 && next.begin <= list[kept - 1].end) {
        list[kept - 1].end = std::max(list[kept - 1].end, next.end);
      } else {
        list[kept++] = next;
      }
    }
    list.resize(kept);
  }

  /// Only the leader is here. False: the storage failed.
  bool write_out(std::vector<Pages>& pages) {
    join(pages);
    return pages.empty() ? write_posted() : write_copies(pages, home_copy_, true);
  }
  bool write_posted() {
    std::vector<Pages> pages;
    std::uint64_t posts = 0;
    std::uint64_t mark = 0;
    {
      const std::lock_guard lock(mutex_);
      pages.swap(posted_);
      posts = posts_;
      mark = posted_mark_;
    }
    join(pages);
    if (!pages.empty() && !write_copies(pages, posted_copy_, false)) return false;
    const std::lock_guard lock(mutex_);
    durable_posts_ = posts;
    // Release: whoever sees it need not wait.
    durable_mark_.store(mark, std::memory_order_release);
    return true;
  }
  /// Writes and waits. `after_posted`: each copy only when the records of what it carries are
  /// durable.
  bool write_copies(const std::vector<Pages>& list, Copy& copy, bool after_posted) {
    for (const Pages& pages : list) {
      for (Offset at = pages.begin; at < pages.end; at += kCopyBytes) {
        const std::size_t bytes = std::min<std::size_t>(pages.end - at, kCopyBytes);
        const std::byte* const from = copy.take(base_ + at, bytes);
        if (after_posted && !write_posted()) return false;
        const bool only = list.size() == 1 && bytes == pages.end - pages.begin;
        if (only) return device_.write_durable(at, from, bytes);
        if (!device_.write(at, from, bytes)) return false;
      }
    }
    return device_.sync();
  }

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
  std::vector<Pages> posted_;
  std::uint64_t posts_ = 0;          // so far
  std::uint64_t durable_posts_ = 0;  // of these
  std::uint64_t posted_mark_ = 0;
  Shared<std::uint64_t> durable_mark_{0};
  Copy home_copy_;  // the leader's, as is the next
  Copy posted_copy_;
  std::size_t joined_ = 0;       // threads that brought it
  std::size_t last_joined_ = 0;  // those of the batch before
  unsigned alone_for_ = 0;       // so many batches
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
  /// What this thread flushed becomes durable with the next fence of any thread, and before what
  /// that one writes.
  bool post(Site, std::uint64_t mark) { return group_->post(pending(), mark); }
  bool wait_for(std::uint64_t mark, Site) { return group_->wait_for(mark); }
  const Shared<std::uint64_t>& durable_mark() const { return group_->durable_mark(); }

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
