// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/page_sums.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "perdure/base/crc32c.h"
#include "perdure/region/region.h"

namespace perdure {
namespace {

constexpr std::uint64_t kReadAtOnce = std::uint64_t{1} << 20;

Offset word_at(const Superblock& super, std::uint64_t area) {
  return area_words_of(super).begin + area * kWordBytes;
}
Offset sums_at(const Superblock& super, std::uint64_t area) {
  return area_words_of(super).end() + area * kPageBytes;
}
std::uint64_t areas_up_to(Offset end) { return (end + kAreaBytes - 1) / kAreaBytes; }
/// Empty if it has been moved into the heap.
PageSums::Range roots_before_heap(const Superblock& super) {
  const Section roots = roots_of(super);
  if (is_moved(super, roots)) return {0, 0};
  return {roots.begin, roots.end()};
}
bool overlaps_roots(const Superblock& super, Offset page) {
  const Section roots = roots_of(super);
  return page >= roots.begin && page < roots.end();
}
/// The parts of an area whose pages have sums when it rests; empty ones among them. `end`: of the heap.
std::array<PageSums::Range, 2> summed_in(const Superblock& super, std::uint64_t area, Offset end) {
  const auto inside_area = [area](PageSums::Range range) -> PageSums::Range {
    const Offset begin = std::max(area * kAreaBytes, range.begin);
    return {begin, std::max(begin, std::min((area + 1) * kAreaBytes, range.end))};
  };
  return {inside_area(roots_before_heap(super)), inside_area({super.heap_offset, end})};
}
bool has_sums_in(const Superblock& super, std::uint64_t area, Offset end) {
  const auto parts = summed_in(super, area, end);
  return std::any_of(parts.begin(), parts.end(),
                     [](const PageSums::Range& part) { return part.begin < part.end; });
}

/// 0 says that there is none.
std::uint32_t sum_of(const std::byte* page) {
  const std::uint32_t crc = crc32c(page, kPageBytes);
  return crc != 0 ? crc : 1;
}

}  // namespace

PageSums::PageSums(const Region& region, Backing& backing)
    : region_(&region),
      backing_(&backing),
      super_(region.superblock()),
      roots_(roots_before_heap(super_)),
      groups_(new std::atomic<Group*>[areas_of(super_) / kWordsOfPage + 1] {}),
      chunk_(kReadAtOnce) {}

std::uint64_t PageSums::count() const { return areas_up_to(region_->grown_bytes()); }

PageSums::Span PageSums::areas_in(const Range& range) const {
  const Range heap{super_.heap_offset, super_.geometry.capacity_bytes};
  const Range& part = range.end > heap.begin ? heap : roots_;
  const Offset begin = std::max(range.begin, part.begin);
  const Offset end = std::min(range.end, part.end);
  if (begin >= end) return {0, 0};
  return {begin / kAreaBytes, areas_up_to(end)};
}

PageSums::Group& PageSums::make(std::uint64_t number) {
  if (find(number) == nullptr) {
    owned_.push_back(std::make_unique<Group>());
    groups_[number / kWordsOfPage].store(owned_.back().get(), std::memory_order_release);
  }
  return *groups_[number / kWordsOfPage].load(std::memory_order_relaxed);
}

Result<void> PageSums::load() {
  const std::lock_guard lock(mutex_);
  std::array<Word, kWordsOfPage> words{};
  for (std::uint64_t number = 0; number < count(); ++number) {
    const std::uint64_t place = number % kWordsOfPage;
    if (place == 0 && !backing_->read(word_at(super_, number), words.data(), sizeof(words)))
      return Error{Code::kIo, region_->path() + ": the words of the page sums cannot be read"};
    Area& area = make(number).areas[place];
    area.word = words[place];
    if (area.word != 0) area.state.store(State::kAtRest, std::memory_order_relaxed);
  }
  return {};
}

bool PageSums::settle(const Areas& areas) {
  const std::lock_guard lock(mutex_);
  Areas found_open;
  for (const std::uint64_t number : areas) {
    if (!std::exchange(make(number).settled, true)) found_open.push_back(number);
  }
  // Orders: the words of 0 before sums that differ. Without it a crash brings a word back that vouches
  //         for other sums.
  return found_open.empty() || (write_words(found_open) && backing_->sync(Site::kAreaOpenFence));
}

bool PageSums::open_slowly(std::span<const Range> ranges, bool track) {
  const std::lock_guard lock(mutex_);
  Areas closed;
  for (const Range& range : ranges) {
    const Span span = areas_in(range);
    for (std::uint64_t number = span.first; number < span.end; ++number) {
      Group& group = make(number);
      Area& area = group.areas[number % kWordsOfPage];
      if (area.word == 0 && group.settled) continue;
      group.settled = true;
      closed.push_back(number);
      if (area.word == 0) continue;
      const auto crc = unseal(std::exchange(area.word, 0), kSaltArea);
      area.written.store(nullptr, std::memory_order_relaxed);
      if (!track || !crc) continue;
      if (!area.owned) area.owned = std::make_unique<Written>();
      for (auto& pages : area.owned->pages) pages.store(0, std::memory_order_relaxed);
      area.owned->crc = static_cast<std::uint32_t>(*crc);
      area.written.store(area.owned.get(), std::memory_order_relaxed);
    }
  }
  // Orders: the words before the pages that are written next. Without it a crash leaves pages that
  //         differ from the sums that are vouched for.
  if (!closed.empty() && !(write_words(closed) && backing_->sync(Site::kAreaOpenFence)))
    return false;
  for (const Range& range : ranges) {
    const Span span = areas_in(range);
    for (std::uint64_t number = span.first; number < span.end; ++number)
      find(number)->state.store(State::kWritten, std::memory_order_seq_cst);
  }
  return true;
}

bool PageSums::open_all() {
  const std::array<Range, 2> all{roots_, {super_.heap_offset, region_->grown_bytes()}};
  return open_slowly(all, false);
}

void PageSums::note(const Range& range) {
  const Span span = areas_in(range);
  for (std::uint64_t number = span.first; number < span.end; ++number) {
    Written* const written = find(number)->written.load(std::memory_order_relaxed);
    if (written == nullptr) continue;
    const Offset area = number * kAreaBytes;
    const std::uint64_t first = (std::max(range.begin, area) - area) / kPageBytes;
    const std::uint64_t last = (std::min(range.end, area + kAreaBytes) - 1 - area) / kPageBytes;
    for (std::uint64_t page = first; page <= last; ++page)
      written->pages[page / 64].fetch_or(std::uint64_t{1} << page % 64, std::memory_order_relaxed);
  }
}

bool PageSums::write_words(const Areas& areas) {
  std::uint64_t last = ~std::uint64_t{0};
  for (const std::uint64_t number : areas) {
    const std::uint64_t first = round_down(number, kWordsOfPage);
    if (first == std::exchange(last, first)) continue;
    std::array<Word, kWordsOfPage> image{};
    for (std::uint64_t i = 0; i < kWordsOfPage; ++i) image[i] = find(first + i)->word;
    if (!backing_->write(word_at(super_, first), image.data(), kPageBytes)) return false;
  }
  return true;
}

bool PageSums::rest(std::uint64_t most_bytes) {
  Areas opened;
  Areas found_open;
  for (std::uint64_t number = 0; number < count(); ++number) {
    const Area* const area = find(number);
    if (area == nullptr || !has_sums_in(super_, number, region_->grown_bytes())) continue;
    const State state = area->state.load(std::memory_order_relaxed);
    if (state == State::kWritten || state == State::kQuiet) opened.push_back(number);
    if (state == State::kFoundOpen) found_open.push_back(number);
  }
  const std::uint64_t most = std::max<std::uint64_t>(most_bytes / kAreaBytes, 1);
  opened.insert(opened.end(), found_open.begin(), found_open.end());
  opened.resize(std::min(most, opened.size()));
  std::sort(opened.begin(), opened.end());
  if (opened.empty()) return true;
  for (const std::uint64_t number : opened)
    find(number)->state.store(State::kResting, std::memory_order_seq_cst);
  return let_rest(opened);
}

void PageSums::rest_quiet(std::size_t most_areas) {
  if (!may_rest_) return;  // the device is full, perhaps: it would be read in vain, again and again
  Areas quiet;
  for (std::uint64_t number = 0; number < count() && quiet.size() < most_areas; ++number) {
    Area* const area = find(number);
    if (area == nullptr || !has_sums_in(super_, number, region_->grown_bytes())) continue;
    State state = area->state.load(std::memory_order_relaxed);
    if (state == State::kWritten) {
      area->state.compare_exchange_strong(state, State::kQuiet, std::memory_order_seq_cst);
    } else if ((state == State::kQuiet || state == State::kFoundOpen) &&
               area->state.compare_exchange_strong(state, State::kResting,
                                                   std::memory_order_seq_cst)) {
      quiet.push_back(number);
    }
  }
  if (!quiet.empty()) (void)let_rest(quiet);
}

bool PageSums::let_rest(const Areas& areas) {
  // Who begins to write from here on finds the areas resting, and opens them.
  const bool alone = await_writers();
  std::vector<Word> words;
  bool done = alone && !region_->loss() && settle(areas);
  for (const std::uint64_t number : areas) {
    Sums sums{};
    done = done && sum_up(number, sums) &&
           backing_->write(sums_at(super_, number), sums.data(), sizeof(sums));
    if (!done) break;
    const std::uint32_t crc = crc32c(sums.data(), sizeof(sums));
    // Should somebody write to it meanwhile, these are the sums that hold for the other pages.
    if (Written* const written = find(number)->written.load(std::memory_order_relaxed))
      written->crc = crc;
    words.push_back(seal(crc, kSaltArea));
  }
  // Orders: the pages and their sums before the words that vouch for them.
  done = done && backing_->sync(Site::kAreaRestFence);
  may_rest_ = done || !alone;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < areas.size(); ++i) {
    Area& area = *find(areas[i]);
    State expected = State::kResting;
    const State next = done ? State::kAtRest : State::kWritten;
    if (area.state.compare_exchange_strong(expected, next, std::memory_order_seq_cst) && done)
      area.word = words[i];
  }
  // What was not written is found open the next time.
  if (done) (void)write_words(areas);
  return done;
}

bool PageSums::await_writers() const {
  // Rings that have been moved into the heap may be written without a pause.
  constexpr int kMostLooks = 1000;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    if (writers_.load(std::memory_order_seq_cst) == 0) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

bool PageSums::sum_up(std::uint64_t number, Sums& sums) {
  const Written* written = find(number)->written.load(std::memory_order_relaxed);
  if (written != nullptr && !(backing_->read(sums_at(super_, number), sums.data(), sizeof(sums)) &&
                              crc32c(sums.data(), sizeof(sums)) == written->crc)) {
    sums = {};
    written = nullptr;
  }
  const auto index = [](Offset page) { return page % kAreaBytes / kPageBytes; };
  const auto is_due = [&](Offset page) {
    const std::uint64_t i = index(page);
    return written == nullptr || sums[i] == 0 ||
           (written->pages[i / 64].load(std::memory_order_relaxed) >> i % 64 & 1) != 0;
  };
  for (const Range& part : summed_in(super_, number, region_->grown_bytes())) {
    for (Offset begin = part.begin; begin < part.end;) {
      Offset end = begin;
      while (end < part.end && end - begin < kReadAtOnce && is_due(end)) end += kPageBytes;
      if (begin == end) {
        begin += kPageBytes;
        continue;
      }
      if (!backing_->read(begin, chunk_.data(), end - begin)) return false;
      for (Offset page = begin; page < end; page += kPageBytes) {
        const bool is_other_table =
            region_->overlaps_tables(page, kPageBytes) && !overlaps_roots(super_, page);
        sums[index(page)] = is_other_table ? 0 : sum_of(chunk_.data() + (page - begin));
      }
      begin = end;
    }
  }
  return true;
}

std::string PageSumsReport::Damage::what() const {
  const std::string at = "byte " + std::to_string(offset) + ": ";
  if (in_sums) return at + "the checksums of an area of pages are damaged themselves";
  if (bytes == kPageBytes) return at + "the page there differs from its checksum";
  return at + std::to_string(bytes / kPageBytes) + " pages from there differ from their checksums";
}

namespace {

using ReadPages = std::function<Result<void>(Offset, std::byte*, std::uint64_t)>;

/// Compares pages with their sums, area by area.
class Comparison {
 public:
  Comparison(const Superblock& super, const ReadPages& read) : super_(super), read_(read) {}

  /// Of the area's parts that are not empty, of which there is at least one. Errors: those of read.
  template <class Parts>
  Result<void> area(std::uint64_t number, const Parts& parts) {
    ++report.areas;
    auto found_word = word_of(number);
    if (!found_word) return found_word.error();
    const Word word = found_word.value();
    if (word == 0) return {};
    std::vector<PageSumsReport::Damage> damage;
    std::uint64_t pages = 0;
    std::array<std::uint32_t, kAreaBytes / kPageBytes> sums{};
    if (auto got =
            read_(sums_at(super_, number), reinterpret_cast<std::byte*>(sums.data()), sizeof(sums));
        !got)
      return got;
    if (unseal(word, kSaltArea) != crc32c(sums.data(), sizeof(sums))) {
      const bool of_word = !unseal(word, kSaltArea);
      damage.push_back({of_word ? word_at(super_, number) : sums_at(super_, number),
                        of_word ? kWordBytes : kPageBytes, true});
    } else {
      for (const PageSums::Range& part : parts) {
        content_.resize(part.end - part.begin);
        if (content_.empty()) continue;
        if (auto got = read_(part.begin, content_.data(), content_.size()); !got) return got;
        for (Offset at = part.begin; at < part.end; at += kPageBytes) {
          const std::uint32_t sum = sums[at % kAreaBytes / kPageBytes];
          if (sum == 0) continue;
          ++pages;
          if (sum != sum_of(content_.data() + (at - part.begin)))
            damage.push_back({at, kPageBytes, false});
        }
      }
    }
    if (!damage.empty()) {
      // Somebody may have begun to write there.
      auto word_now = word_of(number);
      if (!word_now) return word_now.error();
      if (word_now.value() != word) return {};
    }
    ++report.areas_at_rest;
    report.pages += pages;
    for (const PageSumsReport::Damage& found : damage) tell(found);
    return {};
  }

  PageSumsReport report;

 private:
  Result<Word> word_of(std::uint64_t area) {
    constexpr std::uint64_t kWordsOfPage = kPageBytes / kWordBytes;
    std::array<Word, kWordsOfPage> words{};
    auto got = read_(word_at(super_, round_down(area, kWordsOfPage)),
                     reinterpret_cast<std::byte*>(words.data()), sizeof(words));
    if (!got) return got.error();
    return words[area % kWordsOfPage];
  }
  void tell(const PageSumsReport::Damage& found) {
    auto& all = report.damage;
    if (!all.empty() && !all.back().in_sums && !found.in_sums &&
        all.back().offset + all.back().bytes == found.offset) {
      all.back().bytes += found.bytes;
    } else {
      all.push_back(found);
    }
  }

  const Superblock& super_;
  const ReadPages& read_;
  std::vector<std::byte> content_;
};

}  // namespace

Result<PageSumsReport> check_page_sums(const Superblock& super, std::uint64_t grown_bytes,
                                       const ReadPages& read, const ShowAreas& show) {
  Comparison comparison(super, read);
  if (super.version < kPageSumsSinceVersion) return comparison.report;
  const std::uint64_t end = areas_up_to(grown_bytes);
  for (std::uint64_t area = 0; area < end; ++area) {
    if (show) show(area, end);
    if (!has_sums_in(super, area, grown_bytes)) continue;
    if (auto got = comparison.area(area, summed_in(super, area, grown_bytes)); !got)
      return got.error();
  }
  if (show) show(end, end);
  return comparison.report;
}

Result<PageSumsReport> check_sums_of_roots(const Superblock& super, const ReadPages& read) {
  Comparison comparison(super, read);
  if (super.version < kPageSumsSinceVersion) return comparison.report;
  const Section roots = roots_of(super);
  for (Offset begin = roots.begin; begin < roots.end();) {
    const Offset end = std::min(roots.end(), round_down(begin, kAreaBytes) + kAreaBytes);
    const std::array<PageSums::Range, 1> part{{{begin, end}}};
    if (auto got = comparison.area(begin / kAreaBytes, part); !got) return got.error();
    begin = end;
  }
  return comparison.report;
}

}  // namespace perdure
