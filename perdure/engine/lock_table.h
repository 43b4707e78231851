// SPDX-License-Identifier: BSD-3-Clause
// Ownership records and the commit clock of the word STM.
// Source: TinySTM as Mnemosyne uses it (§5): locks in a global array, a global
//         timestamp counter.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "perdure/base/shared.h"
#include "perdure/base/words.h"

namespace perdure {

/// One ownership record per 64-byte line; lines that lie a multiple of the table's reach apart share
/// one. Unlocked: version << 1. Locked: the owner's address | 1.
class LockTable {
 public:
  using Orec = Shared<std::uint64_t>;

  /// Throws: std::bad_alloc.
  explicit LockTable(unsigned bits);
  ~LockTable();
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;

  Orec& of(Offset offset) const {
    static_assert(kLineBytes == 8 * sizeof(Orec), "the shift and the mask leave a record's offset");
    return *reinterpret_cast<Orec*>(reinterpret_cast<char*>(orecs_) + (offset / 8 & in_bytes_));
  }

  static bool locked(std::uint64_t word) { return (word & 1) != 0; }
  static std::uint64_t version(std::uint64_t word) { return word >> 1; }
  static std::uint64_t unlocked(std::uint64_t version) { return version << 1; }
  /// Whether it is not locked, and its version at most `version`.
  static bool is_unlocked_up_to(std::uint64_t word, std::uint64_t version) {
    return std::rotr(word, 1) <= version;  // the lock's bit is then the highest one
  }

 private:
  std::size_t bytes() const { return in_bytes_ + sizeof(Orec); }
  std::uint64_t in_bytes_;  // of the offset of a record: the last one's
  Orec* orecs_;
};

/// The commit clock, with a gate in its lowest bit. A committer draws its timestamp with one locked
/// instruction, which at the same time tells it whether a truncation has closed the gate; a
/// truncation that has closed it therefore knows that everyone with an older timestamp has
/// announced itself before (the announcement is sequenced before the draw).
class CommitClock {
 public:
  /// Requires: nobody uses the clock yet.
  void start_after(std::uint64_t last) { word_.store(last << 1, std::memory_order_relaxed); }

  /// The timestamp of the last commit that may have become visible.
  std::uint64_t now() const { return word_.load(std::memory_order_acquire) >> 1; }

  struct Draw {
    std::uint64_t timestamp;
    bool gate_closed;  // then the timestamp is void
  };
  Draw draw() {
    const std::uint64_t before = word_.fetch_add(2, std::memory_order_acq_rel);
    return {(before >> 1) + 1, (before & 1) != 0};
  }
  void close_gate() { word_.fetch_or(1, std::memory_order_acq_rel); }
  void open_gate() { word_.fetch_and(~std::uint64_t{1}, std::memory_order_release); }
  bool gate_closed() const { return (word_.load(std::memory_order_acquire) & 1) != 0; }

 private:
  // A line of its own: every committer writes it.
  alignas(kLineBytes) Shared<std::uint64_t> word_{0};
  char padding_[kLineBytes - sizeof(word_)] = {};
};

}  // namespace perdure
