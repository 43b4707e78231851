// SPDX-License-Identifier: BSD-3-Clause
// What is saved of heaps of objects in which one reference was damaged at random.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/expert.h"
#include "perdure/object.h"
#include "perdure/object/salvage.h"
#include "tests/small_pool.h"
#include "tools/wreck.h"

namespace perdure::tools {
namespace {

using object_layout::Graph;

constexpr std::uint64_t kNodes = 400;
constexpr int kDamages = testing::kSanitized ? 50 : 1000;

struct Node : object<Node> {
  ref<Node> left;
  ref<Node> right;
  field<std::uint64_t> value;
  PERDURE_FIELDS(Node, left, right, value);
};
struct Root : object<Root> {
  ref<Node> top;
  PERDURE_FIELDS(Root, top);
};
using Heap = object_heap<Root>;

enum class Shape { kList, kTree };

class WreckedObjects : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    ExpertOptions options;
    options.capacity_bytes = 8 << 20;
    options.segment_bytes = 128 << 10;
    options.ring_bytes = 64 << 10;
    options.log_slots = 2;
    Pool pool = Pool::create(path_, options).value();
    Heap heap = Heap::in_pool(pool).value();
    for (std::uint64_t i = 0; i < kNodes; ++i) {
      heap.atomically([&](local<Root> root) {
        local<Node> node = heap.make<Node>();
        node->value = i * 7919;
        if (GetParam() == Shape::kList) {
          node->right = root->top;
          root->top = node;
        } else {
          insert(root, node, i);
        }
      });
    }
  }
  /// By the bits of its number.
  static void insert(local<Root> root, local<Node> node, std::uint64_t number) {
    if (!root->top) {
      root->top = node;
      return;
    }
    local<Node> at = root->top;
    for (;; number >>= 1) {
      ref<Node>& next = (number & 1) != 0 ? at->right : at->left;
      if (!next) {
        next = node;
        return;
      }
      at = next;
    }
  }
  /// The numbers of the nodes that are saved. All references lead to what is saved, too.
  std::set<std::uint64_t> saved(std::size_t& lost) {
    Wreck wreck(path_);
    std::set<std::uint64_t> numbers;
    for (const Wreck::Root& root : wreck.roots()) {
      wreck.salvage<object_layout::Control>(root, [&](const Graph& graph) {
        for (const Offset object : graph.order) {
          if (graph.types[graph.objects.at(object).type - 1u].members.size() == 1) continue;
          std::uint64_t value = 0;
          std::memcpy(&value, graph.base + object + 16, sizeof(value));
          EXPECT_EQ(value % 7919, 0u);
          EXPECT_TRUE(numbers.insert(value / 7919).second);
        }
        for (const auto& [place, object] : graph.links) EXPECT_TRUE(graph.objects.contains(object));
        links_.clear();
        for (const auto& [place, object] : graph.links) links_.emplace_back(place, object);
      });
    }
    lost = wreck.lost().size() + wreck.strays();
    return numbers;
  }
  void store(Offset at, Word word) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&word), sizeof(word));
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "heap";
  std::vector<std::pair<Offset, Offset>> links_;
};

TEST_P(WreckedObjects, ADamagedReferenceCostsNoObject) {
  std::size_t lost = 0;
  ASSERT_EQ(saved(lost).size(), kNodes);
  ASSERT_EQ(lost, 0u);
  const auto links = links_;
  ASSERT_EQ(links.size(), kNodes + 1);
  std::mt19937_64 random(22);
  int not_all = 0;
  for (int i = 0; i < kDamages; ++i) {
    const auto [at, before] = links[random() % links.size()];
    Word word = 0;
    switch (i % 4) {
      case 0: word = before ^ (Word{1} << random() % 64); break;
      case 1: word = 0; break;
      case 2: word = links[random() % links.size()].second; break;
      case 3: word = random(); break;
    }
    if (word == before) continue;
    store(at, word);
    const std::size_t found = saved(lost).size();
    EXPECT_GT(lost, 0u) << "nobody is told of " << word << " at " << at;
    // Which of many null references it is nobody knows; nor, in a tree, which of two to one object.
    const bool to_another = std::any_of(
        links.begin(), links.end(), [&, to = word](const auto& link) { return link.second == to; });
    if (word == 0 || (to_another && GetParam() == Shape::kTree)) {
      not_all += found < kNodes ? 1 : 0;
    } else {
      EXPECT_EQ(found, kNodes) << word << " in place of " << before << " at " << at;
    }
    store(at, before);
  }
  std::printf("after %d of %d damages not all was found\n", not_all, kDamages);
  EXPECT_EQ(saved(lost).size(), kNodes) << "all was put right again";
}

INSTANTIATE_TEST_SUITE_P(, WreckedObjects, ::testing::Values(Shape::kList, Shape::kTree),
                         [](const auto& of) { return of.param == Shape::kList ? "List" : "Tree"; });

}  // namespace
}  // namespace perdure::tools
