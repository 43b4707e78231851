// SPDX-License-Identifier: BSD-3-Clause
// The worlds in which every container is tested: ordinary memory with PlainTx, and a pool.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "perdure/pool.h"
#include "perdure/tx.h"
#include "tests/small_pool.h"

namespace perdure::testing {

/// PlainTx that knows what is allocated, and can run out of memory.
class MeteredTx : public PlainTx {
 public:
  void* allocate(std::size_t bytes) {
    if (allowed == 0) throw std::bad_alloc();
    if (allowed > 0) --allowed;
    void* memory = PlainTx::allocate(bytes);
    live.emplace(reinterpret_cast<std::uint64_t>(memory), bytes);
    return memory;
  }
  void free(void* object) {
    EXPECT_EQ(live.erase(reinterpret_cast<std::uint64_t>(object)), 1u);
    PlainTx::free(object);
  }

  std::map<std::uint64_t, std::size_t> live;
  std::int64_t allowed = -1;  // allocations that still succeed; negative: all
};
static_assert(Transaction<MeteredTx>);

class PlainWorld {
 public:
  ~PlainWorld() {
    for (const auto& [address, bytes] : tx_.live) std::free(reinterpret_cast<void*>(address));
  }
  template <class T>
  T* root() {
    roots_.push_back(std::make_unique<Zeroes>());
    static_assert(sizeof(T) <= sizeof(Zeroes));
    return reinterpret_cast<T*>(roots_.back().get());
  }
  template <class Body>
  auto atomically(Body&& body) {
    return body(tx_);
  }
  std::set<std::uint64_t> live_objects() const {
    std::set<std::uint64_t> live;
    for (const auto& [address, bytes] : tx_.live) live.insert(address);
    return live;
  }
  MeteredTx& tx() { return tx_; }

 private:
  struct Zeroes {
    std::uint64_t words[16] = {};
  };
  MeteredTx tx_;
  std::vector<std::unique_ptr<Zeroes>> roots_;
};

class PoolWorld {
 public:
  explicit PoolWorld(std::uint64_t capacity_bytes = std::uint64_t{1} << 30) {
    options_.domain = DomainKind::kDram;
    options_.capacity_bytes = capacity_bytes;
    options_.segment_bytes = std::uint64_t{256} << 10;
    options_.ring_bytes = std::uint64_t{64} << 10;
    options_.log_slots = 8;
    options_.lock_bits = 16;
    pool_.emplace(papers::create(path_, options_).value());
  }
  /// The root of this type. Its own heap object is not among the live ones: no container owns it.
  template <class T>
  T* root() {
    T* object = pool_->root<T>(std::to_string(type_id<T>()));
    roots_.insert(static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(object) -
                                             core_of(*pool_).region().base()));
    return object;
  }
  template <class Body>
  auto atomically(Body&& body) {
    return pool_->atomically(std::forward<Body>(body));
  }
  std::set<std::uint64_t> live_objects() {
    std::set<std::uint64_t> live;
    core_of(*pool_).heap().for_each_object([&](Offset at, std::uint64_t) {
      if (!roots_.contains(at)) live.insert(at);
    });
    return live;
  }
  void reopen() {
    pool_.reset();
    pool_.emplace(papers::open(path_, options_).value());
  }
  Pool& pool() { return *pool_; }

 private:
  TempDir directory_;
  std::string path_ = directory_ / "pool";
  papers::LabOptions options_;
  std::optional<Pool> pool_;
  std::set<std::uint64_t> roots_;
};

/// Runs `body`; false when it ran out of memory.
template <class Body>
bool allocates(Body&& body) {
  try {
    body();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

using Worlds = ::testing::Types<PlainWorld, PoolWorld>;

template <class World>
class InEachWorld : public ::testing::Test {
 protected:
  World world_;
};

/// The container finds nothing wrong with itself, and owns all live objects, each once.
template <class World, class Container>
void expect_sound(World& world, const Container& container) {
  std::multiset<std::uint64_t> owned;
  world.atomically([&](auto& tx) {
    owned.clear();
    const auto wrong = container.audit(tx, [&](std::uint64_t offset) { owned.insert(offset); });
    EXPECT_EQ(wrong.value_or("nothing"), "nothing");
  });
  const std::set<std::uint64_t> live = world.live_objects();
  EXPECT_EQ(owned, std::multiset<std::uint64_t>(live.begin(), live.end()));
}

/// What is wrong with the container, in its own words.
template <class World, class Container>
std::string complaint(World& world, const Container& container) {
  return world.atomically(
      [&](auto& tx) { return container.audit(tx, [](std::uint64_t) {}).value_or("nothing"); });
}

/// The container finds something wrong with itself, and says this among other things.
template <class World, class Container>
void expect_complaint(World& world, const Container& container, const std::string& part) {
  const std::string said = complaint(world, container);
  EXPECT_NE(said.find(part), std::string::npos) << said;
}

/// What the container owns, as words, in the order in which its audit() visits it.
template <class Container>
std::vector<std::uint64_t*> objects_of(PlainWorld& world, const Container& container) {
  std::vector<std::uint64_t*> objects;
  container.audit(world.tx(), [&](std::uint64_t at) {
    objects.push_back(reinterpret_cast<std::uint64_t*>(at));
  });
  return objects;
}

template <class World, class Map, class Model>
void expect_equal(World& world, const Map& map, const Model& model) {
  world.atomically([&](auto& tx) {
    EXPECT_EQ(map.size(tx), model.size());
    std::size_t seen = 0;
    map.for_each(tx, [&](const auto& key, const auto& value) {
      ++seen;
      const auto expected = model.find(typename Model::key_type(key));
      EXPECT_TRUE(expected != model.end() && expected->second == value);
    });
    EXPECT_EQ(seen, model.size());
    typename Model::mapped_type value{};
    for (const auto& [key, expected] : model)
      EXPECT_TRUE(map.get(tx, key, value) && value == expected);
    if constexpr (requires { map.visit(tx, model.begin()->first, [](std::string_view) {}); }) {
      for (const auto& [key, expected] : model) {
        bool equal = false;
        EXPECT_TRUE(map.visit(tx, key, [&](std::string_view stored) { equal = stored == expected; }));
        EXPECT_TRUE(equal);
      }
    }
  });
}

/// `count` random operations on a map and on a model of it, in transactions of one to four.
template <class World, class Map, class Model, class MakeKey, class MakeValue>
void run_against_model(World& world, Map& map, Model& model, std::mt19937_64& random,
                       std::size_t count, unsigned erase_percent, MakeKey&& make_key,
                       MakeValue&& make_value) {
  while (count > 0) {
    const std::size_t here = std::min<std::size_t>(count, 1 + random() % 4);
    count -= here;
    world.atomically([&](auto& tx) {
      for (std::size_t i = 0; i < here; ++i) {
        const auto key = make_key();
        const auto found = model.find(key);
        const bool there = found != model.end();
        ASSERT_EQ(map.contains(tx, key), there);
        const auto value = map.get(tx, key);
        ASSERT_EQ(value.has_value(), there);
        if (there) {
          ASSERT_TRUE(*value == found->second);
        }
        if (random() % 100 < erase_percent) {
          ASSERT_EQ(map.erase(tx, key), there);
          model.erase(key);
        } else {
          const auto fresh = make_value();
          switch (random() % 4) {
            case 0:
              ASSERT_EQ(map.try_put(tx, key, fresh), !there);
              model.try_emplace(key, fresh);
              break;
            case 1:
              ASSERT_EQ(map.update(tx, key,
                                   [&](auto& old) {
                                     ASSERT_TRUE(old == found->second);
                                     old = fresh;
                                   }),
                        there);
              if (there) found->second = fresh;
              break;
            default: ASSERT_EQ(map.put(tx, key, fresh), !there); model[key] = fresh;
          }
        }
      }
    });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace perdure::testing
