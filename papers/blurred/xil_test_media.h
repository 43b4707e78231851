// SPDX-License-Identifier: BSD-3-Clause
// CachedLines: a domain for tests that knows what a power cut may leave: of each line a prefix of the stores to it, of
// words written through any (docs/CRASH_MODEL.md). Unlike the explorer's media it may be asked for any image at once.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <vector>

#include "papers/blurred/xil_log.h"
#include "perdure/domain/domain.h"

namespace perdure {

/// A ring's words, on a line.
class RingWords {
 public:
  explicit RingWords(std::uint64_t records) : lines_(records * xil::kRecordBytes / kLineBytes) {}
  Word* begin() { return lines_.front().words; }
  Word& operator[](std::uint64_t index) { return begin()[index]; }
  std::uint64_t size() const { return lines_.size() * kWordsPerLine; }
  Ring ring() { return {begin(), size(), nullptr}; }

  static constexpr std::uint64_t kWordsPerLine = kLineBytes / kWordBytes;

 private:
  struct alignas(kLineBytes) Line {
    Word words[kWordsPerLine] = {};
  };
  std::vector<Line> lines_;
};

class CachedLines {
 public:
  explicit CachedLines(RingWords& memory) : memory_(&memory), media_(memory) {}

  // ---- the domain -------------------------------------------------------------------------------
  void store(Word* home, Word value) {
    *home = value;
    line_of(home).stores.push_back({index_of(home), value});
  }
  void merge(Word* home, Word value, Word mask) { store(home, (*home & ~mask) | (value & mask)); }
  void write_through(Word* home, const Word* words, std::size_t count, Site) {
    for (std::size_t i = 0; i < count; ++i) {
      home[i] = words[i];
      through_.push_back({index_of(home + i), words[i]});
    }
  }
  void flush(const void* address, std::size_t bytes, Site) {
    const auto first = index_of(static_cast<const Word*>(address)) / RingWords::kWordsPerLine;
    const auto last = (index_of(static_cast<const Word*>(address)) + bytes / kWordBytes - 1) /
                      RingWords::kWordsPerLine;
    for (auto line = first; line <= last; ++line) {
      if (const auto found = lines_.find(line); found != lines_.end())
        found->second.flushed = found->second.stores.size();
    }
  }
  bool fence(Site) {
    ++fences;
    if (power_fails) return true;
    for (auto& [index, line] : lines_) settle(line, line.flushed);
    for (const Store& store : through_) media_[store.index] = store.value;
    through_.clear();
    return true;
  }

  // ---- the power --------------------------------------------------------------------------------
  /// The cache writes some lines back, as it likes.
  void evict(std::mt19937_64& random) {
    for (auto& [index, line] : lines_) {
      if (random() % 4 == 0) settle(line, random() % (line.stores.size() + 1));
    }
  }
  /// What a cut at this moment leaves when of each line the chosen number of stores arrived, and of the words written
  /// through those whose bit is set.
  RingWords cut(const std::vector<std::size_t>& arrived, std::uint64_t through = 0) const {
    RingWords image = media_;
    std::size_t i = 0;
    for (const auto& [index, line] : lines_) {
      for (std::size_t j = 0; j < arrived[i]; ++j)
        image[line.stores[j].index] = line.stores[j].value;
      ++i;
    }
    for (std::size_t j = 0; j < through_.size(); ++j) {
      if ((through >> j % 64 & 1) != 0) image[through_[j].index] = through_[j].value;
    }
    return image;
  }
  RingWords cut(std::mt19937_64& random) const {
    std::vector<std::size_t> arrived;
    const std::uint64_t eager = random() % 3;  // few lines arrive, or many
    for (const auto& [index, line] : lines_) {
      const std::size_t all = line.stores.size();
      arrived.push_back(random() % 3 < eager ? all : random() % (all + 1));
    }
    return cut(arrived, random());
  }
  /// Calls visit(image) for every cut possible now. Requires: nothing written through is on its way.
  template <class Visit>
  std::uint64_t every_cut(Visit visit) const {
    std::vector<std::size_t> arrived(lines_.size(), 0);
    for (std::uint64_t count = 1;; ++count) {
      visit(cut(arrived));
      std::size_t i = 0;
      auto line = lines_.begin();
      while (i < arrived.size() && arrived[i] == line->second.stores.size()) {
        arrived[i++] = 0;
        ++line;
      }
      if (i == arrived.size()) return count;
      ++arrived[i];
    }
  }
  /// What a cut leaves for certain.
  RingWords certain() const { return media_; }

  std::uint64_t fences = 0;
  bool power_fails = false;  // before the next fence completes

 private:
  struct Store {
    std::uint64_t index;
    Word value;
  };
  struct Line {
    std::vector<Store> stores;  // on their way
    std::size_t flushed = 0;    // how many of them the next fence completes
  };
  std::uint64_t index_of(const Word* word) const {
    return static_cast<std::uint64_t>(word - memory_->begin());
  }
  Line& line_of(const Word* word) { return lines_[index_of(word) / RingWords::kWordsPerLine]; }
  void settle(Line& line, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) media_[line.stores[i].index] = line.stores[i].value;
    line.stores.erase(line.stores.begin(),
                      line.stores.begin() + static_cast<std::ptrdiff_t>(count));
    line.flushed -= std::min(line.flushed, count);
  }

  RingWords* memory_;
  RingWords media_;
  std::map<std::uint64_t, Line> lines_;
  std::vector<Store> through_;
};
static_assert(Domain<CachedLines>);

/// Opens the log as after a restart: what recovery does, then a fence.
template <Domain D>
XilLog open_xil(D& domain, const Ring& ring, std::uint64_t retired) {
  XilLog log(ring, scan_xil(ring, retired));
  log.adopt(domain);
  (void)domain.fence(Site::kAdoptFence);
  log.settle(domain);
  (void)domain.fence(Site::kEraseFence);
  return log;
}

/// A commit and its wait.
template <Domain D>
bool commit(XilLog& log, D& domain, std::uint64_t timestamp) {
  log.commit(domain, timestamp);
  return log.make_durable(domain);
}

/// A transaction as a test remembers it: what it wrote, in order.
struct RememberedUpdate {
  Offset address;
  Word value;
  std::uint8_t bytes;
  bool operator==(const RememberedUpdate&) const = default;
};
struct Remembered {
  std::uint64_t timestamp;
  std::vector<RememberedUpdate> updates;
  bool operator==(const Remembered&) const = default;
};

inline std::vector<Remembered> read_all(const Ring& ring, const XilScan& scan) {
  std::vector<Remembered> found;
  for (const XilTransaction& transaction : scan.transactions) {
    found.push_back({transaction.timestamp, {}});
    for_each_update(ring, transaction, [&](const xil::Update& update) {
      found.back().updates.push_back({update.address, update.value, update.bytes});
    });
  }
  return found;
}

inline std::vector<RememberedUpdate> append_random(auto& domain, XilLog& log,
                                                   std::mt19937_64& random, std::uint64_t count) {
  std::vector<RememberedUpdate> updates;
  for (std::uint64_t i = 0; i < count; ++i) {
    updates.push_back({(random() & kMax48) / 8 * 8, random(), static_cast<std::uint8_t>(random())});
    log.append(domain, updates.back().address, updates.back().value, updates.back().bytes);
  }
  return updates;
}

/// A log of 32 records into its second lap at least, so that old records lie behind its end; `start` moves where.
struct UsedLog {
  explicit UsedLog(std::uint64_t start) : memory(32), domain(memory), random(start) {
    XilLog log = open_xil(domain, memory.ring(), 0);
    while (log.begin() < 3 * 32 + start) {
      append_random(domain, log, random, 1 + random() % 3);
      (void)commit(log, domain, ++timestamp);
      drop(log);
    }
    first = {++timestamp, append_random(domain, log, random, 1)};
    (void)commit(log, domain, timestamp);
    retired = timestamp - 1;
    opened.emplace(std::move(log));
  }
  XilLog& log() { return *opened; }
  void drop(XilLog& log) {
    log.reset_holes(domain, log.begin());
    (void)domain.fence(Site::kTruncateHome);
    log.truncate_to(log.begin());
  }

  RingWords memory;
  CachedLines domain;
  std::mt19937_64 random;
  std::uint64_t timestamp = 0;
  std::uint64_t retired = 0;
  Remembered first;  // committed, not retired
  std::optional<XilLog> opened;
};

}  // namespace perdure
