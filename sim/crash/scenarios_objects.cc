// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <unordered_map>

#include "perdure/api/pool_core.h"
#include "perdure/object.h"
#include "perdure/object/survey.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

struct Node : object<Node> {
  field<std::uint64_t> value;
  ref<Node> next;
  weak_ref<Node> back;
  PERDURE_FIELDS(Node, value, next, back);
};
struct Shelf : object<Shelf> {
  ref<Node> first;
  ref<Node> spare;
  ref<array<ref<Node>>> row;
  ref<array<field<std::uint64_t>>> numbers;
  PERDURE_FIELDS(Shelf, first, spare, row, numbers);
};
using Heap = object_heap<Shelf>;

/// What one life of the process has in volatile memory.
struct Life {
  Heap heap;
  handle<Node> held;
};
thread_local std::unordered_map<const Pool*, Life*> lives;

Life& life_of(Pool& pool) { return *lives.at(&pool); }

/// What all scenarios share: the heap is opened by each life, and everything in the pool must be reached and counted.
Scenario objects(std::string name, std::string claim, std::uint64_t steps,
                 std::size_t deaths_at_once = 3) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.open = [deaths_at_once](Pool& pool) -> std::shared_ptr<void> {
    auto* const life =
        new Life{Heap::in_pool(pool, {.deaths_at_once = deaths_at_once}).value(), nullptr};
    lives[&pool] = life;
    return {life, [&pool](Life* gone) {
              lives.erase(&pool);
              delete gone;
            }};
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    using object_layout::Control;
    const auto& heap = core_of(pool).heap();
    const std::byte* const base = core_of(pool).world().base;
    const Control& control = root_of<Control>(pool, object_layout::kControlRoot);
    pool.read_only([&](Tx& tx) {
      const auto wrong = object_layout::survey(tx, &control, [&](Offset object) {
        heap.check_live(object);
        visit(base + object);
        return heap.usable_bytes(object);
      });
      if (wrong) throw Exception(Code::kCorrupt, *wrong);
    });
  };
  return s;
}

// ---- the same steps on objects and on what the standard library has for them ------------------------

struct ModelNode {
  std::uint64_t value = 0;
  std::shared_ptr<ModelNode> next;
  std::weak_ptr<ModelNode> back;
};
struct ModelShelf {
  std::shared_ptr<ModelNode> first;
  std::shared_ptr<ModelNode> spare;
};

local<Node> at(const ref<Node>& link) { return link.get(); }
local<Node> at(const weak_ref<Node>& link) { return link.get(); }
std::shared_ptr<ModelNode> at(const std::shared_ptr<ModelNode>& link) { return link; }
std::shared_ptr<ModelNode> at(const std::weak_ptr<ModelNode>& link) { return link.lock(); }

template <class Shelf, class Make>
void rearrange(Shelf& shelf, std::uint64_t step, Make make) {
  switch (step % 7) {
    case 1:
    case 2:
    case 3: {  // one more, which its neighbour knows
      const auto node = make();
      node->value = step;
      node->next = at(shelf.first);
      if (at(shelf.first)) at(shelf.first)->back = node;
      shelf.first = node;
      break;
    }
    case 4: {  // two change places
      const auto a = at(shelf.first);
      const auto b = at(a->next);
      shelf.first = b;
      a->next = at(b->next);
      b->next = a;
      a->back = b;
      b->back = at(b->next);
      break;
    }
    case 5:  // one has two owners
      shelf.spare = at(shelf.first);
      break;
    case 6:  // the first loses its place, and its end is not yet
      shelf.first = at(at(shelf.first)->next);
      break;
    default:  // it ends, and with it what only it led to
      shelf.spare = nullptr;
      if (at(shelf.first)) at(shelf.first)->next = nullptr;
      break;
  }
}

template <class Shelf>
std::string told(const Shelf& shelf) {
  std::string text;
  const auto tell = [&](auto node) {
    for (int most = 50; node && most > 0; --most) {
      text += std::to_string(node->value);
      if (const auto back = at(node->back)) text += "<" + std::to_string(back->value);
      text += " ";
      node = at(node->next);
    }
  };
  tell(at(shelf.first));
  text += "| ";
  tell(at(shelf.spare));
  return text;
}

Scenario references() {
  Scenario s = objects("objects",
                       "objects, counted and weak references change in whole steps; what nothing "
                       "leads to ends with the step, and weak references to it are null",
                       14);
  s.step = [](Pool& pool, std::uint64_t step) {
    Heap& heap = life_of(pool).heap;
    heap.atomically([&](local<Shelf> shelf) {
      rearrange(*shelf.operator->(), step, [&] { return heap.make<Node>(); });
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    ModelShelf model;
    for (std::uint64_t i = 1; i <= step; ++i)
      rearrange(model, i, [] { return std::make_shared<ModelNode>(); });
    const std::string expected = told(model);
    const std::string found =
        life_of(pool).heap.read_only([](local<Shelf> shelf) { return told(*shelf.operator->()); });
    if (found == expected) return std::nullopt;
    return "the shelf holds " + found + "instead of " + expected;
  };
  return s;
}

/// A chain, longer than what ends in one transaction, and a row that refers to it twice.
Scenario the_end() {
  constexpr std::uint64_t kChain = 5;
  Scenario s = objects("objects-end",
                       "a chain that is longer than what ends in one transaction is out of reach "
                       "at once, and ends, whenever it is cut off",
                       4, 2);
  s.step = [](Pool& pool, std::uint64_t step) {
    Heap& heap = life_of(pool).heap;
    heap.atomically([&](local<Shelf> shelf) {
      if (step % 2 == 0) {
        shelf->first = nullptr;
        shelf->row = nullptr;
        return;
      }
      local<array<ref<Node>>> row = heap.make_array<ref<Node>>(kChain);
      for (std::uint64_t i = 0; i < kChain; ++i) {
        local<Node> node = heap.make<Node>();
        node->next = shelf->first;
        if (shelf->first) shelf->first->back = node;
        shelf->first = node;
        row[i] = node;
      }
      shelf->row = row;
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const std::uint64_t length = life_of(pool).heap.read_only([](local<Shelf> shelf) {
      std::uint64_t count = shelf->row ? 100 : 0;
      for (local<Node> node = shelf->first; node && count < 200; node = node->next) ++count;
      return count;
    });
    const std::uint64_t expected = step % 2 == 0 ? 0 : 100 + kChain;
    if (length == expected) return std::nullopt;
    return std::to_string(length) + " instead of " + std::to_string(expected);
  };
  return s;
}

/// Objects that handles alone lead to, for a step, or until the process dies.
Scenario orphans() {
  Scenario s = objects("objects-orphans",
                       "what only handles lead to stays for as long as they do, and is reclaimed "
                       "by the next open",
                       8);
  s.step = [](Pool& pool, std::uint64_t step) {
    Life& life = life_of(pool);
    handle<Node> dropped = std::move(life.held);  // after the transaction: the end of an orphan
    life.held = nullptr;
    life.heap.atomically([&](local<Shelf> shelf) {
      switch (step % 4) {
        case 1: {  // reachable, and held
          local<Node> node = life.heap.make<Node>();
          node->value = step;
          shelf->first = node;
          life.held = node;
          break;
        }
        case 2:  // held only: an orphan
          life.held = shelf->first;
          shelf->first = nullptr;
          shelf->spare = nullptr;
          break;
        case 3:  // reachable again, if the process did not die in between
          shelf->first = life.heap.make<Node>();
          shelf->first->value = step;
          if (dropped) shelf->first->next = dropped;
          life.held = shelf->first;
          break;
        default:  // born as an orphan
          shelf->spare = shelf->first;
          shelf->first = nullptr;
          life.held = life.heap.make<Node>();
          break;
      }
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return life_of(pool).heap.read_only([&](local<Shelf> shelf) -> std::optional<std::string> {
      const bool first = step % 4 == 1 || step % 4 == 3;
      const bool spare = step >= 4 && step % 4 != 2 && step % 4 != 3 ? true : false;
      if (static_cast<bool>(shelf->first) != first) return "the first node is wrong";
      if (first && shelf->first->value != step) return "the first node's value is wrong";
      if (static_cast<bool>(shelf->spare) != spare) return "the spare node is wrong";
      return std::nullopt;
    });
  };
  return s;
}

/// Arrays for which the pool has to grow.
Scenario growth() {
  Scenario s = objects("objects-growth", "a heap grows under its objects", 4);
  s.step = [](Pool& pool, std::uint64_t step) {
    Heap& heap = life_of(pool).heap;
    heap.atomically([&](local<Shelf> shelf) {
      auto numbers = heap.make_array<field<std::uint64_t>>(step * 1500);
      numbers[step] = step;
      shelf->numbers = numbers;
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return life_of(pool).heap.read_only([&](local<Shelf> shelf) -> std::optional<std::string> {
      if (step == 0) return shelf->numbers ? std::optional<std::string>("numbers") : std::nullopt;
      if (!shelf->numbers || shelf->numbers->size() != step * 1500) return "no such array";
      if ((*shelf->numbers.get().operator->())[step] != step) return "another number";
      return std::nullopt;
    });
  };
  s.geometry.capacity_bytes = std::uint64_t{1} << 20;
  s.resume_steps = 1;
  return s;
}

// ---- making and changing a heap ----------------------------------------------------------------------

struct Early : object<Early> {
  field<std::uint64_t> count;
  field<std::uint64_t> reserved;
  static constexpr const char* persistent_name = "Box";
  PERDURE_FIELDS(Early, count, reserved);
};
struct Late : object<Late> {
  field<std::uint64_t> count;
  ref<Node> node;
  static constexpr const char* persistent_name = "Box";
  PERDURE_FIELDS(Late, count, node);
};

Scenario opening() {
  Scenario s;
  s.name = "objects-opening";
  s.claim = "a heap is made, and its classes' descriptions follow them, as a whole or not at all";
  s.steps = 2;
  s.step = [](Pool& pool, std::uint64_t step) {
    if (step == 1) {
      object_heap<Early>::in_pool(pool).value();
    } else {
      auto heap = object_heap<Late>::in_pool(pool).value();
      heap.atomically([&](local<Late> box) { box->count = step; });
    }
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const auto* control = pool.find_root<object_layout::Control>(object_layout::kControlRoot);
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      if (control == nullptr || tx.load(control->magic) == 0)
        return step == 0 ? std::nullopt : std::optional<std::string>("no heap");
      if (step == 0) return "a heap";
      const auto* box = tx.at(pptr<std::uint64_t>{tx.load(control->root)});
      const std::uint64_t count = tx.load(*box);
      if (count != (step >= 2 ? step : 0)) return "the box counts " + std::to_string(count);
      return std::nullopt;
    });
  };
  s.reach = [reach = objects("", "", 0).reach](Pool& pool, const Scenario::Visit& visit) {
    if (pool.find_root<object_layout::Control>(object_layout::kControlRoot) != nullptr)
      reach(pool, visit);
  };
  return s;
}

}  // namespace

std::vector<Scenario> object_scenarios() {
  return {references(), the_end(), orphans(), growth(), opening()};
}

}  // namespace perdure::crash
