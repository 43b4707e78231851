// SPDX-License-Identifier: BSD-3-Clause
// ModeChoice: which of two ways to run its transactions is the quicker one for a thread, found out by trying.
// Paper:      Blurred Persistence (TOS 2016) §3.4, BPPM-A with its dynamic strategy: a warm-up in both modes, then the better.
// Deviations: (1) Each thread chooses for itself. (2) The warm-up takes turns, so that a drift of the machine or of the
//             workload meets both modes. (3) It is repeated when transactions have become a good deal slower or quicker, not
//             after a fixed time alone.
// Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace perdure::blurred {

struct ChoiceRules {
  std::uint64_t round = 500;         // transactions between two looks at the clock
  std::uint64_t warm_up = 20;        // rounds, half of them in either mode; even, at most 64
  std::uint64_t settled = 2000;      // rounds until the next warm-up at the latest
  std::uint64_t (*now)() = nullptr;  // ns; null: the system's clock
};

class ModeChoice {
 public:
  enum class Mode : std::uint8_t { kInLog, kBuffered };

  explicit ModeChoice(const ChoiceRules& rules) : rules_(rules) {}

  /// The mode of the next transaction, after one has ended. `now` is asked once in a round.
  template <class Now>
  Mode next(Now now) {
    if (++in_round_ >= rules_.round) end_round(now());
    return mode_;
  }
  Mode mode() const { return mode_; }
  bool warming_up() const { return warming_up_; }

 private:
  /// Rounds whose median is compared: a few that something else made longer are no reason to choose again.
  static constexpr std::uint64_t kWindow = 16;

  void end_round(std::uint64_t now) {
    const std::uint64_t took = now - began_;
    const bool first = began_ == 0;
    began_ = now;
    in_round_ = 0;
    if (first) return;  // it began before the first look at the clock
    if (warming_up_) {
      took_[rounds_++] = took;
      mode_ = rounds_ % 2 == 0 ? Mode::kInLog : Mode::kBuffered;
      if (rounds_ >= rules_.warm_up) choose();
      return;
    }
    took_[rounds_ % kWindow] = took;
    const bool changed = ++rounds_ % kWindow == 0 && !is_as_before(median(0, 1, kWindow));
    if (rounds_ < rules_.settled && !changed) return;
    warming_up_ = true;
    rounds_ = 0;
    mode_ = Mode::kInLog;
  }

  void choose() {
    mode_ = median(0, 2, rounds_) <= median(1, 2, rounds_) ? Mode::kInLog : Mode::kBuffered;
    warming_up_ = false;
    rounds_ = 0;
    usual_ = 0;
  }
  /// Of the first window after a warm-up: its rounds are what others are held against. (Not those of the warm-up, in which
  /// the engine may do more.)
  bool is_as_before(std::uint64_t took) {
    if (usual_ == 0) usual_ = took;
    return took <= usual_ * 3 / 2 && took >= usual_ * 2 / 3;
  }
  /// Of every `step`-th of the first `end` rounds, from `first` on.
  std::uint64_t median(std::uint64_t first, std::uint64_t step, std::uint64_t end) const {
    std::array<std::uint64_t, kMostRounds> took{};
    std::uint64_t count = 0;
    for (std::uint64_t i = first; i < end; i += step) took[count++] = took_[i];
    std::nth_element(took.begin(), took.begin() + count / 2, took.begin() + count);
    return took[count / 2];
  }

  static constexpr std::uint64_t kMostRounds = 64;
  ChoiceRules rules_;
  Mode mode_ = Mode::kInLog;
  bool warming_up_ = true;
  std::uint64_t in_round_ = 0;
  std::uint64_t began_ = 0;   // when the round did
  std::uint64_t rounds_ = 0;  // of the warm-up, or since it
  std::uint64_t usual_ = 0;   // what a round takes since then; 0: not known yet
  std::array<std::uint64_t, kMostRounds> took_{};
};

}  // namespace perdure::blurred
