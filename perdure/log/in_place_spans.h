// SPDX-License-Identifier: BSD-3-Clause
// InPlaceSpans: which words were initialised in place, and when, as the records in the logs say.
// Recovery asks it for each word that it is about to replay.
#pragma once

#include <iterator>
#include <map>

#include "perdure/base/words.h"

namespace perdure {

class InPlaceSpans {
 public:
  bool empty() const { return spans_.empty(); }

  /// Requires: no smaller timestamp than before; bytes > 0.
  void add(Offset begin, std::uint64_t bytes, std::uint64_t timestamp) {
    const Offset end = begin + bytes;
    split_at(begin);
    split_at(end);
    spans_.erase(spans_.lower_bound(begin), spans_.lower_bound(end));
    spans_.emplace(begin, Span{end, timestamp});
  }

  /// Whether the word at `offset` was initialised in place later than `timestamp`: older values of
  /// it must not be replayed.
  bool overtakes(Offset offset, std::uint64_t timestamp) const {
    const auto after = spans_.upper_bound(offset);
    if (after == spans_.begin()) return false;
    const Span& span = std::prev(after)->second;
    return offset < span.end && timestamp < span.timestamp;
  }

 private:
  struct Span {
    Offset end;
    std::uint64_t timestamp;
  };
  /// Makes two spans of the one that `at` lies inside of.
  void split_at(Offset at) {
    const auto after = spans_.upper_bound(at);
    if (after == spans_.begin()) return;
    const auto span = std::prev(after);
    if (span->first == at || span->second.end <= at) return;
    spans_.emplace(at, span->second);
    span->second.end = at;
  }

  std::map<Offset, Span> spans_;  // by begin; none overlaps another
};

}  // namespace perdure
