// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/generators.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace perdure::memory {
namespace {

constexpr std::uint64_t kMegabyte = 1 << 20;

// Without rand()'s own accesses and the fetch.
std::vector<Access> of_the_array(std::span<const Access> batch) {
  std::vector<Access> accesses;
  for (const Access access : batch)
    if (access.address() >= MicroBenchmark::kArray) accesses.push_back(access);
  return accesses;
}

std::vector<Access> all_of(MicroBenchmark source) {
  std::vector<Access> all;
  for (auto batch = source.next(); !batch.empty(); batch = source.next()) {
    EXPECT_LE(batch.size(), 65'536U);
    for (const Access access : of_the_array(batch)) all.push_back(access);
  }
  return all;
}

class MicroBenchmarkTest : public testing::TestWithParam<Pattern> {};
INSTANTIATE_TEST_SUITE_P(All, MicroBenchmarkTest, testing::ValuesIn(kPatterns),
                         [](const auto& pattern) {
                           return std::string(pattern_name(pattern.param));
                         });

TEST_P(MicroBenchmarkTest, ReadsAndWritesInTurnInsideTheArray) {
  MicroBenchmark source(GetParam(), 1, 7);
  const std::uint64_t end = MicroBenchmark::kArray + source.array_bytes();
  std::uint64_t accesses = 0;
  for (auto batch = source.next(); !batch.empty(); batch = source.next()) {
    for (const Access access : of_the_array(batch)) {
      ASSERT_EQ(access.kind(), accesses % 2 == 0 ? AccessKind::kLoad : AccessKind::kStore);
      ASSERT_EQ(access.bytes(), 8U);
      ASSERT_GE(access.address(), MicroBenchmark::kArray);
      ASSERT_LE(access.address() + 8, end);
      ++accesses;
    }
  }
  EXPECT_EQ(accesses, 2 * source.pairs());
  EXPECT_TRUE(source.next().empty()) << "the end stays the end";
}

TEST_P(MicroBenchmarkTest, TheSeedDecides) {
  const auto first_batch = [&](std::uint64_t seed) {
    MicroBenchmark source(GetParam(), 1, seed);
    const auto batch = source.next();
    return std::vector<Access>(batch.begin(), batch.end());
  };
  EXPECT_EQ(first_batch(7), first_batch(7));
  EXPECT_NE(first_batch(7), first_batch(8));
}

// Of each pair: 117 instructions, in the streaming loop 61; 30 loads and 20 stores are rand()'s, or half.
TEST_P(MicroBenchmarkTest, APairTakesTheInstructionsThatWereCounted) {
  MicroBenchmark source(GetParam(), 1, 7);
  std::uint64_t instructions = 0, pairs = 0, others = 0;
  for (const Access access : source.next()) {
    if (access.kind() == AccessKind::kFetch) continue;
    instructions += access.gap();
    if (access.address() < MicroBenchmark::kArray) {
      ++others;
    } else if (access.kind() == AccessKind::kStore) {
      ++pairs;
    }
  }
  const bool streaming = GetParam() == Pattern::kStreaming;
  EXPECT_GT(pairs, 100U);
  EXPECT_EQ(instructions, pairs * (streaming ? 61 : 117));
  EXPECT_EQ(others, pairs * (streaming ? 25 : 50));
}

TEST(MicroBenchmarkSizes, AreTheAuthors) {
  const MicroBenchmark random(Pattern::kRandom, 2, 1);
  EXPECT_EQ(random.array_bytes(), 2 * 32 * 16 * kMegabyte);
  EXPECT_EQ(random.pairs(), 2U * 32 * 49'152);
  const MicroBenchmark streaming(Pattern::kStreaming, 2, 1);
  EXPECT_EQ(streaming.array_bytes(), 2 * 96 * kMegabyte);
  EXPECT_EQ(streaming.pairs(), 2 * 96 * kMegabyte / 64);
  const MicroBenchmark sliding(Pattern::kSliding, 2, 1);
  EXPECT_EQ(sliding.array_bytes(), 16 * kMegabyte + 2 * 3 * 2'048 * 64);
  EXPECT_EQ(sliding.pairs(), 2U * 262'144 + 2 * 3 * 2 * 262'144);
}

TEST(MicroBenchmarkPatterns, StreamingWritesEveryBlockOnceInOrder) {
  std::uint64_t expected = MicroBenchmark::kArray + 32;
  for (const Access access : all_of(MicroBenchmark(Pattern::kStreaming, 1, 7))) {
    if (access.kind() != AccessKind::kStore) continue;
    ASSERT_EQ(access.address(), expected);
    expected += 64;
  }
}

TEST(MicroBenchmarkPatterns, RandomFillsOneWindowAfterTheOther) {
  const auto all = all_of(MicroBenchmark(Pattern::kRandom, 1, 7));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t window = (all[i].address() - MicroBenchmark::kArray) / (16 * kMegabyte);
    ASSERT_EQ(window, i / (2 * 49'152)) << i;
  }
}

TEST(MicroBenchmarkPatterns, SlidingMovesByPartsThenByItsWholeWindow) {
  const auto all = all_of(MicroBenchmark(Pattern::kSliding, 1, 7));
  const std::size_t first_step = 2 * 2 * 262'144;
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t block = (all[i].address() - MicroBenchmark::kArray) / 64;
    if (i < first_step) {
      ASSERT_EQ(block / 2'048, i / (2 * 4'096));
    } else if (i < first_step + 2 * 524'288) {
      least = std::min(least, block);
      most = std::max(most, block);
    }
  }
  EXPECT_GE(least, 2'048U);
  EXPECT_LT(least, 2'148U);
  EXPECT_LT(most, 2'048U + 262'144);
  EXPECT_GT(most, 2'048U + 262'044);
}

}  // namespace
}  // namespace perdure::memory
