// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/page_difference.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace perdure::checkpoint {
namespace {

struct Way {
  const char* name;
  PageDifference differs;
  bool here = true;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

std::vector<Way> ways() {
#if defined(__x86_64__)
  return {{"sse2", page_difference_sse2},
          {"avx2", page_difference_avx2, __builtin_cpu_supports("avx2") != 0},
          {"best", best_page_difference()}};
#else
  return {{"best", best_page_difference()}};
#endif
}

class PageDifferenceTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!GetParam().here) GTEST_SKIP() << "this processor has no " << GetParam().name;
    std::mt19937_64 random(1);
    for (auto& byte : now) byte = static_cast<std::byte>(random());
    then = now;
  }
  std::uint64_t difference() const { return GetParam().differs(now.data(), then.data()); }

  alignas(64) std::array<std::byte, 4096> now{}, then{};
};

INSTANTIATE_TEST_SUITE_P(Ways, PageDifferenceTest, testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(PageDifferenceTest, EveryBitOfEveryByteCounts) {
  EXPECT_EQ(difference(), 0u);
  for (std::size_t at = 0; at < now.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      now[at] ^= std::byte{1} << bit;
      ASSERT_EQ(difference(), std::uint64_t{1} << at / 64) << "byte " << at << " bit " << bit;
      now[at] ^= std::byte{1} << bit;
    }
  }
}

TEST_P(PageDifferenceTest, AnySetOfBlocksIsToldAsComparingBytesTellsIt) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    then = now;
    for (std::uint64_t left = random() % 200; left > 0; --left)
      then[random() % then.size()] = static_cast<std::byte>(random());
    std::uint64_t expected = 0;
    for (unsigned block = 0; block < 64; ++block) {
      const auto* begin = now.data() + block * 64;
      const bool same = std::equal(begin, begin + 64, then.data() + block * 64);
      expected |= std::uint64_t{!same} << block;
    }
    ASSERT_EQ(difference(), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace perdure::checkpoint
