// SPDX-License-Identifier: BSD-3-Clause
// Recorded and DropNth: the domains with which the crash explorer replaces a real one.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "perdure/domain/domain.h"

namespace perdure {

/// One step of a recorded run. Words are recorded with the value that the word has afterwards.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    kStore,         // word at `offset` := value, by an ordered, cached store
    kWriteThrough,  // the same, unordered against its neighbours; done by the thread's next fence
    kFlush,         // line at `offset` is written back by the thread's next fence
    kFence,         // completes this thread's flushes and write-throughs
    kSector,        // (files) the sector at `offset` goes to the device; its bytes: sector(value)
    kSync,          // (files) the device has the `value` bytes from `offset` on (0: all)
    kMark,          // the scenario acknowledges step `value`, which must survive; next is `offset`
  };
  Kind kind;
  std::uint8_t thread;
  Site site;
  Offset offset;
  std::uint64_t value;
};

/// The steps of a run, in the order in which they happened. Threads: one at a time (scenarios take
/// turns).
class Trace {
 public:
  explicit Trace(std::byte* base) : base_(base) {}
  void add(TraceEvent::Kind kind, Site site, Offset offset, std::uint64_t value) {
    if (enabled_) events_.push_back({kind, thread(), site, offset, value});
  }
  void add_sectors(Offset offset, const std::byte* data, std::size_t bytes) {
    if (!enabled_) return;
    for (std::size_t at = 0; at < bytes; at += kSectorBytes) {
      std::array<std::byte, kSectorBytes> sector;
      std::memcpy(sector.data(), data + at, kSectorBytes);
      add(TraceEvent::Kind::kSector, Site{}, offset + at, sectors_.size());
      sectors_.push_back(sector);
    }
  }
  void mark(std::uint64_t acked, std::uint64_t next) {
    add(TraceEvent::Kind::kMark, Site{}, next, acked);
  }
  Offset offset_of(const void* address) const {
    return static_cast<Offset>(static_cast<const std::byte*>(address) - base_);
  }
  void enable(bool on) { enabled_ = on; }
  void clear() {
    events_.clear();
    sectors_.clear();
  }
  const std::vector<TraceEvent>& events() const { return events_; }
  const std::array<std::byte, kSectorBytes>& sector(std::size_t index) const {
    return sectors_[index];
  }

 private:
  static std::uint8_t thread() {
    static std::atomic<std::uint8_t> next{0};
    thread_local const std::uint8_t id = next.fetch_add(1, std::memory_order_relaxed);
    return id;
  }
  std::byte* base_;
  bool enabled_ = true;
  std::vector<TraceEvent> events_;
  std::vector<std::array<std::byte, kSectorBytes>> sectors_;
};

/// A memory domain that records every call.
class Recorded : public CachedStores {
 public:
  explicit Recorded(Trace& trace) : trace_(&trace) {}
  void store(Word* home, Word value) {
    CachedStores::store(home, value);
    trace_->add(TraceEvent::Kind::kStore, Site{}, trace_->offset_of(home), value);
  }
  void merge(Word* home, Word value, Word mask) {
    store(home, (load_word(home) & ~mask) | (value & mask));
  }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    for (std::size_t i = 0; i < count; ++i) {
      CachedStores::store(home + i, words[i]);
      trace_->add(TraceEvent::Kind::kWriteThrough, site, trace_->offset_of(home + i), words[i]);
    }
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    const Offset begin = trace_->offset_of(address);
    for (Offset line = round_down(begin, kLineBytes); line < begin + bytes; line += kLineBytes) {
      trace_->add(TraceEvent::Kind::kFlush, site, line, 0);
    }
  }
  bool fence(Site site) {
    trace_->add(TraceEvent::Kind::kFence, site, 0, 0);
    return true;
  }

 private:
  Trace* trace_;
};

/// What DropNth leaves out: a site, from its `first`-th execution on, `count` times. One per
/// explored run.
struct Omission {
  bool active = false;
  Site site{};
  std::uint64_t first = 0;
  std::uint64_t count = ~std::uint64_t{0};
  std::array<std::uint64_t, kSiteCount>
      seen{};  // executions so far, per site: which sites a scenario exercises

  bool drops(Site at) {
    const std::uint64_t index = seen[static_cast<std::size_t>(at)]++;
    return active && at == site && index >= first && index - first < count;
  }
};

/// A domain that leaves out one flush or fence, to prove that the tests notice.
template <Domain Inner>
class DropNth {
 public:
  DropNth(Omission& omission, Inner inner) : omission_(&omission), inner_(std::move(inner)) {}
  void store(Word* home, Word value) { inner_.store(home, value); }
  void merge(Word* home, Word value, Word mask) { inner_.merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    if (!omission_->drops(site)) return inner_.write_through(home, words, count, site);
    for (std::size_t i = 0; i < count; ++i) inner_.store(home + i, words[i]);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    if (!omission_->drops(site)) inner_.flush(address, bytes, site);
  }
  bool fence(Site site) { return omission_->drops(site) || inner_.fence(site); }
  bool post(Site site, std::uint64_t mark)
    requires PostingDomain<Inner>
  {
    return omission_->drops(site) || inner_.post(site, mark);
  }
  bool wait_for(std::uint64_t mark, Site site)
    requires PostingDomain<Inner>
  {
    return omission_->drops(site) || inner_.wait_for(mark, site);
  }
  const Shared<std::uint64_t>& durable_mark() const
    requires PostingDomain<Inner>
  {
    return inner_.durable_mark();
  }

 private:
  Omission* omission_;
  Inner inner_;
};

}  // namespace perdure
