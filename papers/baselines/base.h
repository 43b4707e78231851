// SPDX-License-Identifier: BSD-3-Clause
// Base: what the papers improve on (Mnemosyne's log with a commit record; BASE of Blurred Persistence): log, wait, commit
// word, wait; home words forced at each commit. It is the library's engine with another append and another default.
#pragma once

#include "perdure/engine/redo.h"

namespace perdure::baselines {

struct CommitRecords : RecordCommits {
  static constexpr std::string_view kName = "base";
  static constexpr bool kLines = false;
  static constexpr Truncation kOnMemory = Truncation::kEachCommit;
  static constexpr Truncation kOnFiles = Truncation::kEachCommit;

  template <Domain D>
  static bool append(LogSlot& slot, D& domain, std::span<const Word> record, std::uint32_t) {
    return slot.log.tornbit()->append_in_two(domain, record);
  }
};

template <Domain D>
using Base = Redo<D, CommitRecords>;

}  // namespace perdure::baselines
