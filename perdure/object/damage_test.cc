// SPDX-License-Identifier: BSD-3-Clause
// Damaged files: whatever single word of a heap is wrong, an open and a walk end in an answer or an
// Exception.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/object.h"
#include "tests/object_fixture.h"

namespace perdure {
namespace {

using testing::HeapInMemory;
using testing::Image;
using testing::kSanitized;

struct Root;
struct Node : object<Node> {
  field<std::int64_t> value;
  ref<Node> next;
  weak_ref<Root> root;
  std::array<ref<chars>, 2> names;
  PERDURE_FIELDS(Node, value, next, root, names);
  ~Node();
};
struct Root : object<Root> {
  ref<Node> first;
  ref<Node> doomed;
  weak_ref<Node> weak;
  ref<array<ref<Node>>> row;
  ref<array<weak_ref<Node>>> weak_row;
  ref<chars> name;
  field<std::int64_t> sum;
  PERDURE_FIELDS(Root, first, doomed, weak, row, weak_row, name, sum);
};

std::function<void()> on_death;

Node::~Node() {
  if (const local<Root> to = root) to->sum += value;
  if (on_death) on_death();
}

/// With a list of dead objects, orphans, and some of everything.
Image specimen() {
  HeapInMemory<Root> heap(EngineKind::kMnemosyne, testing::kSmallGeometry);
  std::vector<handle<Node>> held;
  heap->atomically([&](auto root) {
    held.clear();
    for (int i = 0; i < 80; ++i) {
      const auto made = heap->make<Node>();
      made->value = i;
      made->next = root->doomed;
      root->doomed = made;
    }
    for (int i = 0; i < 4; ++i) {
      const auto made = heap->make<Node>();
      made->value = i;
      made->next = root->first;
      made->root = root;
      made->names[i % 2] = heap->make_text("a node's name");
      root->first = made;
    }
    root->weak = root->first;
    root->row = heap->make_array<ref<Node>>(3);
    root->row.get()[1] = root->first;
    root->weak_row = heap->make_array<weak_ref<Node>>(3);
    root->weak_row.get()[2] = root->first->next;
    root->name = heap->make_text("root");
    held.emplace_back(heap->make<Node>());
    held.emplace_back(heap->make<Node>());
    held[0]->next = root->first;
  });
  std::optional<Image> left;
  int deaths = 0;
  on_death = [&] {
    if (++deaths == 65) left.emplace(heap.image());
  };
  heap->atomically([](auto root) { root->doomed = nullptr; });
  on_death = nullptr;
  return *left;
}

void walk(Pool& pool) {
  Result<object_heap<Root>> opened = object_heap<Root>::in_pool(pool);
  if (!opened) return;
  object_heap<Root> heap = std::move(opened).value();
  const auto attempt_to = [&](auto body) {
    try {
      heap.atomically(body);
    } catch (const Exception&) {  // an answer
    }
  };
  attempt_to([&](local<Root> root) {
    local<Node> at = root->first;
    for (int i = 0; i < 10 && at; ++i, at = at->next) {
      static_cast<void>(at->value.get());
      if (at->root) at->root->sum += 1;
      for (const auto& name : at->names) {
        if (name) static_cast<void>(name->text());
      }
    }
  });
  attempt_to([&](local<Root> root) {
    for (std::uint64_t i = 0; i < root->row->size() && i < 10; ++i) {
      if (root->row.get()[i]) static_cast<void>(root->row.get()[i]->value.get());
    }
    for (std::uint64_t i = 0; i < root->weak_row->size() && i < 10; ++i) {
      if (root->weak_row.get()[i]) root->weak_row.get()[i]->value = 1;
    }
  });
  attempt_to([&](local<Root> root) { static_cast<void>(root->name->text()); });
  attempt_to([&](local<Root> root) {
    const handle<Node> held(root->weak);
    root->first = root->first->next;
  });
  attempt_to([&](local<Root> root) { root->weak = root->first; });
  attempt_to([&](local<Root> root) { root->row = nullptr; });
  attempt_to([&](local<Root> root) { root->weak_row = nullptr; });
  attempt_to([&](local<Root> root) { root->weak = nullptr; });
  attempt_to([&](local<Root> root) { root->first = nullptr; });
  attempt_to([&](local<Root> root) {
    root->doomed = nullptr;
    root->name = nullptr;
  });
}

class Damage : public testing::ObjectTest {};
INSTANTIATE_TEST_SUITE_P(Engines, Damage,
                         ::testing::Values(EngineKind::kMnemosyne, EngineKind::kUndoObjects),
                         testing::engine_of);

TEST_P(Damage, OfAnyWordEndsInAnAnswer) {
  // Logs are judged elsewhere: here they are empty.
  Image whole = specimen();
  std::vector<Offset> words;
  std::uint64_t grown = 0;
  {
    Pool pool = whole.pool().value();
    grown = core_of(pool).region().grown_bytes();
    core_of(pool).heap().for_each_object([&](Offset object, std::uint64_t bytes) {
      for (Offset at = object; at < object + bytes; at += kWordBytes) words.push_back(at);
    });
  }
  const std::uint64_t end = whole.super().geometry.capacity_bytes;
  int opened = 0;
  std::size_t turn = 0;
  Image damaged(whole);
  for (const Offset at : words) {
    const Word was = whole.word(at);
    const Word values[] = {was ^ 1,
                           was ^ 8,
                           was ^ 16,
                           was ^ 0x400,
                           was ^ (Word{1} << 32),
                           was ^ (Word{3} << 32),
                           was ^ object_layout::kOrphan,
                           was ^ object_layout::kDead,
                           was ^ (Word{1} << 63),
                           0,
                           ~Word{0},
                           ~Word{15},
                           ~Word{31},
                           grown - 16,
                           grown - 8,
                           grown,
                           end,
                           at,
                           at & ~Word{15},
                           whole.super().heap_offset,
                           whole.super().heap_offset + 16};
    for (const Word value : values) {
      if (value == was || (++turn % (kSanitized ? 11 : 4) != 0)) continue;
      damaged = whole;
      damaged.word(at) = value;
      Result<Pool> pool = damaged.pool(GetParam());
      if (!pool) continue;
      Pool open = std::move(pool).value();
      walk(open);
      ++opened;
    }
  }
  EXPECT_GT(opened, 100);
}

}  // namespace
}  // namespace perdure
