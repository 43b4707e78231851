// SPDX-License-Identifier: BSD-3-Clause
// HotPages: decides which pages are not worth watching. The first write to a watched page costs a
// fault in each epoch; a page that changes in every epoch anyway is left alone, and compared at
// each end of an epoch.
//
//   - A page that changed in 3 epochs in a row is hot, until 2 in a row leave it as it was. At most
//     10,000 are: comparing them all takes about 5 ms.
//   - To leave some pages alone, each group of others between them is watched again by a system
//     call of its own, in the pause, and memory is walked once more: hot pages that are few, or lie
//     between all others, cost more than they save. worth_leaving() judges by what this epoch would
//     have cost.
//
// A page's state is one byte: in how many epochs in a row it changed, and the epoch, modulo 32, to
// which that refers. A count that refers to another epoch than the last one is void, so that pages
// which are not reported need no visit. (After 32 epochs of rest a page seems to have had none: it
// may be hot two epochs early.)
//
// This is also compiled into code that runs inside other programs, so it uses no library and
// allocates nothing.
#pragma once

#include <cstdint>

namespace perdure::checkpoint {

/// What a way of watching costs: the first write to a page, watching a group of pages again,
/// looking at a page.
struct WatchCosts {
  std::uint64_t fault_ns, call_ns, walk_ns;
};
// Linux 6.18 in a virtual machine. The calls more than what they take alone (1.2 us): they lengthen
// the pause, and interrupt the processors of all other threads.
inline constexpr WatchCosts kUserfaultCosts{900, 4000, 3};
inline constexpr WatchCosts kMprotectCosts{7000, 4000, 1};

/// Threads: none.
class HotPages {
 public:
  static constexpr std::uint64_t kMost = 10'000;

  /// `states`: a byte for each page, zeros at first; the caller's.
  explicit HotPages(std::uint8_t* states, const WatchCosts& costs = kUserfaultCosts)
      : states_(states), costs_(costs) {}

  /// Begins the end of an epoch. Then note() is called for each page that was written, and for each
  /// that was not watched.
  void begin_epoch() {
    epoch_ = static_cast<std::uint8_t>((epoch_ + 1) % kEpochs);
    hot_ = groups_ = first_ = last_ = 0;
    after_others_ = false;
  }

  /// Returns whether the page is hot, after it `changed` in this epoch or not. Requires: calls in
  /// the order of pages.
  bool note(std::uint64_t page, bool changed) {
    const std::uint8_t before = states_[page];
    const bool current = (before & kEpochMask) == (epoch_ + kEpochs - 1) % kEpochs;
    unsigned streak = current ? before >> kStreakShift : 0;
    const bool was_idle = current && (before & kIdle) != 0;
    const bool idle = !changed && streak == kHotStreak && !was_idle;
    if (changed) {
      streak = streak < kHotStreak ? streak + 1 : kHotStreak;
    } else if (!idle) {
      streak = 0;
    }
    if (streak == kHotStreak && hot_ == kMost) streak = kHotStreak - 1;
    states_[page] = static_cast<std::uint8_t>(streak << kStreakShift | (idle ? kIdle : 0) | epoch_);

    const bool hot = streak == kHotStreak;
    hot_ += hot ? 1 : 0;
    groups_ += !hot && !after_others_ ? 1 : 0;
    after_others_ = !hot;
    if (first_ == last_) first_ = page;
    last_ = page + 1;
    return hot;
  }

  /// What note() returned for a page in this epoch. Requires: it was noted.
  bool hot(std::uint64_t page) const { return states_[page] >> kStreakShift == kHotStreak; }

  /// How many pages are hot in this epoch.
  std::uint64_t count() const { return hot_; }
  /// Whether leaving them alone is cheaper than their faults.
  bool worth_leaving() const {
    return hot_ * costs_.fault_ns > groups_ * costs_.call_ns + (last_ - first_) * costs_.walk_ns;
  }

 private:
  static constexpr unsigned kStreakShift = 6;
  static constexpr unsigned kHotStreak = 3;
  static constexpr std::uint8_t kIdle = 1 << 5;  // hot, and did not change in the last epoch
  static constexpr std::uint8_t kEpochs = 32;
  static constexpr std::uint8_t kEpochMask = kEpochs - 1;

  std::uint8_t* states_;
  WatchCosts costs_;
  std::uint8_t epoch_ = 0;
  bool after_others_ = false;
  std::uint64_t hot_ = 0;
  std::uint64_t groups_ = 0;  // of pages that are not hot, as noted
  std::uint64_t first_ = 0, last_ = 0;
};

}  // namespace perdure::checkpoint
