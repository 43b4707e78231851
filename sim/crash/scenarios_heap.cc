// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstring>

#include "perdure/api/pool_core.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

/// A singly linked list, whose content after `step` steps `model` tells.
struct Node {
  std::uint64_t value;
  perdure::pptr<Node> next;
};
struct List {
  perdure::pptr<Node> first;
};
using Values = std::vector<std::uint64_t>;
constexpr std::uint64_t kMostNodes = 1 << 16;  // more than any scenario has: a cycle ends here

void push(Pool& pool, std::uint64_t value) {
  List& list = root_of<List>(pool, "list");
  pool.atomically([&](Tx& tx) {
    auto* node = static_cast<Node*>(tx.allocate(sizeof(Node)));
    tx.store(node->value, value);
    tx.store(node->next, tx.load(list.first));
    tx.store(list.first, tx.link_to(node));
  });
}

void pop(Pool& pool) {
  List& list = root_of<List>(pool, "list");
  pool.atomically([&](Tx& tx) {
    Node* node = tx.at(tx.load(list.first));
    tx.store(list.first, tx.load(node->next));
    tx.free(node);
  });
}

template <class Visit>
void walk(Pool& pool, Visit visit) {
  pool.read_only([&](Tx& tx) {
    const List& list = root_of<List>(pool, "list");
    perdure::pptr<Node> at = tx.load(list.first);
    for (std::uint64_t i = 0; at && i < kMostNodes; ++i) {
      const Node* node = tx.at(at);
      visit(node, tx.load(node->value));
      at = tx.load(node->next);
    }
  });
}

Scenario list(std::string name, std::string claim, std::uint64_t steps,
              const std::function<Values(std::uint64_t)>& model,
              std::function<void(Pool&, std::uint64_t)> step) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.setup = [model](Pool& pool) {
    pool.root<List>("list");
    const Values values = model(0);
    for (auto value = values.rbegin(); value != values.rend(); ++value) push(pool, *value);
  };
  s.step = std::move(step);
  s.check = [model](Pool& pool, std::uint64_t number) -> std::optional<std::string> {
    Values found;
    walk(pool, [&](const Node*, std::uint64_t value) { found.push_back(value); });
    if (found == model(number)) return std::nullopt;
    return "the list has " + std::to_string(found.size()) + " nodes, or others";
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    walk(pool, [&](const Node* node, std::uint64_t) { visit(node); });
  };
  return s;
}

Scenario pushes() {
  return list(
      "allocate-and-link", "a node is allocated and linked at once: no leak, no dangling link", 5,
      [](std::uint64_t step) {
        Values values;
        for (std::uint64_t i = step; i > 0; --i) values.push_back(i);
        return values;
      },
      [](Pool& pool, std::uint64_t step) { push(pool, step); });
}

Scenario pops() {
  constexpr std::uint64_t kStart = 40;
  return list(
      "free-and-unlink", "a node is unlinked and freed at once: no leak, no double free", 5,
      [](std::uint64_t step) {
        Values values;
        for (std::uint64_t i = kStart; i > step; --i) values.push_back(kStart + 1 - i);
        std::reverse(values.begin(), values.end());
        return values;
      },
      [](Pool& pool, std::uint64_t) { pop(pool); });
}

/// Two pushes, one pop, for ever: freed places are taken again.
Scenario churn() {
  const auto model = [](std::uint64_t step) {
    Values values;
    for (std::uint64_t i = 1; i <= step; ++i) {
      if (i % 3 == 0) {
        values.erase(values.begin());
      } else {
        values.insert(values.begin(), i);
      }
    }
    return values;
  };
  return list("reuse", "places freed by one transaction are reused by the next", 9, model,
              [](Pool& pool, std::uint64_t step) {
                if (step % 3 == 0) return pop(pool);
                push(pool, step);
              });
}

/// One object, replaced in each step by one of another size, filled with the step's number.
struct Holder {
  perdure::pptr<std::uint64_t> object;
  std::uint64_t words;
};

Scenario replaced(std::string name, std::string claim, std::uint64_t steps,
                  std::vector<std::uint64_t> sizes, Geometry geometry) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.geometry = geometry;
  s.setup = [](Pool& pool) { pool.root<Holder>("holder"); };
  s.step = [sizes](Pool& pool, std::uint64_t step) {
    Holder& holder = root_of<Holder>(pool, "holder");
    const std::uint64_t words = sizes[step % sizes.size()] / kWordBytes;
    pool.atomically([&](Tx& tx) {
      const auto old = tx.load(holder.object);
      auto* object = static_cast<std::uint64_t*>(tx.allocate(words * kWordBytes));
      // The ends stand for the rest; the whole would be a spilled record, which has its own
      // scenarios.
      tx.store(object[0], step);
      tx.store(object[words - 1], step);
      tx.store(holder.object, tx.link_to(object));
      tx.store(holder.words, words);
      if (old) tx.free(tx.at(old));
    });
  };
  s.check = [sizes](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      const Holder& holder = root_of<Holder>(pool, "holder");
      const auto object = tx.load(holder.object);
      if (step == 0) return object ? std::optional<std::string>("an object") : std::nullopt;
      const std::uint64_t words = sizes[step % sizes.size()] / kWordBytes;
      if (tx.load(holder.words) != words || !object)
        return std::string("an object of another size");
      if (tx.load(tx.at(object)[0]) != step || tx.load(tx.at(object)[words - 1]) != step)
        return std::string("an object with other content");
      if (core_of(pool).heap().usable_bytes(object.offset) < words * kWordBytes)
        return std::string("the object's place is too small for it");
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      const auto object = tx.load(root_of<Holder>(pool, "holder").object);
      if (object) visit(tx.at(object));
    });
  };
  return s;
}

/// A pool of one segment: objects of one size fill most of it and are freed, then come those of
/// another size.
Scenario reclaim() {
  using Slots = std::array<perdure::pptr<std::uint64_t>, 20>;
  constexpr std::array<std::uint64_t, 3> kSizes = {4096, 2720, 2048};
  Scenario s;
  s.name = "reclaim";
  s.claim = "empty superblocks of one size class become blocks of another";
  s.steps = 7;
  s.geometry.capacity_bytes = 2 * kMinSegmentBytes;
  s.setup = [](Pool& pool) { pool.root<Slots>("slots"); };
  s.step = [kSizes](Pool& pool, std::uint64_t step) {
    Slots& slots = root_of<Slots>(pool, "slots");
    pool.atomically([&](Tx& tx) {
      for (auto& slot : slots) {
        if (step % 2 == 0) {
          tx.free(tx.at(tx.load(slot)));
          tx.store(slot, {});
        } else {
          auto* object = static_cast<std::uint64_t*>(tx.allocate(kSizes[step / 2 % kSizes.size()]));
          tx.store(*object, step);
          tx.store(slot, tx.link_to(object));
        }
      }
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      for (const auto& slot : root_of<Slots>(pool, "slots")) {
        const auto object = tx.load(slot);
        if (static_cast<bool>(object) != (step % 2 == 1))
          return std::string("a slot is full or empty");
        if (object && tx.load(*tx.at(object)) != step)
          return std::string("an object of another step");
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      for (const auto& slot : root_of<Slots>(pool, "slots")) {
        if (const auto object = tx.load(slot)) visit(tx.at(object));
      }
    });
  };
  return s;
}

/// Objects of four blocks, kept until there are ten, then freed from the front: segments are added
/// on the way.
Scenario growth() {
  using Slots = std::array<perdure::pptr<std::uint64_t>, 10>;
  constexpr std::uint64_t kBytes = 4 * kBlockBytes;
  Scenario s;
  s.name = "growth";
  s.claim = "the pool grows while it is used; a cut leaves it as it was or larger, never damaged";
  s.steps = 12;
  s.geometry.capacity_bytes = 5 * kMinSegmentBytes;
  s.setup = [](Pool& pool) { pool.root<Slots>("slots"); };
  s.step = [](Pool& pool, std::uint64_t step) {
    Slots& slots = root_of<Slots>(pool, "slots");
    pool.atomically([&](Tx& tx) {
      auto& slot = slots[step % slots.size()];
      if (const auto old = tx.load(slot)) tx.free(tx.at(old));
      auto* object = static_cast<std::uint64_t*>(tx.allocate(kBytes));
      tx.store(object[0], step);
      tx.store(object[kBytes / kWordBytes - 1], step);
      tx.store(slot, tx.link_to(object));
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    return pool.read_only([&](Tx& tx) -> std::optional<std::string> {
      const Slots& slots = root_of<Slots>(pool, "slots");
      Values expected(slots.size(), 0);
      for (std::uint64_t i = 1; i <= step; ++i) expected[i % slots.size()] = i;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        const auto object = tx.load(slots[i]);
        const std::uint64_t found = object ? tx.load(tx.at(object)[0]) : 0;
        const std::uint64_t end = object ? tx.load(tx.at(object)[kBytes / kWordBytes - 1]) : 0;
        if (found != expected[i] || end != expected[i])
          return "slot " + std::to_string(i) + " holds " + std::to_string(found);
      }
      return std::nullopt;
    });
  };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    pool.read_only([&](Tx& tx) {
      for (const auto& slot : root_of<Slots>(pool, "slots")) {
        if (const auto object = tx.load(slot)) visit(tx.at(object));
      }
    });
  };
  return s;
}

/// Roots come and go.
Scenario roots() {
  constexpr std::uint64_t kNames = 3;
  const auto name_of = [](std::uint64_t step) { return "root" + std::to_string(step % kNames); };
  const auto there = [](std::uint64_t step, std::uint64_t name) {
    bool is = false;
    for (std::uint64_t i = 1; i <= step; ++i) is = i % kNames == name ? !is : is;
    return is;
  };
  Scenario s;
  s.name = "roots";
  s.claim = "a root is created with its object and its name, or not at all; so is it removed";
  s.steps = 7;
  s.step = [=](Pool& pool, std::uint64_t step) {
    const std::string name = name_of(step);
    if (!there(step - 1, step % kNames)) {
      pool.root<std::uint64_t>(name);
      return;
    }
    auto* object = pool.find_root<std::uint64_t>(name);
    pool.atomically([&](Tx& tx) {
      core_of(pool).remove_root(tx, name);
      tx.free(object);
    });
  };
  s.check = [=](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    for (std::uint64_t name = 0; name < kNames; ++name) {
      const auto* root = pool.find_root<std::uint64_t>(name_of(name));
      if ((root != nullptr) != there(step, name)) return name_of(name) + " is there or is not";
      if (root != nullptr && *root != 0) return name_of(name) + " is not zeroed";
    }
    return std::nullopt;
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return s;
}

}  // namespace

std::vector<Scenario> heap_scenarios() {
  const Geometry small = Scenario{}.geometry;
  Geometry eight_segments = small;
  eight_segments.capacity_bytes = 9 * kMinSegmentBytes;
  // Space that private pages, or tables, still know as an object's becomes the heap's own, and another object's.
  const Scenario huge =
      replaced("huge", "objects of whole segments come and go, and the pool grows for them", 5,
               {200 << 10, 24, 300 << 10}, eight_segments);
  return {
      pushes(),
      pops(),
      churn(),
      replaced("resize", "an object moves between size classes and extents", 6,
               {24, 200, 4096, 20000, 1000}, small),
      huge,
      in_private_pages(churn()),
      in_private_pages(reclaim()),
      in_private_pages(huge),
      reclaim(),
      growth(),
      roots(),
  };
}

}  // namespace perdure::crash
