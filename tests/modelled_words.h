// SPDX-License-Identifier: BSD-3-Clause
// An array of words in a pool beside a model of it in ordinary memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/pool.h"

namespace perdure::testing {

template <std::size_t kCount>
class ModelledWords {
 public:
  using Words = std::array<std::uint64_t, kCount>;
  explicit ModelledWords(std::uint64_t seed) : random_(seed) {}

  /// In a transaction: `count` random words are what they were, and become `value`.
  void store(Tx& tx, Words& words, std::uint64_t count, std::uint64_t value) {
    for (; count > 0; --count) {
      const std::size_t at = random_() % kCount;
      ASSERT_EQ(tx.load(words[at]), model_[at]) << value;
      tx.store(words[at], value);
      model_[at] = value;
    }
  }
  /// `load(word)` tells what each word holds.
  template <class Load>
  void expect_same(const Words& words, Load&& load) const {
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(load(words[i]), model_[i]) << i;
  }
  void expect_same(const Words& words) const {
    expect_same(words, [](const std::uint64_t& word) { return word; });
  }
  std::uint64_t operator[](std::size_t i) const { return model_[i]; }

 private:
  std::mt19937_64 random_;
  std::vector<std::uint64_t> model_ = std::vector<std::uint64_t>(kCount);
};

}  // namespace perdure::testing
