// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/base/offset_set.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace perdure {
namespace {

TEST(OffsetSet, IsASetInTheOrderOfArrival) {
  std::mt19937_64 random(7);
  OffsetSet set;
  for (int round = 0; round < 200; ++round) {
    std::set<Offset> expected;
    std::vector<Offset> order;
    const std::size_t count = round % 3 == 0 ? random() % 40 : random() % 1000;
    const auto agree = [&] {
      ASSERT_EQ(std::vector<Offset>(set.begin(), set.end()), order);
      for (int i = 0; i < 100; ++i) {
        const Offset offset = random() % 4096 * 8;
        ASSERT_EQ(set.contains(offset), expected.contains(offset)) << offset;
      }
      for (const Offset offset : order) ASSERT_TRUE(set.contains(offset));
    };
    for (std::size_t i = 0; i < count; ++i) {
      const Offset offset = random() % 4096 * 8;
      const bool fresh = expected.insert(offset).second;
      ASSERT_EQ(set.insert(offset), fresh) << offset;
      if (fresh) order.push_back(offset);
    }
    agree();
    const std::size_t kept = order.empty() ? 0 : random() % order.size();
    set.shrink(kept);
    for (std::size_t i = kept; i < order.size(); ++i) expected.erase(order[i]);
    order.resize(kept);
    agree();
    set.clear();
    EXPECT_TRUE(set.empty());
  }
}

}  // namespace
}  // namespace perdure
