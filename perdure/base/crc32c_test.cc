// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/base/crc32c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

// The portable path is out of reach on a CPU with SSE4.2, so the source is compiled a second time,
// under a name of its own, to compare the two.
namespace twin {
#include "perdure/base/crc32c.cc"  // NOLINT
}

namespace perdure {
namespace {

std::uint32_t portable(const std::vector<unsigned char>& data, std::size_t from, std::size_t bytes,
                       std::uint32_t seed) {
  return ~twin::perdure::crc_portable(data.data() + from, bytes, ~seed);
}

TEST(Crc32c, AgreesWithThePublishedVectors) {
  // RFC 3720 B.4, and the check value of the catalogue of CRCs.
  std::array<unsigned char, 32> bytes{};
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x8a9136aau);
  bytes.fill(0xff);
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x62a8ab43u);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x46dd794eu);
  std::reverse(bytes.begin(), bytes.end());
  EXPECT_EQ(crc32c(bytes.data(), bytes.size()), 0x113fdb5cu);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
}

TEST(Crc32c, HardwareAndPortableAgreeAtEveryLengthAndAlignment) {
  std::mt19937_64 random(1);
  std::vector<unsigned char> data(512);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  for (std::size_t from = 0; from < 16; ++from) {
    for (std::size_t bytes = 0; from + bytes <= 300; ++bytes) {
      const auto seed = static_cast<std::uint32_t>(random());
      ASSERT_EQ(crc32c(data.data() + from, bytes, seed), portable(data, from, bytes, seed))
          << from << " " << bytes;
    }
  }
}

TEST(Crc32c, HardwareAndPortableAgreeOnLongPieces) {
  std::mt19937_64 random(2);
  std::vector<unsigned char> data(20'000);
  for (auto& byte : data) byte = static_cast<unsigned char>(random());
  for (int trial = 0; trial < 2'000; ++trial) {
    const std::size_t from = random() % 64, bytes = random() % (data.size() - from);
    const auto seed = static_cast<std::uint32_t>(random());
    ASSERT_EQ(crc32c(data.data() + from, bytes, seed), portable(data, from, bytes, seed))
        << from << " " << bytes;
  }
}

TEST(Crc32c, SeedContinuesAnEarlierPiece) {
  const std::string_view text = "the quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t first = crc32c(text.data(), cut);
    EXPECT_EQ(crc32c(text.data() + cut, text.size() - cut, first),
              crc32c(text.data(), text.size()));
  }
}

// The syndrome of an odd number of flipped bits has odd weight (x + 1 divides the polynomial), so
// its halves differ.
TEST(Crc16, FindsEveryOddNumberOfFlippedBits) {
  std::mt19937_64 random(2);
  for (const std::size_t words : {1, 2, 3, 7, 64, 500}) {
    std::vector<std::uint64_t> data(words);
    for (auto& word : data) word = random();
    const std::uint16_t before = crc16(data.data(), words * 8, 17);
    for (std::size_t bit = 0; bit < words * 64; ++bit) {
      data[bit / 64] ^= std::uint64_t{1} << (bit % 64);
      ASSERT_NE(crc16(data.data(), words * 8, 17), before)
          << "bit " << bit << " of " << words << " words";
      data[bit / 64] ^= std::uint64_t{1} << (bit % 64);
    }
    for (int round = 0; round < 10000; ++round) {
      std::vector<std::uint64_t> damaged = data;
      std::size_t weight = 0;
      for (int flips = 2 * static_cast<int>(random() % 4) + 1; flips > 0; --flips) {
        const std::size_t bit = random() % (words * 64);
        damaged[bit / 64] ^= std::uint64_t{1} << (bit % 64);
      }
      for (std::size_t i = 0; i < words; ++i)
        weight += static_cast<std::size_t>(std::popcount(damaged[i] ^ data[i]));
      ASSERT_EQ(weight % 2, 1u);
      ASSERT_NE(crc16(damaged.data(), words * 8, 17), before);
    }
  }
}

}  // namespace
}  // namespace perdure
