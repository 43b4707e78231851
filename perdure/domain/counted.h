// SPDX-License-Identifier: BSD-3-Clause
// Counted: a domain that counts its calls, so that documented costs can be tested.
#pragma once

#include <atomic>
#include <utility>

#include "perdure/domain/domain.h"

namespace perdure {

/// The calls of one thread, or of all threads together. Units are lines on memory, pages on files.
struct DomainCounts {
  std::uint64_t stores = 0;
  std::uint64_t written_words = 0;  // by write_through
  std::uint64_t flushes = 0;  // line write-backs started: flush() and the lines of write_through()
  std::uint64_t fences = 0;

  DomainCounts operator-(const DomainCounts& other) const {
    return {stores - other.stores, written_words - other.written_words, flushes - other.flushes,
            fences - other.fences};
  }
  /// Bytes handed to persistent memory by the program (line amplification not included).
  std::uint64_t bytes() const { return (stores + written_words) * kWordBytes; }
};

/// The counters of a process. Relaxed atomics: the sums are read while other threads run.
class DomainCounters {
 public:
  void add(std::uint64_t stores, std::uint64_t words, std::uint64_t flushes, std::uint64_t fences) {
    Slot& slot = mine();
    bump(slot.stores, stores);
    bump(slot.words, words);
    bump(slot.flushes, flushes);
    bump(slot.fences, fences);
  }
  DomainCounts total() const {
    DomainCounts sum;
    for (const Slot& slot : slots_) {
      sum.stores += slot.stores.load(std::memory_order_relaxed);
      sum.written_words += slot.words.load(std::memory_order_relaxed);
      sum.flushes += slot.flushes.load(std::memory_order_relaxed);
      sum.fences += slot.fences.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static constexpr std::size_t kSlots = 64;
  struct alignas(kLineBytes) Slot {
    std::atomic<std::uint64_t> stores{0}, words{0}, flushes{0}, fences{0};
  };
  static void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    if (by != 0) counter.fetch_add(by, std::memory_order_relaxed);
  }
  Slot& mine() {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t index = next.fetch_add(1, std::memory_order_relaxed) % kSlots;
    return slots_[index];
  }
  Slot slots_[kSlots];
};

template <Domain Inner>
class Counted {
 public:
  template <class... Args>
  explicit Counted(DomainCounters& counters, Args&&... args)
      : inner_(std::forward<Args>(args)...), counters_(&counters) {}

  void store(Word* home, Word value) {
    counters_->add(1, 0, 0, 0);
    inner_.store(home, value);
  }
  void merge(Word* home, Word value, Word mask) {
    counters_->add(1, 0, 0, 0);
    inner_.merge(home, value, mask);
  }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    counters_->add(0, count, lines(home, count * kWordBytes), 0);
    inner_.write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    counters_->add(0, 0, lines(address, bytes), 0);
    inner_.flush(address, bytes, site);
  }
  bool fence(Site site) {
    counters_->add(0, 0, 0, 1);
    return inner_.fence(site);
  }
  bool post(Site site, std::uint64_t mark)
    requires PostingDomain<Inner>
  {
    return inner_.post(site, mark);
  }
  bool wait_for(std::uint64_t mark, Site site)
    requires PostingDomain<Inner>
  {
    counters_->add(0, 0, 0, 1);
    return inner_.wait_for(mark, site);
  }
  const Shared<std::uint64_t>& durable_mark() const
    requires PostingDomain<Inner>
  {
    return inner_.durable_mark();
  }

 private:
  static std::uint64_t lines(const void* address, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(address) / kLineBytes;
    const auto last = (reinterpret_cast<std::uintptr_t>(address) + bytes - 1) / kLineBytes;
    return last - first + 1;
  }
  [[no_unique_address]] Inner inner_;
  DomainCounters* counters_;
};

}  // namespace perdure
