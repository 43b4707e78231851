// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/base/checked_word.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace perdure {
namespace {

const std::vector<std::uint16_t> kSalts = {0x4752, 0x5254, 0x4844, 0x5347, 0x0001, 0xffff};

std::vector<std::uint64_t> payloads() {
  std::vector<std::uint64_t> values = {
      0, 1, 2, 0xffff, kMax48, kMax48 - 1, std::uint64_t{1} << 47, 0x555555555555, 0xaaaaaaaaaaaa};
  std::mt19937_64 random(3);
  for (int i = 0; i < 40; ++i) values.push_back(random() & kMax48);
  return values;
}

TEST(CheckedWord, GivesBackWhatWasSealed) {
  for (const std::uint16_t salt : kSalts) {
    for (const std::uint64_t payload : payloads())
      EXPECT_EQ(unseal(seal(payload, salt), salt), payload);
  }
}

TEST(CheckedWord, EveryOneAndTwoBitFlipIsDetected) {
  for (const std::uint16_t salt : kSalts) {
    for (const std::uint64_t payload : payloads()) {
      const Word sealed = seal(payload, salt);
      for (int a = 0; a < 64; ++a) {
        for (int b = a; b < 64; ++b) {  // a == b: one bit
          const Word damaged = sealed ^ (Word{1} << a) ^ (a == b ? 0 : Word{1} << b);
          ASSERT_FALSE(unseal(damaged, salt)) << payload << ", bits " << a << " and " << b;
        }
      }
    }
  }
}

TEST(CheckedWord, EveryBurstOfUpTo16BitsInsideThePayloadIsDetected) {
  for (const std::uint64_t payload : {std::uint64_t{0}, std::uint64_t{0x123456789abc}}) {
    const Word sealed = seal(payload, 0x4844);
    for (int at = 0; at < 48; ++at) {
      for (Word burst = 1; burst < (1u << 16); burst += 2) {
        const Word damage = burst << at;
        if (damage > kMax48) continue;
        ASSERT_FALSE(unseal(sealed ^ damage, 0x4844)) << at << " " << burst;
      }
    }
  }
}

TEST(CheckedWord, ZeroedAndAllOnesWordsAreDetected) {
  for (const std::uint16_t salt : kSalts) {
    EXPECT_FALSE(unseal(0, salt)) << salt;
    EXPECT_FALSE(unseal(~Word{0}, salt)) << salt;
  }
}

TEST(CheckedWord, AWordOfAnotherFieldIsDetected) {
  for (const std::uint16_t mine : kSalts) {
    for (const std::uint16_t other : kSalts) {
      if (mine == other) continue;
      for (const std::uint64_t payload : payloads())
        EXPECT_FALSE(unseal(seal(payload, other), mine));
    }
  }
}

}  // namespace
}  // namespace perdure
