// SPDX-License-Identifier: BSD-3-Clause
// PageSums: checksums of what is at rest in a pool's heap and in its table of roots, so that a byte that
//           the storage changed is found, wherever it is.
//
// The file is divided into areas of 4 MiB. An area is *open* as long as its pages may be written; then
// its word is 0. It is *at rest* when its word vouches for its page of sums, which has the CRC32C of
// each of its pages. So a program pays for sums when it comes to an area that was at rest, and when it
// leaves it, but not for what it writes in between:
//   1. open    the word becomes 0, durably, before a page of the area is written
//              crash here ⇒ the area has no sums until it rests again
//              (a word that is found to be 0 may be so in caches only, because of a kill)
//   2. pages are written, any number of times, by anything
//   3. rest    the pages are read as the file has them, their sums are written; sync, which makes the
//              pages durable, too
//              crash here ⇒ sums for which no word vouches
//   4.         the word vouches for them, if nobody has opened the area since; nobody waits for it
//              crash here ⇒ either
// So in every image that a crash may leave, each page that has a sum agrees with it.
//
// The pages of an area that are not written while it is open keep the sums that they had, whatever the
// storage makes of them meanwhile. Where nobody knows what was written (on memory, or because of
// a crash) step 3 reads them all.
//
// A page of another table, or behind the heap's end, has the sum 0: none.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "perdure/base/words.h"
#include "perdure/error.h"
#include "perdure/region/layout.h"

namespace perdure {

class Backing;
class Region;

class PageSums {
 public:
  struct Range {
    Offset begin;
    Offset end;
  };

  /// For a region that may be written. Nothing is written by anybody else while it lives.
  PageSums(const Region& region, Backing& backing);

  /// Reads which areas are at rest.   Errors: kIo.
  Result<void> load();

  /// As long as it lives, [offset, offset + bytes) may be written, if may() says so; if not, the
  /// storage failed. Null: there are no sums.   Threads: any.   Cost: two atomic additions, a load for
  /// each area, and a sync if one of them is at rest.
  class Writing {
   public:
    Writing(PageSums* sums, Offset offset, std::uint64_t bytes) {
      // Logs are written all the time.
      if (sums == nullptr || !sums->concerns(offset, offset + bytes)) return;
      sums_ = sums;
      // Before the look at the areas, as rest() looks for writers after it has marked them.
      sums_->writers_.fetch_add(1, std::memory_order_seq_cst);
      const Range range{offset, offset + bytes};
      may_ = sums_->open(std::span(&range, 1));
      if (may_) sums_->note(range);
    }
    ~Writing() {
      if (sums_ != nullptr) sums_->writers_.fetch_sub(1, std::memory_order_release);
    }
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;
    bool may() const { return may_; }

   private:
    PageSums* sums_ = nullptr;
    bool may_ = true;
  };

  /// Opens the areas of all the ranges with one sync, for writes that come soon. False: the storage
  /// failed.   Threads: any.
  bool open(std::span<const Range> ranges) {
    for (const Range& range : ranges) {
      if (!is_open(range)) return open_slowly(ranges, true);
    }
    return true;
  }
  /// The same for all that has sums: of a writer that cannot tell where it writes.
  bool open_all();

  /// Lets all rest that was opened and then, as far as `most_bytes` go, what a crash or an earlier
  /// program has left open.   False: they stay open, as something could not be read or written.
  /// Requires: what was stored is home.
  bool rest(std::uint64_t most_bytes);
  /// Lets up to so many areas rest to which nobody has written since the last call but one.
  /// Threads: one.
  void rest_quiet(std::size_t most_areas);

 private:
  enum class State : std::uint8_t {
    kFoundOpen,  // and not written since
    kWritten,
    kQuiet,  // not written since rest_quiet() looked
    kResting,
    kAtRest,
  };
  using Areas = std::vector<std::uint64_t>;
  static constexpr std::uint64_t kPagesOfArea = kAreaBytes / kPageBytes;
  static constexpr std::uint64_t kWordsOfPage = kPageBytes / kWordBytes;
  using Sums = std::array<std::uint32_t, kPagesOfArea>;
  static_assert(sizeof(Sums) == kPageBytes);

  /// What was written of an area that was at rest. Never freed while the pool is open.
  struct Written {
    std::array<std::atomic<std::uint64_t>, kPagesOfArea / 64> pages{};  // a bit each
    std::uint32_t crc = 0;  // of the sums that hold for the others
  };
  struct Area {
    std::atomic<State> state{State::kFoundOpen};
    std::atomic<Written*> written{nullptr};  // null: nobody knows
    std::unique_ptr<Written> owned;          // under mutex_
    Word word = 0;                           // as the file has it; under mutex_
  };
  /// Those whose words stand in one page.
  struct Group {
    std::array<Area, kWordsOfPage> areas;
    bool settled = false;  // what words of 0 say is durable; under mutex_
  };

  bool concerns(Offset begin, Offset end) const {
    return end > super_.heap_offset || (begin < roots_.end && end > roots_.begin);
  }
  /// The areas in which a range has bytes that have sums, as numbers from `first` up to `end`.
  /// Requires: it does not go on from the tables into the heap.
  struct Span {
    std::uint64_t first;
    std::uint64_t end;
  };
  Span areas_in(const Range& range) const;
  /// Null: the pool has grown by it, and nobody has written to it or its neighbours.
  Area* find(std::uint64_t number) const {
    Group* const group = groups_[number / kWordsOfPage].load(std::memory_order_acquire);
    return group != nullptr ? &group->areas[number % kWordsOfPage] : nullptr;
  }
  bool is_open(const Range& range) const {
    const Span span = areas_in(range);
    for (std::uint64_t number = span.first; number < span.end; ++number) {
      const Area* const area = find(number);
      if (area == nullptr || area->state.load(std::memory_order_seq_cst) != State::kWritten)
        return false;
    }
    return true;
  }
  /// `track`: whether note() will be told what is written.
  bool open_slowly(std::span<const Range> ranges, bool track);
  void note(const Range& range);
  /// The group of an area, which is there from then on. Requires: mutex_.
  Group& make(std::uint64_t number);
  /// Words of areas that were found open are made durable: sums that no longer hold must not be written
  /// while they may come back.   False: the storage failed.
  bool settle(const Areas& areas);
  /// How many areas there are up to the end of the heap.
  std::uint64_t count() const;
  /// False: they stay open.
  bool let_rest(const Areas& areas);
  /// Waits until nobody is writing who began before.   False: they are too many.
  bool await_writers() const;
  /// What the page of sums of an area becomes.   False: it cannot be told.
  bool sum_up(std::uint64_t number, Sums& sums);
  /// Writes the pages that have the words of the areas. Waits for nothing. Requires: mutex_.
  bool write_words(const Areas& areas);

  const Region* region_;
  Backing* backing_;
  const Superblock super_;
  const Range roots_;  // empty if they lie in the heap
  std::unique_ptr<std::atomic<Group*>[]> groups_;
  std::vector<std::unique_ptr<Group>> owned_;  // under mutex_
  std::atomic<std::uint64_t> writers_{0};
  std::mutex mutex_;
  std::vector<std::byte> chunk_;
  bool may_rest_ = true;  // no write has failed
};

using ShowAreas = std::function<void(std::uint64_t done, std::uint64_t all)>;

/// What check_page_sums() finds.
struct PageSumsReport {
  std::uint64_t areas = 0;          // of the heap as far as it is in use, and of the roots
  std::uint64_t areas_at_rest = 0;  // of these
  std::uint64_t pages = 0;          // that have a sum
  struct Damage {
    Offset offset;
    std::uint64_t bytes;
    bool in_sums;  // of the sums themselves: what they say of their area's pages is not known
    /// "byte N: ...", for people.
    std::string what() const;
  };
  std::vector<Damage> damage;  // in order, joined where it adjoins
};
/// Compares all pages that have a sum with it. `read`: whole pages of the file, which somebody may be
/// writing meanwhile: an area that is opened on the way is left out. `show`: may be null.
/// Errors: those of `read`.
Result<PageSumsReport> check_page_sums(
    const Superblock& super, std::uint64_t grown_bytes,
    const std::function<Result<void>(Offset, std::byte*, std::uint64_t)>& read,
    const ShowAreas& show = nullptr);
/// The same of the table of roots alone, which is so small that whoever opens a pool can compare it: an
/// entry that was lost would look like one that was never made.
Result<PageSumsReport> check_sums_of_roots(
    const Superblock& super,
    const std::function<Result<void>(Offset, std::byte*, std::uint64_t)>& read);

}  // namespace perdure
