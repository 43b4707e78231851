// SPDX-License-Identifier: BSD-3-Clause
// Arrays: of values, of references, text.
#include <array>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/object.h"
#include "perdure/object/array.h"
#include "tests/object_fixture.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::HeapInMemory;
using testing::thrown_by;

struct Pair {
  std::uint32_t a;
  std::uint16_t b;
  std::uint16_t c;
  bool operator==(const Pair&) const = default;
};
struct Triple {
  std::uint8_t a;
  std::uint8_t b;
  std::uint8_t c;
  bool operator==(const Triple&) const = default;
};
struct Node : object<Node> {
  field<int> value;
  PERDURE_FIELDS(Node, value);
};
struct Root : object<Root> {
  ref<chars> name;
  ref<array<field<std::uint64_t>>> numbers;
  ref<array<field<Pair>>> pairs;
  ref<array<field<Triple>>> triples;
  ref<array<ref<Node>>> nodes;
  ref<array<weak_ref<Node>>> weak_nodes;
  weak_ref<chars> weak_name;
  PERDURE_FIELDS(Root, name, numbers, pairs, triples, nodes, weak_nodes, weak_name);
};

class Arrays : public testing::ObjectTest {
 protected:
  HeapInMemory<Root> heap{GetParam()};
  const std::uint64_t empty = heap.objects();
};
PERDURE_ON_ENGINES(Arrays);

TEST_P(Arrays, OfValuesOfEverySizeKeepThem) {
  heap->atomically([&](auto root) {
    root->numbers = heap->make_array<field<std::uint64_t>>(1000);
    root->pairs = heap->make_array<field<Pair>>(10);
    root->triples = heap->make_array<field<Triple>>(10);
    EXPECT_EQ(root->numbers->size(), 1000u);
    EXPECT_EQ(root->numbers.get()[999], 0u);
    for (std::uint64_t i = 0; i < 1000; ++i) root->numbers.get()[i] = i * i;
    for (std::uint16_t i = 0; i < 10; ++i) {
      root->pairs.get()[i] = Pair{i, i, i};
      const auto byte = static_cast<std::uint8_t>(i);
      root->triples.get()[i] = Triple{byte, byte, byte};
    }
  });
  heap.kill();
  heap->read_only([&](auto root) {
    for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(root->numbers.get()[i], i * i);
    for (std::uint16_t i = 0; i < 10; ++i) {
      EXPECT_EQ(root->pairs.get()[i].get(), (Pair{i, i, i}));
      const auto byte = static_cast<std::uint8_t>(i);
      EXPECT_EQ(root->triples.get()[i].get(), (Triple{byte, byte, byte}));
    }
  });
}

TEST_P(Arrays, AreReadAndWrittenInRows) {
  std::vector<std::uint64_t> values(5000);
  std::iota(values.begin(), values.end(), 7);
  heap->atomically([&](auto root) {
    root->numbers = heap->make_array<field<std::uint64_t>>(6000);
    root->numbers->write(500, values.data(), values.size());
    root->numbers->write(6000, values.data(), 0);
  });
  heap->read_only([&](auto root) {
    std::vector<std::uint64_t> found(5000);
    root->numbers->read(500, found.data(), found.size());
    EXPECT_EQ(found, values);
    EXPECT_EQ(root->numbers.get()[499], 0u);
    EXPECT_EQ(root->numbers.get()[5500], 0u);
  });
}

TEST_P(Arrays, EndWhereTheyEnd) {
  heap->atomically([&](auto root) {
    root->numbers = heap->make_array<field<std::uint64_t>>(3);
    const local<array<field<std::uint64_t>>> numbers = root->numbers;
    std::uint64_t values[4] = {};
    EXPECT_THAT(thrown_by([&] { numbers[3] = 1u; }), HasSubstr("element 3 of an array of 3"));
    EXPECT_THAT(thrown_by([&] { numbers[-1] = 1u; }), HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { numbers->write(0, values, 4); }), HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { numbers->read(1, values, 3); }), HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { numbers->read(4, values, 0); }), HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { numbers->read(1, values, ~std::uint64_t{0}); }),
                HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { numbers->read(~std::uint64_t{0}, values, 2); }),
                HasSubstr("invalid"));
  });
}

TEST_P(Arrays, OfNoElementsAndOfTooMany) {
  heap->atomically([&](auto root) {
    root->numbers = heap->make_array<field<std::uint64_t>>(0);
    root->nodes = heap->make_array<ref<Node>>(0);
    root->name = heap->make_text("");
    EXPECT_EQ(root->numbers->size(), 0u);
    EXPECT_EQ(root->name->text(), "");
    EXPECT_THAT(thrown_by([&] { root->numbers.get()[0] = 1u; }), HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { heap->make_array<field<Pair>>(~std::uint64_t{0}); }),
                HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { heap->make_array<field<Pair>>(std::uint64_t{1} << 61); }),
                HasSubstr("invalid"));
    EXPECT_THAT(thrown_by([&] { heap->make_array<field<Pair>>(std::uint64_t{1} << 36); }),
                HasSubstr("no-space"));
  });
  heap->atomically([&](auto root) {
    root->numbers = nullptr;
    root->nodes = nullptr;
    root->name = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Arrays, HoldTextOfEveryByte) {
  std::string all(70'000, '\0');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i * 7);
  heap->atomically([&](auto root) {
    root->name = heap->make_text(all);
    root->weak_name = root->name;
  });
  heap.kill();
  heap->read_only([&](auto root) {
    EXPECT_EQ(root->name->text(), all);
    EXPECT_EQ(root->weak_name->text().size(), all.size());
    EXPECT_EQ(root->name.get()[3], all[3]);
  });
  for (const std::size_t length : {1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 500, 4096}) {
    heap->atomically([&](auto root) { root->name = heap->make_text(all.substr(1, length)); });
    EXPECT_EQ(heap->read_only([](auto root) { return root->name->text(); }), all.substr(1, length));
  }
  heap->atomically([&](auto root) {
    root->name = nullptr;
    root->weak_name = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

TEST_P(Arrays, ElementsThatReferAreCountedAndSwapped) {
  heap->atomically([&](auto root) {
    root->nodes = heap->make_array<ref<Node>>(3);
    root->weak_nodes = heap->make_array<weak_ref<Node>>(3);
    for (int i = 0; i < 3; ++i) {
      root->nodes.get()[i] = heap->make<Node>();
      root->nodes.get()[i]->value = i;
      root->weak_nodes.get()[i] = root->nodes.get()[i];
    }
  });
  heap->atomically([&](auto root) {
    const auto nodes = root->nodes.get();
    const local<Node> first = nodes[0];
    nodes[0] = nodes[2];
    nodes[2] = first;
    nodes[1] = nodes[1];
  });
  heap->atomically([&](auto root) {
    EXPECT_EQ(root->nodes.get()[0]->value, 2);
    EXPECT_EQ(root->nodes.get()[1]->value, 1);
    EXPECT_EQ(root->nodes.get()[2]->value, 0);
    root->nodes.get()[1] = nullptr;
  });
  heap->atomically([&](auto root) {
    EXPECT_TRUE(root->weak_nodes.get()[0]);
    EXPECT_FALSE(root->weak_nodes.get()[1]);
    root->nodes = nullptr;
  });
  heap->atomically([&](auto root) {
    EXPECT_FALSE(root->weak_nodes.get()[0]);
    root->weak_nodes = nullptr;
  });
  EXPECT_EQ(heap.objects(), empty);
}

}  // namespace
}  // namespace perdure
