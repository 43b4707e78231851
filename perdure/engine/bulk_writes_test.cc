// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/engine/bulk_writes.h"

#include <cstring>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace perdure {
namespace {

using Model = std::map<Offset, Word>;

/// Writes `count` random words, from a place that is not aligned, to both.
void put(BulkWrites& bulk, Model& model, Offset at, std::size_t count, std::mt19937_64& random) {
  std::vector<char> bytes(count * kWordBytes + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Word value = random();
    std::memcpy(bytes.data() + 1 + i * kWordBytes, &value, sizeof(value));
    model[at + i * kWordBytes] = value;
  }
  bulk.put(at, bytes.data() + 1, count);
}

void expect_same(BulkWrites& bulk, const Model& model) {
  auto next = model.begin();
  std::uint64_t words = 0;
  Offset end = 0;
  for (const BulkWrites::Run& run : bulk.runs()) {
    ASSERT_GE(run.begin, end) << "in order, and apart";
    ASSERT_GE(run.count, 1U);
    ASSERT_LE(run.count, record::kMaxRun);
    end = run.end();
    words += run.count;
    for (std::uint64_t i = 0; i < run.count; ++i, ++next) {
      ASSERT_NE(next, model.end());
      ASSERT_EQ(next->first, run.begin + i * kWordBytes);
      ASSERT_EQ(next->second, run.words[i]);
    }
  }
  EXPECT_EQ(next, model.end());
  EXPECT_EQ(bulk.entry_words(), words + bulk.runs().size());
}

TEST(BulkWritesTest, HoldTheLastValueOfEachWordInOrderOfPlace) {
  std::mt19937_64 random(5);
  BulkWrites bulk;
  for (int round = 0; round < 300; ++round) {
    EXPECT_TRUE(bulk.empty());
    Model model;
    for (int i = 0; i < 12; ++i) {
      const Offset at = random() % 2000 * kWordBytes;
      put(bulk, model, at, 1 + random() % 400, random);
      expect_same(bulk, model);
      const Offset probe = random() % 2500 * kWordBytes;
      Word* const found = bulk.find(probe);
      const auto modelled = model.find(probe);
      ASSERT_EQ(found != nullptr, modelled != model.end());
      if (found == nullptr) continue;
      ASSERT_EQ(*found, modelled->second);
      *found = modelled->second = random();
    }
    expect_same(bulk, model);
    bulk.clear();
  }
}

TEST(BulkWritesTest, AreAsLongAsTheyNeedToBe) {
  std::mt19937_64 random(6);
  BulkWrites bulk;
  for (int round = 0; round < 2; ++round) {
    Model model;
    put(bulk, model, 800, 2 * record::kMaxRun + 17, random);
    put(bulk, model, 0, record::kMaxRun, random);
    expect_same(bulk, model);
    bulk.clear();
    EXPECT_EQ(bulk.find(800), nullptr);
  }
}

}  // namespace
}  // namespace perdure
