// SPDX-License-Identifier: BSD-3-Clause
// Heaps of objects from the outside: what `perdure check` says of them, and what `perdure reclaim` frees.
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

}  // namespace
}  // namespace perdure
