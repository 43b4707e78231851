// SPDX-License-Identifier: BSD-3-Clause
// Which of the pending writes arrive: all combinations where they are few, a seeded sample where
// they are many.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/crash/media.h"

namespace perdure::crash {

/// A stream of numbers that depends on nothing but what it is made from (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0, std::uint64_t place = 0)
      : state_(seed * 0x9e3779b97f4a7c15u + stream * 0xbf58476d1ce4e5b9u + place) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// 0 … limit-1. Requires: limit > 0.
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
  std::uint64_t state_;
};

/// The choices to try at one moment, one after the other.
class Choices {
 public:
  /// All of them if they are at most `full_limit`. Else: none; all; single units there, with each
  /// prefix; single units missing; pairs; random subsets of density .1, .5 and .9. Of each kind all
  /// if they are at most `samples`, else that many at random.
  Choices(const Media::Frontier& frontier, std::uint64_t full_limit, std::uint64_t samples,
          Random& random);
  bool exhaustive() const { return exhaustive_; }
  std::uint64_t count() const { return count_; }
  /// The next one, valid until the next call; null at the end.
  const Media::Choice* next();

 private:
  void sample(std::uint64_t samples, Random& random);

  Media::Choice full_;     // how many writes each unit has
  Media::Choice current_;  // exhaustive: the odometer
  bool exhaustive_ = true;
  std::uint64_t count_ = 1;
  bool begun_ = false;
  std::vector<Media::Choice> sampled_;
  std::size_t next_sampled_ = 0;
};

/// A choice in a replay text: "*" all, "-" none, else "3,7=2" (units there) or "~3,7=2" (units not
/// wholly there).
std::string text_of_choice(const Media::Choice& choice, const Media::Frontier& frontier);
std::optional<Media::Choice> choice_of(std::string_view text, const Media::Frontier& frontier);

}  // namespace perdure::crash
