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
// nothing else: a truncation may be writing a thousand home pages meanwhile.
//
// A page is written as it stands in the mapping, so it may carry other threads' newer home words.
// That is harmless: a home word is stored only when its log record is durable or posted. The story
// of a batch of home pages:
//   1. copy some of them    the device must never see a page change under it
//   2. await the posts      that came before the copy's end: the records of all that it carries are
//                           among them; crash here ⇒ records without home words: replayed
//   3. write the copy       and the next, from 1 on
//   4. wait for the device
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
    std::size_t bytes() const { return end - begin; }
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
    ++posts_way_.joined;
    return write_posts_until(lock,
                             [&] { return durable_mark_.load(std::memory_order_relaxed) >= mark; });
  }
  /// The mark up to which all is durable.
  const Shared<std::uint64_t>& durable_mark() const { return durable_mark_; }

  /// Writes `pending` (and clears it) and all that is posted, and waits for the device, together
  /// with every thread waiting now. What is large goes in several batches.
  /// Durable: on return.   False: the storage failed, now or before.   Threads: any.
  bool commit(std::vector<Pages>& pending) {
    if (poisoned()) {
      pending.clear();
      return false;
    }
    std::unique_lock lock(mutex_);
    if (pending.empty()) {
      const std::uint64_t posts = posts_;
      if (durable_posts_ != posts) ++posts_way_.joined;
      return write_posts_until(lock, [&] { return durable_posts_ >= posts; });
    }
    for (std::size_t next = 0; next < pending.size();) {
      for (std::size_t bytes = 0; next < pending.size() && bytes < kBatchBytes; ++next) {
        batch_.push_back(pending[next]);
        bytes += pending[next].bytes();
      }
      const std::uint64_t ticket = filling_;
      ++homes_way_.joined;
      if (!write_homes_until(lock, [&] { return done_ >= ticket; })) break;
    }
    pending.clear();
    return !poisoned();
  }

  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  /// Identifies the group; an address would not, because it may be used again.
  std::uint64_t id() const { return id_; }
  Device& device() { return device_; }

 private:
  /// Home pages and what is posted each have a way to the device, so that who waits for a record
  /// does not wait for a truncation as well. On each one thread writes for all.
  struct Way {
    std::condition_variable finished;
    bool writing = false;
    std::size_t joined = 0;       // threads that brought what is to be written next
    std::size_t last_joined = 0;  // those of the batch before
    unsigned alone_for = 0;       // so many batches
  };

  /// Waits until `done()`. Whoever finds that nobody writes leads: `write(lock)`, called and
  /// returning with the lock held, writes what all have brought; false: the storage failed.
  template <class Done, class Write>
  bool write_until(Way& way, std::unique_lock<std::mutex>& lock, Done done, Write write) {
    while (!done()) {
      if (poisoned()) return false;
      if (way.writing) {
        way.finished.wait(lock);
        continue;
      }
      // This thread leads: it takes what all have brought by now; those who come later fill the
      // next batch.
      way.writing = true;
      await_companions(way, lock);
      way.last_joined = std::exchange(way.joined, 0);
      // A failed sync is final: the kernel drops the dirty state and a later sync reports success
      // for data that was never written. Everything after it is refused.
      if (!write(lock)) poisoned_.store(true, std::memory_order_release);
      way.writing = false;
      // Unlocked: whoever wakes wants the lock, and where the cores are busy it may put this thread
      // off its core for milliseconds.
      lock.unlock();
      way.finished.notify_all();
      lock.lock();
    }
    return !poisoned();
  }
  template <class Done>
  bool write_posts_until(std::unique_lock<std::mutex>& lock, Done done) {
    return write_until(posts_way_, lock, done, [this](auto& held) { return write_posts(held); });
  }
  template <class Done>
  bool write_homes_until(std::unique_lock<std::mutex>& lock, Done done) {
    return write_until(homes_way_, lock, done, [this](auto& held) { return write_homes(held); });
  }

  /// In pages that stand still while the device reads them.
  class Copy {
   public:
    explicit Copy(std::size_t bytes)
        : bytes_(bytes), memory_(static_cast<Word*>(std::aligned_alloc(kPageBytes, bytes))) {
      if (!memory_) throw std::bad_alloc();
    }
    std::size_t bytes() const { return bytes_; }
    const std::byte* at(std::size_t offset) const {
      return reinterpret_cast<const std::byte*>(memory_.get()) + offset;
    }
    void take(std::size_t to, const std::byte* from, std::size_t bytes) {
      // Word by word: other threads go on storing, and a torn word is none that they stored.
      for (std::size_t i = 0; i < bytes / kWordBytes; ++i)
        memory_.get()[to / kWordBytes + i] = load_word(reinterpret_cast<const Word*>(from) + i);
    }

   private:
    struct Free {
      void operator()(Word* memory) const { std::free(memory); }
    };
    std::size_t bytes_;
    std::unique_ptr<Word, Free> memory_;
  };

  /// The threads of the last batch were woken all at once and most are about to commit again: the
  /// first of them, who leads, gives the core to the others as long as more of them come. Without
  /// it small and large batches alternate. But where other programs want the core, it is gone for
  /// milliseconds: then the next batches do without.
  static void await_companions(Way& way, std::unique_lock<std::mutex>& lock) {
    if (way.alone_for > 0) {
      --way.alone_for;
      return;
    }
    for (std::size_t before = 0; way.joined != before && way.joined < way.last_joined;) {
      before = way.joined;
      lock.unlock();
      const auto given = std::chrono::steady_clock::now();
      std::this_thread::yield();
      const auto away = std::chrono::steady_clock::now() - given;
      lock.lock();
      if (away <= kYieldOfOne * (1 + way.joined - before)) continue;
      way.alone_for = kBatchesWithout;
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

  /// Only the leader of the posts is here; the lock is held before and after. False: the storage
  /// failed.
  bool write_posts(std::unique_lock<std::mutex>& lock) {
    std::vector<Pages> pages;
    pages.swap(posted_);
    const std::uint64_t posts = posts_;
    const std::uint64_t mark = posted_mark_;
    lock.unlock();
    join(pages);
    bool durable = true;
    // Each piece is waited for by itself: a sync would wait for home pages, too.
    for_each_piece(pages, post_copy_.bytes(), [&](const Pages& piece) {
      post_copy_.take(0, base_ + piece.begin, piece.bytes());
      durable = durable && device_.write_durable(piece.begin, post_copy_.at(0), piece.bytes());
    });
    lock.lock();
    if (!durable) return false;
    durable_posts_ = posts;
    // Release: whoever sees it need not wait.
    durable_mark_.store(mark, std::memory_order_release);
    return true;
  }

  /// The same for home pages.
  bool write_homes(std::unique_lock<std::mutex>& lock) {
    std::vector<Pages> pages;
    pages.swap(batch_);
    const std::uint64_t number = filling_++;
    lock.unlock();
    join(pages);
    bool durable = true;
    std::vector<Pages> copied;
    std::size_t bytes = 0;
    const bool only = pages.size() == 1 && pages[0].bytes() <= home_copy_.bytes();
    const auto write_copied = [&] {
      durable = durable && await_posts_so_far();
      if constexpr (requires { device_.expect(copied); })
        durable = durable && (only || device_.expect(copied));
      std::size_t from = 0;
      for (const Pages& piece : copied) {
        const std::byte* const data = home_copy_.at(std::exchange(from, from + piece.bytes()));
        durable = durable && (only ? device_.write_durable(piece.begin, data, piece.bytes())
                                   : device_.write(piece.begin, data, piece.bytes()));
      }
      copied.clear();
      bytes = 0;
    };
    for_each_piece(pages, kCopiedAtOnce, [&](const Pages& piece) {
      if (bytes + piece.bytes() > home_copy_.bytes()) write_copied();
      home_copy_.take(bytes, base_ + piece.begin, piece.bytes());
      copied.push_back(piece);
      bytes += piece.bytes();
    });
    write_copied();
    durable = durable && (only || device_.sync());
    lock.lock();
    if (durable) done_ = number;
    return durable;
  }
  bool await_posts_so_far() {
    std::unique_lock lock(mutex_);
    const std::uint64_t posts = posts_;
    return write_posts_until(lock, [&] { return durable_posts_ >= posts; });
  }
  template <class Visit>
  static void for_each_piece(const std::vector<Pages>& list, std::size_t most, Visit visit) {
    for (const Pages& pages : list) {
      for (Offset at = pages.begin; at < pages.end; at += most)
        visit(Pages{at, std::min<Offset>(pages.end, at + most)});
    }
  }

  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  /// A batch of home pages is so large at most, and what one thread adds to it last: others that
  /// bring some wait no longer than for that.
  static constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
  static constexpr std::size_t kCopiedAtOnce = std::size_t{256} << 10;

  Device device_;
  const std::byte* base_;
  const std::uint64_t id_ = next_id();
  std::atomic<bool> poisoned_{false};
  std::mutex mutex_;
  Way posts_way_;
  std::vector<Pages> posted_;
  std::uint64_t posts_ = 0;          // so far
  std::uint64_t durable_posts_ = 0;  // of these
  std::uint64_t posted_mark_ = 0;
  Shared<std::uint64_t> durable_mark_{0};
  Copy post_copy_{kCopiedAtOnce};  // the leader's
  Way homes_way_;
  std::vector<Pages> batch_;
  std::uint64_t filling_ = 1;
  std::uint64_t done_ = 0;
  Copy home_copy_{4 * kCopiedAtOnce};  // the leader's
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
