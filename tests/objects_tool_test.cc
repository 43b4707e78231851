// SPDX-License-Identifier: BSD-3-Clause
// Heaps of objects from the outside: what `perdure check` says of them, what `perdure reclaim` frees, and what
// `perdure salvage` makes of damaged ones.
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "perdure/api/pool_core.h"
#include "perdure/object.h"
#include "tests/cli_fixture.h"

namespace perdure {
namespace {

struct Node : object<Node> {
  ref<Node> next;
  weak_ref<Node> back;
  ref<array<ref<Node>>> others;
  field<std::uint64_t> value;
  PERDURE_FIELDS(Node, next, back, others, value);
};
struct Ring : object<Ring> {
  ref<Node> first;
  weak_ref<Node> seen;
  static constexpr const char* persistent_name = "Ring";
  PERDURE_FIELDS(Ring, first, seen);
};
using Heap = object_heap<Ring>;

class ObjectsTest : public CliTest {
 protected:
  /// A circle of `count` nodes that refer to a node which stays, and lets go of it.
  static void lose_a_circle(Heap& heap, int count) {
    heap.atomically([&](local<Ring> ring) {
      if (!ring->first) ring->first = heap.make<Node>();
      local<Node> first = heap.make<Node>();
      local<Node> last = first;
      first->others = heap.make_array<ref<Node>>(3);
      for (int i = 1; i < count; ++i) {
        local<Node> node = heap.make<Node>();
        node->next = last;
        last->back = node;
        node->others = first->others;
        last = node;
      }
      first->next = last;
      (*first->others.get().operator->())[1] = ring->first;
      first->back = ring->first;
      ring->seen = first;
    });
  }
};

TEST_F(ObjectsTest, AHeapIsSoundWhateverItHolds) {
  {
    Heap heap = Heap::create(pool_).value();
    heap.atomically([&](local<Ring> ring) {
      ring->first = heap.make<Node>();
      ring->first->back = ring->first;
      ring->first->others = heap.make_array<ref<Node>>(2);
      ring->seen = ring->first;
    });
  }
  const Json check = json_of({"check", pool_, "--json"});
  EXPECT_EQ(check["sound"], true);
  EXPECT_EQ(check["leaked_objects"], 0);
  EXPECT_EQ(check["leaks_told_by"], "types");
  EXPECT_TRUE(check["opaque_roots"].empty());
}

TEST_F(ObjectsTest, CirclesAreFoundAndFreed) {
  std::uint64_t before = 0;
  {
    Heap heap = Heap::create(pool_).value();
    heap.atomically([&](local<Ring> ring) { ring->first = heap.make<Node>(); });
    before = core_of(heap.pool()).heap().usage().objects;
    lose_a_circle(heap, 3);
    lose_a_circle(heap, 200);
  }
  const Json check = json_of({"check", pool_, "--leaks", "--json"}, 1);
  EXPECT_GE(check["leaked_objects"], 205);
  bool nodes = false;
  for (const Json& of : check["leaked_by_class"])
    nodes = nodes || (of["class"].get<std::string>().find("Node") != std::string::npos &&
                      of["objects"] == 203);
  EXPECT_TRUE(nodes) << check["leaked_by_class"];
  EXPECT_EQ(check["findings"][0]["remedy"], "`perdure reclaim` frees it");

  const Json freed = json_of({"reclaim", pool_, "--json"});
  EXPECT_EQ(freed["freed_objects"], 205);
  const Json again = json_of({"check", pool_, "--json"});
  EXPECT_EQ(again["sound"], true) << again;
  Heap heap = Heap::open(pool_).value();
  heap.read_only([](local<Ring> ring) {
    EXPECT_TRUE(ring->first);
    EXPECT_FALSE(ring->seen) << "a weak reference to what was freed";
  });
  heap.atomically([](local<Ring> ring) { ring->seen = nullptr; });
  EXPECT_EQ(core_of(heap.pool()).heap().usage().objects, before + 1)
      << "the node that stays keeps its proxy";
}

TEST_F(ObjectsTest, ACountThatIsWrongIsDamage) {
  {
    Heap heap = Heap::create(pool_).value();
    heap.atomically([&](local<Ring> ring) { ring->first = heap.make<Node>(); });
    Pool& pool = heap.pool();
    const auto offset = heap.read_only([&](local<Ring> ring) {
      return static_cast<Offset>(reinterpret_cast<std::byte*>(ring->first.get().operator->()) -
                                 core_of(pool).world().base);
    });
    auto& header = *core_of(pool).region().at<object_layout::Header>(offset - 16);
    pool.atomically([&](Tx& tx) { tx.store(header.state, tx.load(header.state) + 1); });
  }
  const Json check = json_of({"check", pool_, "--json"}, 1);
  EXPECT_NE(check["findings"][0]["what"].get<std::string>().find("counts 2 references, and has 1"),
            std::string::npos)
      << check;
  EXPECT_NE(run({"reclaim", pool_}).code, 0);
}

TEST_F(ObjectsTest, WhatIsNoHeapOfObjectsIsNotReclaimed) {
  create();
  const auto result = run({"reclaim", pool_});
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.err.find("not a heap of objects"), std::string::npos) << result.err;
}

/// A list of nodes, each of which leads back weakly, and to one array.
class SalvageOfObjects : public ObjectsTest {
 protected:
  static constexpr int kNodes = 400;

  void SetUp() override {
    ObjectsTest::SetUp();
    copy_ = path("copy.heap");
    Heap heap = Heap::create(pool_).value();
    for (int i = 0; i < kNodes; ++i) {
      heap.atomically([&](local<Ring> ring) {
        local<Node> node = heap.make<Node>();
        node->value = static_cast<std::uint64_t>(i);
        node->next = ring->first;
        if (ring->first) ring->first->back = node;
        node->others = ring->first ? ring->first->others : heap.make_array<ref<Node>>(3);
        ring->first = node;
        if (i == 7) (*node->others.get().operator->())[1] = node;
        if (i == 9) ring->seen = node;
      });
    }
  }
  /// The values from the first node on.
  static std::vector<std::uint64_t> values(Heap& heap) {
    std::vector<std::uint64_t> values;
    heap.read_only([&](local<Ring> ring) {
      values.clear();
      for (local<Node> node = ring->first; node; node = node->next) values.push_back(node->value);
    });
    return values;
  }
  /// Changes a word of the object of the node with that value: of its fields, in their order.
  void damage(std::uint64_t value, std::size_t word, std::uint64_t flip) {
    Heap heap = Heap::open(pool_).value();
    std::uint64_t* at = nullptr;
    heap.read_only([&](local<Ring> ring) {
      for (local<Node> node = ring->first; node; node = node->next) {
        if (node->value != value) continue;
        at = reinterpret_cast<std::uint64_t*>(node.operator->());
        return;  // what follows may be damaged
      }
    });
    ASSERT_NE(at, nullptr);
    heap.pool().atomically([&](Tx& tx) { tx.store(at[word], tx.load(at[word]) ^ flip); });
  }
  Json salvaged(int code) {
    const Json made = json_of({"salvage", pool_, copy_, "--json"}, code);
    EXPECT_EQ(json_of({"check", copy_, "--json"})["sound"], true);
    return made;
  }
  std::string copy_;
};

TEST_F(SalvageOfObjects, OfASoundOneAllIsTaken) {
  const Json made = salvaged(0);
  EXPECT_EQ(made["left_out"], 0) << made;
  EXPECT_EQ(made["entries"], kNodes + 2);
  Heap heap = Heap::open(copy_).value();
  EXPECT_EQ(values(heap).size(), kNodes);
  heap.read_only([](local<Ring> ring) {
    EXPECT_EQ(ring->seen->value, 9u);
    EXPECT_EQ(ring->seen->back->value, 10u);
    EXPECT_EQ((*ring->first->others.get().operator->())[1]->value, 7u);
    EXPECT_FALSE(ring->first->back);
  });
  heap.atomically([](local<Ring> ring) { ring->first = ring->first->next; });
  EXPECT_EQ(values(heap).front(), kNodes - 2u) << "with counts that are true";
}

TEST_F(SalvageOfObjects, WhatTheOnlyBrokenReferenceLedToIsFound) {
  damage(200, 0, std::uint64_t{1} << 40);
  EXPECT_EQ(run({"check", pool_}).code, 1);
  const Json made = salvaged(1);
  EXPECT_EQ(made["entries"], kNodes + 2) << made;
  Heap heap = Heap::open(copy_).value();
  EXPECT_EQ(values(heap).size(), kNodes);
}

TEST_F(SalvageOfObjects, OfSeveralBrokenOnesNothingIsGuessed) {
  damage(100, 0, std::uint64_t{1} << 40);
  damage(300, 0, std::uint64_t{1} << 41);
  const Json made = salvaged(1);
  Heap heap = Heap::open(copy_).value();
  EXPECT_EQ(values(heap).size(), kNodes - 300u) << "to the first of these";
  EXPECT_NE(made["what_was_left_out"].dump().find("no known link leads to"), std::string::npos);
}

TEST_F(SalvageOfObjects, ADamagedWeakReferenceIsNull) {
  damage(9, 1, std::uint64_t{1} << 40);
  salvaged(1);
  Heap heap = Heap::open(copy_).value();
  EXPECT_EQ(values(heap).size(), kNodes);
  heap.read_only([](local<Ring> ring) { EXPECT_FALSE(ring->seen->back); });
}

TEST_F(SalvageOfObjects, AnyWordMayBeDamaged) {
  const std::string whole = read(pool_);
  const Superblock super = Region::read_superblock(pool_).value();
  std::mt19937_64 random(5);
  int complete = 0;
  constexpr int kRounds = 6;
  for (int round = 0; round < kRounds; ++round) {
    std::string damaged = whole;
    // Where the objects are.
    const std::size_t first = damaged.find("Node", super.heap_offset) / 8 * 8;
    const std::size_t at = first + random() % 4000 * 8;
    damaged[at + random() % 8] ^= static_cast<char>(1u << random() % 8);
    std::ofstream(pool_, std::ios::binary) << damaged;
    std::filesystem::remove(copy_);
    const ToolRun made = run({"salvage", pool_, copy_, "--json"});
    ASSERT_TRUE(made.code == 0 || made.code == 1) << made.code << " of " << at << ": " << made.err;
    ASSERT_EQ(run({"check", copy_}).code, 0) << at;
    complete += Json::parse(made.out)["entries"] == kNodes + 2 ? 1 : 0;
  }
  EXPECT_GE(complete, kRounds / 2);
}

}  // namespace
}  // namespace perdure
