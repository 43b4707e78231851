// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/evaluation/sections.h"

#include <gtest/gtest.h>

namespace perdure::bench::thynvm {
namespace {

TEST(ThyNvmSections, OrdersAreComparedWhereThePaperSeesADifference) {
  const std::vector<std::string> places = {"here", "there"}, systems = {"a", "b", "c"};
  // a and b differ by 4 % in the first place: whatever we find agrees.
  const std::vector<std::vector<double>> papers = {{1.00, 1.04, 2}, {1, 2, 3}};
  Order order = compare_orders({{1.5, 1.0, 3}, {1, 2, 3}}, papers, places, systems);
  EXPECT_EQ(order.pairs, 5);
  EXPECT_EQ(order.same, 5);
  EXPECT_EQ(order.others, "");
  order = compare_orders({{1.0, 1.5, 3}, {2, 1, 3}}, papers, places, systems);
  EXPECT_EQ(order.same, 4);
  EXPECT_EQ(order.others, "there: a and b");
  order = compare_orders({{1.0, 1.0, 0.5}, {3, 2, 1}}, papers, places, systems);
  EXPECT_EQ(order.same, 0);
}

TEST(ThyNvmSections, BytesAreThePapers) {
  Results results;
  results.traffic = {
      .cpu_lines = 10, .cpu_to_nvm = 320, .checkpoint_bytes = 100, .migration_bytes = 7};
  EXPECT_EQ(paper_bytes(results), 640 + 107);
}

TEST(ThyNvmSections, MeansAreGeometric) { EXPECT_DOUBLE_EQ(geometric_mean({1, 4, 2}), 2); }

}  // namespace
}  // namespace perdure::bench::thynvm
