// SPDX-License-Identifier: BSD-3-Clause
// Base: what the papers improve on (Mnemosyne's log with a commit record; BASE of Blurred Persistence): log, wait, commit
// word, wait; home words forced at each commit. It is the library's engine with another append and another default.
// Its log goes through the cache, and each of its lines is flushed. BaseStream is the same with a log that is written past the
// cache, which is the half of what Mnemosyne gains over it; torn bits, which save the first wait, are the other.
#pragma once

#include "perdure/engine/redo.h"

namespace perdure::baselines {

/// A domain in which nothing is written past the cache.
template <Domain D>
class ThroughTheCache {
 public:
  explicit ThroughTheCache(D& domain) : domain_(&domain) {}
  void store(Word* home, Word value) { domain_->store(home, value); }
  void merge(Word* home, Word value, Word mask) { domain_->merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    for (std::size_t i = 0; i < count; ++i) domain_->store(home + i, words[i]);
    domain_->flush(home, count * kWordBytes, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    domain_->flush(address, bytes, site);
  }
  bool fence(Site site) { return domain_->fence(site); }

 private:
  D* domain_;
};

struct StreamedCommitRecords : RecordCommits {
  static constexpr std::string_view kName = "base-stream";
  static constexpr bool kLines = false;
  static constexpr Truncation kOnMemory = Truncation::kEachCommit;
  static constexpr Truncation kOnFiles = Truncation::kEachCommit;

  template <Domain D>
  static bool append(LogSlot& slot, D& domain, std::span<const Word> record, std::uint32_t) {
    return slot.log.tornbit()->append_in_two(domain, record);
  }
};

struct CommitRecords : StreamedCommitRecords {
  static constexpr std::string_view kName = "base";

  template <Domain D>
  static bool append(LogSlot& slot, D& domain, std::span<const Word> record, std::uint32_t) {
    ThroughTheCache<D> cached(domain);
    return slot.log.tornbit()->append_in_two(cached, record);
  }
};

template <Domain D>
using Base = Redo<D, CommitRecords>;
template <Domain D>
using BaseStream = Redo<D, StreamedCommitRecords>;

}  // namespace perdure::baselines
