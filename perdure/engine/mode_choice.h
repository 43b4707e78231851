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

namespace perdure {

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
  /// A round in which something else took this much longer is no reason to choose again.
  static constexpr std::uint64_t kChangedRounds = 4;

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
    const bool as_chosen = took < chosen_took_ * 3 / 2 && took > chosen_took_ * 2 / 3;
    changed_ = as_chosen ? 0 : changed_ + 1;
    if (++rounds_ < rules_.settled && changed_ < kChangedRounds) return;
    warming_up_ = true;
    rounds_ = 0;
    mode_ = Mode::kInLog;
  }

  void choose() {
    const std::uint64_t in_log = median(0);
    const std::uint64_t buffered = median(1);
    mode_ = in_log <= buffered ? Mode::kInLog : Mode::kBuffered;
    chosen_took_ = std::min(in_log, buffered);
    warming_up_ = false;
    rounds_ = 0;
    changed_ = 0;
  }
  /// Of every second round from `first` on: one that the machine disturbed does not decide.
  std::uint64_t median(std::uint64_t first) {
    std::array<std::uint64_t, kMostRounds / 2> took{};
    std::uint64_t count = 0;
    for (std::uint64_t i = first; i < rounds_; i += 2) took[count++] = took_[i];
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
  std::uint64_t chosen_took_ = 0;
  std::uint64_t changed_ = 0;  // rounds in a row unlike those of the warm-up
  std::array<std::uint64_t, kMostRounds> took_{};
};

}  // namespace perdure
