// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/in_place_spans.h"

#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

namespace perdure {
namespace {

TEST(InPlaceSpans, TheLatestSpanOfEachWordCounts) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    InPlaceSpans spans;
    EXPECT_TRUE(spans.empty());
    std::array<std::uint64_t, 64> latest{};  // timestamp of each word; 0: never
    for (std::uint64_t timestamp = 1; timestamp <= 20; ++timestamp) {
      const std::uint64_t begin = random() % latest.size();
      const std::uint64_t words = 1 + random() % (latest.size() - begin);
      spans.add(begin * kWordBytes, words * kWordBytes, timestamp);
      std::fill_n(latest.begin() + static_cast<std::ptrdiff_t>(begin), words, timestamp);
      for (std::uint64_t word = 0; word < latest.size(); ++word) {
        for (const std::uint64_t of : {std::uint64_t{0}, timestamp / 2, timestamp - 1, timestamp})
          ASSERT_EQ(spans.overtakes(word * kWordBytes, of), of < latest[word]) << word << " " << of;
      }
    }
    EXPECT_FALSE(spans.overtakes(latest.size() * kWordBytes, 0));
  }
}

}  // namespace
}  // namespace perdure
