// SPDX-License-Identifier: BSD-3-Clause
#include <map>

#include "perdure/api/pool_core.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

/// What all container scenarios share: a root "it", found again by each step, audited after each.
template <class Container>
Scenario container(std::string name, std::string claim, std::uint64_t steps) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.resume_steps = 3;
  s.setup = [](Pool& pool) { pool.root<Container>("it"); };
  s.reach = [](Pool& pool, const Scenario::Visit& visit) {
    const Heap& heap = core_of(pool).heap();
    const std::byte* base = core_of(pool).world().base;
    pool.read_only([&](Tx& tx) {
      const auto wrong = root_of<Container>(pool, "it").audit(tx, [&](Offset object) {
        heap.check_live(object);  // throws before the container follows a dangling link
        visit(base + object);
      });
      if (wrong) throw Exception(Code::kCorrupt, *wrong);
    });
  };
  return s;
}

/// What stands for `number` as a value.
template <class V>
owned_t<V> value_of(std::uint64_t number) {
  if constexpr (std::is_same_v<V, bytes>) {
    // Some of them large enough to be initialised in place.
    return std::string(number * 97 % 400, static_cast<char>('a' + number % 26));
  } else {
    return number;
  }
}

template <class V>
using Model = std::map<std::uint64_t, owned_t<V>>;

/// Step `step` inserts a key, and every third step replaces or erases one.
template <class Put, class Erase>
void edit(std::uint64_t step, Put put, Erase erase) {
  const auto key_of = [](std::uint64_t number) { return number * 337 % 1009; };
  put(key_of(step), step);
  if (step % 3 == 0) erase(key_of(step - 1));
  if (step % 3 == 1 && step > 3) put(key_of(step - 3), step + 1000);
}

template <class V, class Map>
void edit_map(Map& map, Tx& tx, std::uint64_t step) {
  edit(
      step, [&](std::uint64_t key, std::uint64_t number) { map.put(tx, key, value_of<V>(number)); },
      [&](std::uint64_t key) { map.erase(tx, key); });
}

template <class V>
Model<V> model_of(std::uint64_t step) {
  Model<V> model;
  for (std::uint64_t i = 1; i <= step; ++i) {
    edit(
        i, [&](std::uint64_t key, std::uint64_t number) { model[key] = value_of<V>(number); },
        [&](std::uint64_t key) { model.erase(key); });
  }
  return model;
}

/// A map from numbers to V that starts with `start` steps already made.
template <class Map, class V = std::uint64_t>
Scenario map(std::string name, std::string claim, std::uint64_t start, std::uint64_t steps,
             const std::function<void(Pool&)>& prepare = {}) {
  Scenario s = container<Map>(std::move(name), std::move(claim), steps);
  s.step = [=](Pool& pool, std::uint64_t step) {
    Map& it = root_of<Map>(pool, "it");
    pool.atomically([&](Tx& tx) { edit_map<V>(it, tx, start + step); });
  };
  s.setup = [=, make_root = s.setup](Pool& pool) {
    make_root(pool);
    if (prepare) prepare(pool);
    Map& it = root_of<Map>(pool, "it");
    for (std::uint64_t i = 1; i <= start; ++i) {
      pool.atomically([&](Tx& tx) { edit_map<V>(it, tx, i); });
    }
  };
  s.check = [=](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Model<V> expected = model_of<V>(start + step);
    Model<V> found;
    pool.read_only([&](Tx& tx) {
      found.clear();
      root_of<Map>(pool, "it").for_each(tx, [&](std::uint64_t key, const auto& value) {
        found[key] = value;
        return found.size() <= expected.size();  // a circle ends here
      });
    });
    if (found == expected) return std::nullopt;
    return "the map has " + std::to_string(found.size()) + " entries instead of " +
           std::to_string(expected.size()) + ", or others";
  };
  return s;
}

Scenario hash() {
  using Map = hash_map<std::uint64_t, std::uint64_t>;
  return map<Map>("hash-map",
                  "insertions, replacements and erasures around the opening of new buckets", 60, 12,
                  [](Pool& pool) {
                    Map& it = root_of<Map>(pool, "it");
                    pool.atomically([&](Tx& tx) { it.use_seed(tx, 42); });
                  });
}

Scenario btree() {
  // Nodes of a few entries, so that they split and merge all the time.
  using Map = btree_map<std::uint64_t, std::uint64_t, 112>;
  return map<Map>("btree-map",
                  "insertions and erasures that split and free nodes on several levels", 40, 14);
}

Scenario btree_of_bytes() {
  using Map = btree_map<std::uint64_t, bytes, 112>;
  return map<Map, bytes>("btree-map-bytes",
                         "values of any length, objects of their own, change with the tree's nodes",
                         40, 7);
}

Scenario red_black() {
  using Map = rb_map<std::uint64_t, std::uint64_t>;
  return map<Map>("rb-map", "insertions and erasures that rotate and repaint a red-black tree", 30,
                  14);
}

Scenario array() {
  using Vector = vector<std::uint64_t>;
  Scenario s = container<Vector>(
      "vector", "elements are appended and taken back over a segment's border", 14);
  s.step = [](Pool& pool, std::uint64_t step) {
    Vector& it = root_of<Vector>(pool, "it");
    pool.atomically([&](Tx& tx) {
      if (step % 4 == 3) {
        it.pop_back(tx);
      } else {
        it.push_back(tx, step);
      }
    });
  };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 1; i <= step; ++i) {
      if (i % 4 == 3) {
        expected.pop_back();
      } else {
        expected.push_back(i);
      }
    }
    std::vector<std::uint64_t> found;
    pool.read_only([&](Tx& tx) {
      found.clear();
      root_of<Vector>(pool, "it").for_each(tx, [&](std::uint64_t value) {
        found.push_back(value);
        return found.size() <= expected.size();
      });
    });
    if (found == expected) return std::nullopt;
    return "the vector has " + std::to_string(found.size()) + " elements, or others";
  };
  return s;
}

Scenario text() {
  Scenario s =
      container<string>("string", "a text is replaced by others, longer, shorter and as long", 7);
  const auto text_after = [](std::uint64_t step) {
    return step == 0
               ? std::string()
               : std::string(step * 53 % 200 / (step % 3 + 1), static_cast<char>('a' + step % 26));
  };
  s.step = [=](Pool& pool, std::uint64_t step) {
    string& it = root_of<string>(pool, "it");
    pool.atomically([&](Tx& tx) { it.assign(tx, text_after(step)); });
  };
  s.check = [=](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const std::string expected = text_after(step);
    const bool same = pool.read_only([&](Tx& tx) {
      const string& it = root_of<string>(pool, "it");
      return it.size(tx) == expected.size() && it.str(tx) == expected;
    });
    if (same) return std::nullopt;
    return std::string("the text is another");
  };
  return s;
}

}  // namespace

std::vector<Scenario> container_scenarios() {
  return {hash(),  btree(), btree_of_bytes(),        red_black(),
          array(), text(),  in_private_pages(hash())};
}

}  // namespace perdure::crash
