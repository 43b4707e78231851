// SPDX-License-Identifier: BSD-3-Clause
// PrivatePages: which pages of a private mapping hold stores of their own, and which of those may
// go back to the system.
//
// A private mapping shows what is at home (the file, or the memory under it) until a page is stored
// to; from then on the page is a copy in DRAM, which only this process sees. That is SoftWrAP's
// alias table without a table: the processor looks up what is committed and not home. When
// everything stored in a page is home as well, the page is given back, and shows home again.
//
// An entry for each page says when the page was last stored to, as a *generation*, and how many
// *pins* it has. A thread that writes home begins a generation before it looks which commits it
// takes home:
//   1. begin a generation            a commit that comes later marks its pages with this one
//   2. wait for the commits under way; write home what they and those before them stored
//   3. give back                     pages of an older generation, without a pin
// A page that was stored to outside commits has a pin until that is home.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "perdure/base/words.h"

namespace perdure {

/// Threads: any; steps 1 to 3 one at a time.
class PrivatePages {
 public:
  /// Manages [base + begin, base + end), whole pages, privately mapped over the bytes of their
  /// home. Pages are given back when there are more than half of `most`, not counting pinned ones.
  /// Throws: std::bad_alloc.
  PrivatePages(std::byte* base, Offset begin, Offset end, std::uint64_t most);
  ~PrivatePages();
  PrivatePages(const PrivatePages&) = delete;
  PrivatePages& operator=(const PrivatePages&) = delete;

  bool contains(const void* address) const { return page_of(address) < pages_; }

  /// Called before a commit stores there. Requires: contains(); the commit's timestamp is drawn.
  void mark(const void* address) {
    std::atomic<std::uint32_t>& entry = entries_[page_of(address)];
    const std::uint32_t seen = entry.load(std::memory_order_relaxed);
    if ((seen & ~kPins) != generation_.load(std::memory_order_relaxed)) mark_anew(entry);
  }
  /// Keeps the pages of the bytes until unpin(). A page with too many pins is kept for good.
  /// Requires: contains().
  void pin(const void* address, std::size_t bytes);
  void unpin(const void* address, std::size_t bytes);

  /// How many pages are private now, or were a moment ago.
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  /// Whether it is time to give some back; and whether a commit should wait for that. Pages that
  /// have to stay do not count.
  bool are_many() const { return are_more_than(most_ / 2); }
  bool are_too_many() const { return are_more_than(most_); }

  void begin_generation();  // step 1
  /// Step 3, if there are many: first those that were not stored to for a while.   Returns how many
  /// went.
  std::uint64_t give_back();
  /// Gives back all pages that lie in the bytes as a whole and have no pin, and what the system has
  /// mapped there of the file.
  /// Requires: contains(); what was stored there is home, and nobody stores there meanwhile; as step 3.
  void give_back_within(const void* address, std::size_t bytes);

 private:
  // An entry: 0 for a page that shows its home; kGoing; or a generation above the pins.
  static constexpr std::uint32_t kPins = 0x3ff;
  static constexpr std::uint32_t kForGood = kPins;
  static constexpr std::uint32_t kGoing = 1;
  static constexpr std::uint32_t kOneGeneration = kPins + 1;
  static std::uint32_t after(std::uint32_t generation) {
    const std::uint32_t next = generation + kOneGeneration;
    return next != 0 ? next : kOneGeneration;
  }

  std::uint64_t page_of(const void* address) const {
    // Before the first page: a very large number.
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - first_) / kPageBytes;
  }
  void mark_anew(std::atomic<std::uint32_t>& entry);
  /// `change` makes the entry's next value of one that is a generation with pins.
  template <class Change>
  void update(std::atomic<std::uint32_t>& entry, Change change);
  template <class Change>
  void update_all(const void* address, std::size_t bytes, Change change);
  bool are_more_than(std::uint64_t pages) const {
    return count() > pinned_.load(std::memory_order_relaxed) + pages &&
           !stuck_.load(std::memory_order_relaxed);
  }
  /// Gives back those of the first `count` candidates whose generation `may_go`, and returns how
  /// many stay.
  template <class MayGo>
  std::uint64_t give_back_some(std::uint64_t count, MayGo may_go);
  /// Ascending pages, whose entries are kGoing.
  void give_back_now(const std::uint32_t* going, std::uint64_t count);

  std::byte* first_;
  std::uint64_t pages_;
  const std::uint64_t most_;
  // Three arrays with a place for each page: nothing here may lack memory while a commit stores.
  std::atomic<std::uint32_t>* entries_;
  std::uint32_t*
      private_;  // the first listed_: each page whose entry is not 0, or soon; under mutex_
  std::uint32_t* candidates_;  // of the thread that gives pages back
  std::uint64_t listed_ = 0;
  std::mutex mutex_;
  std::atomic<std::uint32_t> generation_{kOneGeneration};
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> pinned_{0};
  std::atomic<bool> stuck_{false};  // the system takes nothing back (locked memory)
};

}  // namespace perdure
