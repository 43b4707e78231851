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
/// What of an area is heap.
PageSums::Range heap_in(const Superblock& super, std::uint64_t area, Offset end) {
  return {std::max(area * kAreaBytes, super.heap_offset), std::min((area + 1) * kAreaBytes, end)};
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
      groups_(new std::atomic<Group*>[areas_of(super_) / kWordsOfPage + 1] {}),
      chunk_(kReadAtOnce) {}

std::uint64_t PageSums::count() const { return areas_up_to(region_->grown_bytes()); }

PageSums::Span PageSums::areas_in(const Range& range) const {
  const Offset begin = std::max(range.begin, super_.heap_offset);
  const Offset end = std::min(range.end, super_.geometry.capacity_bytes);
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
  const Range all{0, region_->grown_bytes()};
  return open_slowly(std::span(&all, 1), false);
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
    if (area == nullptr) continue;
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
    if (area == nullptr) continue;
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
  const Range heap = heap_in(super_, number, region_->grown_bytes());
  const auto index = [](Offset page) { return page % kAreaBytes / kPageBytes; };
  const auto is_due = [&](Offset page) {
    const std::uint64_t i = index(page);
    return written == nullptr || sums[i] == 0 ||
           (written->pages[i / 64].load(std::memory_order_relaxed) >> i % 64 & 1) != 0;
  };
  for (Offset begin = heap.begin; begin < heap.end;) {
    Offset end = begin;
    while (end < heap.end && end - begin < kReadAtOnce && is_due(end)) end += kPageBytes;
    if (begin == end) {
      begin += kPageBytes;
      continue;
    }
    if (!backing_->read(begin, chunk_.data(), end - begin)) return false;
    for (Offset page = begin; page < end; page += kPageBytes) {
      const bool is_table = region_->overlaps_tables(page, kPageBytes);
      sums[index(page)] = is_table ? 0 : sum_of(chunk_.data() + (page - begin));
    }
    begin = end;
  }
  return true;
}

std::string PageSumsReport::Damage::what() const {
  const std::string at = "byte " + std::to_string(offset) + ": ";
  if (in_sums) return at + "the checksums of an area of pages are damaged themselves";
  if (bytes == kPageBytes) return at + "the page there differs from its checksum";
  return at + std::to_string(bytes / kPageBytes) + " pages from there differ from their checksums";
}

Result<PageSumsReport> check_page_sums(
    const Superblock& super, std::uint64_t grown_bytes,
    const std::function<Result<void>(Offset, std::byte*, std::uint64_t)>& read,
    const ShowAreas& show) {
  PageSumsReport report;
  if (super.version < kPageSumsSinceVersion) return report;
  const std::uint64_t first = super.heap_offset / kAreaBytes;
  const std::uint64_t end = areas_up_to(grown_bytes);
  report.areas = end - first;
  constexpr std::uint64_t kWordsOfPage = kPageBytes / kWordBytes;
  std::array<Word, kWordsOfPage> words{};
  const auto read_words = [&](std::uint64_t area) {
    return read(word_at(super, round_down(area, kWordsOfPage)),
                reinterpret_cast<std::byte*>(words.data()), sizeof(words));
  };
  std::vector<std::byte> content(kAreaBytes);
  for (std::uint64_t area = first; area < end; ++area) {
    if (show) show(area - first, report.areas);
    if (auto got = read_words(area); !got) return got.error();
    const Word word = words[area % kWordsOfPage];
    if (word == 0) continue;
    std::vector<PageSumsReport::Damage> damage;
    std::uint64_t pages = 0;
    std::array<std::uint32_t, kAreaBytes / kPageBytes> sums{};
    if (auto got =
            read(sums_at(super, area), reinterpret_cast<std::byte*>(sums.data()), sizeof(sums));
        !got)
      return got.error();
    if (unseal(word, kSaltArea) != crc32c(sums.data(), sizeof(sums))) {
      const bool of_word = !unseal(word, kSaltArea);
      damage.push_back({of_word ? word_at(super, area) : sums_at(super, area),
                        of_word ? kWordBytes : kPageBytes, true});
    } else {
      const PageSums::Range heap = heap_in(super, area, grown_bytes);
      if (auto got = read(heap.begin, content.data(), heap.end - heap.begin); !got)
        return got.error();
      for (Offset at = heap.begin; at < heap.end; at += kPageBytes) {
        const std::uint32_t sum = sums[at % kAreaBytes / kPageBytes];
        if (sum == 0) continue;
        ++pages;
        if (sum != sum_of(content.data() + (at - heap.begin)))
          damage.push_back({at, kPageBytes, false});
      }
    }
    if (!damage.empty()) {
      // Somebody may have begun to write there.
      if (auto got = read_words(area); !got) return got.error();
      if (words[area % kWordsOfPage] != word) continue;
    }
    ++report.areas_at_rest;
    report.pages += pages;
    for (const PageSumsReport::Damage& found : damage) {
      auto& all = report.damage;
      if (!all.empty() && !all.back().in_sums && !found.in_sums &&
          all.back().offset + all.back().bytes == found.offset) {
        all.back().bytes += found.bytes;
      } else {
        all.push_back(found);
      }
    }
  }
  if (show) show(report.areas, report.areas);
  return report;
}

}  // namespace perdure
