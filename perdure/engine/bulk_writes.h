// SPDX-License-Identifier: BSD-3-Clause
// BulkWrites: the long runs of whole words that one transaction writes, each word once, in order of
// place. A word takes its eight bytes; in a WriteSet it takes six times as much, with its index and
// its place in the record.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "perdure/base/growing_array.h"
#include "perdure/base/words.h"
#include "perdure/log/record.h"

namespace perdure {

/// Threads: one.
class BulkWrites {
 public:
  struct Run {
    Offset begin;
    std::uint64_t count;  // of words, at most those of one entry of a record
    Word* words;
    Offset end() const { return begin + count * kWordBytes; }
  };

  BulkWrites() = default;
  ~BulkWrites() {
    for (const Block& block : blocks_) give_back(block);
  }
  BulkWrites(const BulkWrites&) = delete;
  BulkWrites& operator=(const BulkWrites&) = delete;

  bool empty() const { return runs_.empty(); }
  /// In order of place. None touches another's words.
  const GrowingArray<Run>& runs() const { return runs_; }
  /// That their entries in a record take.
  std::uint64_t entry_words() const { return runs_.size() + words_; }

  /// The word at an aligned offset, or null. Holds until the next put() or clear().
  Word* find(Offset at) {
    if (last_ >= runs_.size() || at - runs_[last_].begin >= runs_[last_].count * kWordBytes) {
      const std::size_t next = first_behind(at);
      if (next == 0 || at >= runs_[next - 1].end()) return nullptr;
      last_ = next - 1;
    }
    return runs_[last_].words + (at - runs_[last_].begin) / kWordBytes;
  }

  /// Writes `count` words from `from`, which need not be aligned, at an aligned offset.
  /// Throws: std::bad_alloc; some of them may be written then.
  void put(Offset at, const char* from, std::uint64_t count) {
    while (count > 0) {
      const std::size_t next = first_behind(at);
      std::uint64_t here = 0;
      if (next > 0 && at < runs_[next - 1].end()) {
        const Run& run = runs_[next - 1];
        here = std::min(count, (run.end() - at) / kWordBytes);
        std::memcpy(run.words + (at - run.begin) / kWordBytes, from, here * kWordBytes);
      } else {
        const std::uint64_t gap =
            next < runs_.size() ? (runs_[next].begin - at) / kWordBytes : count;
        here = add(next, at, from, std::min(count, gap));
      }
      at += here * kWordBytes;
      from += here * kWordBytes;
      count -= here;
    }
  }

  /// Keeps memory for a run or two.
  void clear() {
    runs_.clear();
    words_ = 0;
    used_ = 0;
    while (blocks_.size() > 1) {
      give_back(blocks_.back());
      blocks_.pop_back();
    }
  }

 private:
  /// From the system, which gets it back at once: the allocator might keep it.
  struct Block {
    Word* words;
    std::uint64_t count;
  };
  static constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

  /// The first is small. Who needs a second needs many: they are huge pages where the system has
  /// some, which are faulted in once for 512 small ones.
  static Block new_block(bool first) {
    const std::uint64_t bytes = first ? record::kMaxRun * kWordBytes : kHugePageBytes;
    const std::uint64_t mapped = first ? bytes : 2 * bytes;
    void* const memory =
        ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (first) return {static_cast<Word*>(memory), bytes / kWordBytes};
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    const std::uint64_t before = round_up(at, bytes) - at;
    std::byte* const begin = static_cast<std::byte*>(memory) + before;
    if (before > 0) ::munmap(memory, before);
    if (before < bytes) ::munmap(begin + bytes, bytes - before);
    ::madvise(begin, bytes, MADV_HUGEPAGE);
    return {reinterpret_cast<Word*>(begin), bytes / kWordBytes};
  }
  static void give_back(const Block& block) { ::munmap(block.words, block.count * kWordBytes); }

  /// The index of the first run that begins behind `at`.
  std::size_t first_behind(Offset at) const {
    // Who writes or reads in order finds it at the end.
    if (runs_.empty() || runs_.back().begin <= at) return runs_.size();
    return static_cast<std::size_t>(
        std::upper_bound(runs_.begin(), runs_.end(), at,
                         [](Offset offset, const Run& run) { return offset < run.begin; }) -
        runs_.begin());
  }

  /// Adds the first words of a gap in front of run `next`, and returns how many.
  std::uint64_t add(std::size_t next, Offset at, const char* from, std::uint64_t count) {
    if (blocks_.empty() || used_ == blocks_.back().count) {
      blocks_.reserve(blocks_.size() + 1);
      blocks_.push_back(new_block(blocks_.empty()));
      used_ = 0;
    }
    Word* const to = blocks_.back().words + used_;
    count = std::min(count, blocks_.back().count - used_);
    Run* const before = next > 0 ? &runs_[next - 1] : nullptr;
    if (before != nullptr && before->end() == at && before->words + before->count == to &&
        before->count < record::kMaxRun) {
      count = std::min(count, record::kMaxRun - before->count);
      before->count += count;
    } else {
      count = std::min<std::uint64_t>(count, record::kMaxRun);
      runs_.append();
      std::memmove(runs_.begin() + next + 1, runs_.begin() + next,
                   (runs_.size() - 1 - next) * sizeof(Run));
      runs_[next] = {at, count, to};
    }
    std::memcpy(to, from, count * kWordBytes);
    used_ += count;
    words_ += count;
    return count;
  }

  GrowingArray<Run> runs_;
  GrowingArray<Block> blocks_;
  std::uint64_t used_ = 0;  // words of the last block
  std::uint64_t words_ = 0;
  std::size_t last_ = 0;  // the run that was found last
};

}  // namespace perdure
