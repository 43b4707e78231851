// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/btree_map.h"

#include <atomic>
#include <thread>

#include "perdure/container/container_test_world.h"
#include "perdure/container/string.h"

namespace perdure {
namespace {

using testing::complaint;
using testing::expect_equal;
using testing::expect_sound;
using testing::PlainWorld;
using testing::PoolWorld;
using testing::run_against_model;

using Numbers = btree_map<std::uint64_t, std::uint64_t>;
using Small = btree_map<std::uint64_t, std::uint64_t, 104>;  // four entries a node: deep trees
using Model = std::map<std::uint64_t, std::uint64_t>;

struct Name {
  std::array<char, 12> text{};
  friend auto operator<=>(const Name&, const Name&) = default;
};
struct Wide {
  std::array<std::uint64_t, 8> words{};
  friend bool operator==(const Wide&, const Wide&) = default;
};

template <class World>
class BtreeMap : public ::testing::Test {
 protected:
  World world_;
};
TYPED_TEST_SUITE(BtreeMap, testing::Worlds);

/// Order, bounds and ranges, against a model.
template <class World, class Map, class Model>
void expect_same_order(World& world, const Map& map, const Model& model) {
  world.atomically([&](auto& tx) {
    const auto same = [&](const auto& entry, typename Model::const_iterator expected) {
      ASSERT_EQ(entry.has_value(), expected != model.end());
      if (entry) {
        EXPECT_EQ(entry->first, expected->first);
        EXPECT_EQ(entry->second, expected->second);
      }
    };
    same(map.first(tx), model.begin());
    same(map.last(tx), model.empty() ? model.end() : std::prev(model.end()));
    std::mt19937_64 random(9);
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t low = random() % 3000;
      const std::uint64_t high = low + random() % 300;
      same(map.lower_bound(tx, low), model.lower_bound(low));
      same(map.upper_bound(tx, low), model.upper_bound(low));
      auto expected = model.lower_bound(low);
      map.for_each_in(tx, low, high, [&](std::uint64_t key, const auto& value) {
        ASSERT_NE(expected, model.end());
        EXPECT_EQ(key, expected->first);
        EXPECT_EQ(value, expected->second);
        ++expected;
      });
      EXPECT_TRUE(expected == model.lower_bound(high));
    }
    auto expected = model.begin();
    map.for_each(tx, [&](std::uint64_t key, const auto&) { EXPECT_EQ(key, (expected++)->first); });
  });
}

TYPED_TEST(BtreeMap, IsEmptyAsZeroBytes) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    EXPECT_TRUE(map->empty(tx));
    EXPECT_EQ(map->size(tx), 0u);
    EXPECT_FALSE(map->get(tx, 1));
    EXPECT_FALSE(map->find(tx, 1));
    EXPECT_FALSE(map->erase(tx, 1));
    EXPECT_FALSE(map->first(tx));
    EXPECT_FALSE(map->last(tx));
    EXPECT_FALSE(map->lower_bound(tx, 0));
    EXPECT_TRUE(map->clear_some(tx, 1));
    map->clear(tx);
  });
  expect_sound(this->world_, *map);
}

TYPED_TEST(BtreeMap, BehavesLikeTheModel) {
  auto* map = this->world_.template root<Numbers>();
  Model model;
  std::mt19937_64 random(1);
  for (const unsigned erase_percent : {20u, 80u, 50u, 95u, 10u}) {
    run_against_model(
        this->world_, *map, model, random, 6000, erase_percent, [&] { return random() % 3000; },
        [&] { return random(); });
    expect_equal(this->world_, *map, model);
    expect_same_order(this->world_, *map, model);
    expect_sound(this->world_, *map);
  }
}

TYPED_TEST(BtreeMap, BehavesLikeTheModelWhenDeep) {
  auto* map = this->world_.template root<Small>();
  Model model;
  std::mt19937_64 random(2);
  for (const unsigned erase_percent : {10u, 90u, 50u, 97u, 30u}) {
    run_against_model(
        this->world_, *map, model, random, 4000, erase_percent, [&] { return random() % 2000; },
        [&] { return random(); });
    expect_equal(this->world_, *map, model);
    expect_same_order(this->world_, *map, model);
    expect_sound(this->world_, *map);
  }
}

TYPED_TEST(BtreeMap, ValuesOfAnyLengthAreObjectsOfTheirOwn) {
  auto* map = this->world_.template root<btree_map<std::uint64_t, bytes, 104>>();
  std::map<std::uint64_t, std::string> model;
  std::mt19937_64 random(7);
  for (const unsigned erase_percent : {20u, 90u, 40u}) {
    run_against_model(
        this->world_, *map, model, random, 2000, erase_percent, [&] { return random() % 1000; },
        [&] { return std::string(random() % 700, static_cast<char>('a' + random() % 26)); });
    expect_equal(this->world_, *map, model);
    expect_same_order(this->world_, *map, model);
    expect_sound(this->world_, *map);
  }
  this->world_.atomically([&](auto& tx) { map->clear(tx); });
  EXPECT_TRUE(this->world_.live_objects().empty());
  this->world_.atomically([&](auto& tx) { map->bulk_load(tx, model.begin(), model.end()); });
  expect_equal(this->world_, *map, model);
  expect_sound(this->world_, *map);
  this->world_.atomically([&](auto& tx) {
    while (!map->clear_some(tx, 50)) {
    }
  });
  EXPECT_TRUE(this->world_.live_objects().empty());
}

TYPED_TEST(BtreeMap, StaysSoundAfterEveryStepOfGrowthAndDecay) {
  for (const int order : {0, 1, 2}) {
    auto* map = this->world_.template root<Small>();
    std::vector<std::uint64_t> keys(200);
    std::iota(keys.begin(), keys.end(), 0u);
    if (order == 1) std::reverse(keys.begin(), keys.end());
    if (order == 2) std::shuffle(keys.begin(), keys.end(), std::mt19937_64(3));
    for (const std::uint64_t key : keys) {
      this->world_.atomically([&](auto& tx) { EXPECT_TRUE(map->put(tx, key, key)); });
      EXPECT_EQ(complaint(this->world_, *map), "nothing");
    }
    std::rotate(keys.begin(), keys.begin() + 70, keys.end());
    for (const std::uint64_t key : keys) {
      this->world_.atomically([&](auto& tx) { EXPECT_TRUE(map->erase(tx, key)); });
      EXPECT_EQ(complaint(this->world_, *map), "nothing");
    }
    this->world_.atomically([&](auto& tx) { map->clear(tx); });
    EXPECT_TRUE(this->world_.live_objects().empty());
  }
}

TYPED_TEST(BtreeMap, TakesOtherKeysAndValues) {
  auto* map = this->world_.template root<btree_map<Name, Wide>>();
  std::map<Name, Wide> model;
  std::mt19937_64 random(4);
  const auto name = [&] {
    Name made;
    for (std::size_t i = random() % made.text.size(); i > 0; --i)
      made.text[i] = static_cast<char>(random() % 3);
    return made;
  };
  run_against_model(this->world_, *map, model, random, 4000, 30, name,
                    [&] { return Wide{{random()}}; });
  this->world_.atomically([&](auto& tx) {
    auto expected = model.begin();
    map->for_each(tx, [&](const Name& key, const Wide& value) {
      EXPECT_TRUE(key == expected->first && value == expected->second);
      ++expected;
    });
    EXPECT_EQ(expected, model.end());
  });
  expect_sound(this->world_, *map);
}

TYPED_TEST(BtreeMap, AscendingInsertionLeavesFullLeaves) {
  auto* map = this->world_.template root<Numbers>();
  constexpr std::uint64_t kKeys = 2900;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    this->world_.atomically([&](auto& tx) { map->put(tx, key, key); });
  }
  expect_sound(this->world_, *map);
  EXPECT_LE(this->world_.live_objects().size(), 1 + kKeys / 29 + 5);
}

/// Wherever the ascending keys stop, and a full inner node on the right edge is split by a key that
/// stays on its left: what is not the end of its level any more must not be filled like one.
TYPED_TEST(BtreeMap, AnInsertionBeforeTheEndKeepsNodesFilledAfterAscendingOnes) {
  auto* map = this->world_.template root<Numbers>();
  for (const std::uint64_t count : {60u, 120u, 145u, 200u, 842u, 870u, 900u}) {
    for (std::uint64_t back = 1; back <= 60; ++back) {
      this->world_.atomically([&](auto& tx) {
        map->clear(tx);
        for (std::uint64_t key = 0; key < count; ++key) map->put(tx, key * 10, key);
        map->put(tx, (count - back) * 10 + 5, 1);
      });
      expect_sound(this->world_, *map);
    }
  }
}

TYPED_TEST(BtreeMap, WalksStopWhenTold) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t key = 0; key < 100; ++key) map->put(tx, key, key);
    int calls = 0;
    map->for_each(tx, [&](auto, auto) { return ++calls < 40; });
    EXPECT_EQ(calls, 40);
    map->for_each_in(tx, 10, 90, [&](auto, auto) { return --calls > 0; });
    EXPECT_EQ(calls, 0);
  });
}

TYPED_TEST(BtreeMap, AWalkGoesOnInTheNextTransactionWhileTheMapChanges) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t key = 0; key < 2000; key += 2) map->put(tx, key, key);
  });
  std::mt19937_64 random(5);
  std::uint64_t expected = 0;
  auto entry = this->world_.atomically([&](auto& tx) { return map->first(tx); });
  while (entry) {
    if (entry->first % 2 == 0) {
      EXPECT_EQ(entry->first, expected);
      expected += 2;
    }
    this->world_.atomically([&](auto& tx) { map->put(tx, random() % 1000 * 2 + 1, 0); });
    this->world_.atomically([&](auto& tx) { map->erase(tx, random() % 1000 * 2 + 1); });
    entry = this->world_.atomically([&](auto& tx) { return map->upper_bound(tx, entry->first); });
  }
  EXPECT_EQ(expected, 2000u);
}

TYPED_TEST(BtreeMap, BulkLoadBuildsWhatInsertionWould) {
  for (const std::size_t size : {0u, 1u, 4u, 5u, 29u, 30u, 31u, 59u, 870u, 871u, 900u, 5000u}) {
    auto* map = this->world_.template root<Numbers>();
    auto* small = this->world_.template root<Small>();
    Model model;
    for (std::uint64_t i = 0; i < size; ++i) model.emplace(i * 3, i);
    const auto load = [&](auto& to) {
      this->world_.atomically([&](auto& tx) { to.bulk_load(tx, model.begin(), model.end()); });
      EXPECT_EQ(complaint(this->world_, to), "nothing") << size;
      expect_equal(this->world_, to, model);
      this->world_.atomically([&](auto& tx) {
        for (std::uint64_t i = 0; i < size; i += 7) EXPECT_TRUE(to.erase(tx, i * 3));
        for (std::uint64_t i = 0; i < size; i += 5) to.put(tx, i * 3 + 1, i);
      });
      EXPECT_EQ(complaint(this->world_, to), "nothing") << size;
      this->world_.atomically([&](auto& tx) { to.clear(tx); });
    };
    load(*map);
    load(*small);
    EXPECT_TRUE(this->world_.live_objects().empty());
  }
}

TYPED_TEST(BtreeMap, BulkLoadRefusesWhatItCannotTake) {
  auto* map = this->world_.template root<Numbers>();
  using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  const auto code = [&](const Pairs& pairs) {
    try {
      this->world_.atomically([&](auto& tx) { map->bulk_load(tx, pairs.begin(), pairs.end()); });
    } catch (const Exception& error) {
      return std::string(code_name(error.code()));
    }
    return std::string("loaded");
  };
  EXPECT_EQ(code({{1, 0}, {3, 0}, {2, 0}}), "invalid");
  EXPECT_EQ(code({{1, 0}, {1, 0}}), "invalid");
  EXPECT_TRUE(this->world_.live_objects().empty());
  EXPECT_EQ(code({{1, 0}}), "loaded");
  EXPECT_EQ(code({{2, 0}}), "misuse");
}

TYPED_TEST(BtreeMap, ClearSomeLeavesAUsableMap) {
  auto* map = this->world_.template root<Numbers>();
  Model model;
  for (std::uint64_t key = 0; key < 3000; ++key) model.emplace(key, key);
  this->world_.atomically([&](auto& tx) { map->bulk_load(tx, model.begin(), model.end()); });
  bool empty = false;
  while (!empty) {
    this->world_.atomically([&](auto& tx) { empty = map->clear_some(tx, 400); });
    for (int i = 0; i < 400 && !model.empty(); ++i) model.erase(std::prev(model.end()));
    expect_equal(this->world_, *map, model);
    expect_sound(this->world_, *map);
  }
  EXPECT_TRUE(this->world_.live_objects().empty());
}

TYPED_TEST(BtreeMap, ValuesMayBeContainersThatAreFoundInPlace) {
  auto* map = this->world_.template root<btree_map<std::uint64_t, string>>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t key = 0; key < 100; ++key) {
      map->put(tx, key, string{});
      map->find(tx, key)->assign(tx, std::to_string(key));
    }
    for (std::uint64_t key = 0; key < 100; ++key) {
      EXPECT_EQ(map->find(tx, key)->str(tx), std::to_string(key));
      map->find(tx, key)->clear(tx);
    }
    map->clear(tx);
  });
  EXPECT_TRUE(this->world_.live_objects().empty());
}

// ---- what only ordinary memory can show ---------------------------------------------------------

TEST(BtreeMapPlain, AFailedAllocationLosesNothing) {
  PlainWorld world;
  auto* map = world.root<Small>();
  Model model;
  std::mt19937_64 random(6);
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t key = random() % 100000;
    world.tx().allowed = static_cast<std::int64_t>(random() % 3);
    const bool done = testing::allocates([&] { map->put(world.tx(), key, key); });
    if (done) model[key] = key;
    world.tx().allowed = -1;
    if (i % 20 == 0) expect_sound(world, *map);
  }
  expect_equal(world, *map, model);
  expect_sound(world, *map);

  auto* bulk = world.root<Small>();
  const std::size_t before = world.live_objects().size();
  for (std::int64_t allowed = 0; allowed < 40; ++allowed) {
    world.tx().allowed = allowed;
    EXPECT_THROW(bulk->bulk_load(world.tx(), model.begin(), model.end()), std::bad_alloc);
    EXPECT_LE(world.live_objects().size(), before + 1);
    EXPECT_TRUE(bulk->empty(world.tx()));
  }
}

TEST(BtreeMapPlain, AFailedAllocationOfAValueLosesNothing) {
  using Texts = btree_map<std::uint64_t, bytes, 104>;
  PlainWorld world;
  auto* map = world.root<Texts>();
  std::map<std::uint64_t, std::string> model;
  std::mt19937_64 random(6);
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t key = random() % 1500;
    const std::string value(random() % 40, 'v');
    world.tx().allowed = static_cast<std::int64_t>(random() % 4);
    const bool done = testing::allocates([&] { map->put(world.tx(), key, value); });
    if (done) model[key] = value;
    world.tx().allowed = -1;
    if (i % 20 == 0) expect_sound(world, *map);
  }
  expect_equal(world, *map, model);
  expect_sound(world, *map);

  auto* bulk = world.root<Texts>();
  const std::size_t before = world.live_objects().size();
  for (std::int64_t allowed = 0; allowed < 60; ++allowed) {
    world.tx().allowed = allowed;
    EXPECT_THROW(bulk->bulk_load(world.tx(), model.begin(), model.end()), std::bad_alloc);
    EXPECT_LE(world.live_objects().size(), before + 1);
    EXPECT_TRUE(bulk->empty(world.tx()));
  }
}

TEST(BtreeMapPlain, AuditFindsAValueThatOverrunsItsObject) {
  PlainWorld world;
  auto* map = world.root<btree_map<std::uint64_t, bytes>>();
  map->put(world.tx(), 1, "value");
  std::vector<std::uint64_t*> objects;
  map->audit(world.tx(),
             [&](std::uint64_t at) { objects.push_back(reinterpret_cast<std::uint64_t*>(at)); });
  const auto with_room = [&](std::uint64_t room) {
    return map->audit(world.tx(), [&](std::uint64_t at) -> std::uint64_t {
      return reinterpret_cast<std::uint64_t*>(at) == objects.back() ? room : 4096;
    });
  };
  EXPECT_EQ(with_room(13), std::nullopt);
  EXPECT_NE(with_room(12).value_or("").find("overruns"), std::string::npos);
  EXPECT_NE(with_room(7).value_or("").find("overruns"), std::string::npos);
  *objects.back() = ~std::uint64_t{0};
  EXPECT_NE(with_room(4096).value_or("").find("overruns"), std::string::npos);
}

TEST(BtreeMapPlain, AWalkOverADamagedLeafStaysInside) {
  PlainWorld world;
  auto* map = world.root<btree_map<std::uint64_t, std::uint64_t>>();
  map->put(world.tx(), 1, 1);
  auto* const value = map->find(world.tx(), 1);
  std::vector<std::uint64_t> objects;
  map->audit(world.tx(), [&](std::uint64_t at) { objects.push_back(at); });
  auto* const head = reinterpret_cast<std::uint8_t*>(objects.back());
  ASSERT_TRUE(reinterpret_cast<std::uint8_t*>(value) > head);
  const auto walk = [&] { map->for_each(world.tx(), [](std::uint64_t, std::uint64_t) {}); };
  head[2] = 0xff;  // the first slot
  EXPECT_THROW(walk(), Exception);
  head[2] = 0;
  head[0] = 0xff;  // the count
  EXPECT_THROW(walk(), Exception);
  head[0] = 1;
  walk();
}

class BtreeMapAudit : public ::testing::Test {
 protected:
  BtreeMapAudit() {
    for (std::uint64_t key = 0; key < 64; ++key) map_->put(world_.tx(), key, key);
    std::vector<std::uint64_t*> objects;
    map_->audit(world_.tx(),
                [&](std::uint64_t at) { objects.push_back(reinterpret_cast<std::uint64_t*>(at)); });
    base_ = objects[0];
    root_ = objects[1];
    leaf_ = objects.back();
  }
  void expect_complaint(const std::string& part) {
    EXPECT_NE(complaint(world_, *map_).find(part), std::string::npos) << complaint(world_, *map_);
  }
  std::uint8_t& count_of(std::uint64_t* node) { return reinterpret_cast<std::uint8_t*>(node)[0]; }
  std::uint8_t& level_of(std::uint64_t* node) { return reinterpret_cast<std::uint8_t*>(node)[1]; }
  std::uint8_t* slots_of(std::uint64_t* node) { return reinterpret_cast<std::uint8_t*>(node) + 2; }

  PlainWorld world_;
  Small* map_ = world_.root<Small>();
  std::uint64_t* base_;  // root, …
  std::uint64_t* root_;  // head (4 words), first, keys, children
  std::uint64_t* leaf_;  // the last one
};

TEST_F(BtreeMapAudit, FindsNothingWrongWithASoundMap) { expect_complaint("nothing"); }
TEST_F(BtreeMapAudit, FindsAnImpossibleCount) {
  for (const int count : {0, 5, 255}) {
    count_of(root_) = static_cast<std::uint8_t>(count);
    expect_complaint("holds " + std::to_string(count) + " entries");
  }
}
TEST_F(BtreeMapAudit, FindsAWrongLevel) {
  level_of(leaf_) = 3;
  expect_complaint("claims level 3 where 0 belongs");
  level_of(root_) = 200;
  expect_complaint("the root claims level 200");
}
TEST_F(BtreeMapAudit, FindsASlotUsedTwice) {
  slots_of(leaf_)[0] = slots_of(leaf_)[1];
  expect_complaint("uses a slot twice");
}
TEST_F(BtreeMapAudit, FindsKeysOutOfOrder) {
  leaf_[5 + slots_of(leaf_)[0]] = 3;
  expect_complaint("has a key out of order");
}
TEST_F(BtreeMapAudit, FindsABrokenChainOfLeaves) {
  leaf_[4] = reinterpret_cast<std::uint64_t>(leaf_);
  expect_complaint("the last leaf is followed by another");
}
TEST_F(BtreeMapAudit, FindsACircle) {
  root_[4] = reinterpret_cast<std::uint64_t>(root_);
  expect_complaint("claims level");
}
TEST_F(BtreeMapAudit, FindsAWrongSize) {
  base_[8] += 1;  // the first stripe of the count
  expect_complaint("65 entries counted, 64 found");
  base_[8] -= 2;
  expect_complaint("more entries than the 63 counted");
}

// ---- what only pools can show -------------------------------------------------------------------

TEST(BtreeMapPool, IsTheSameAfterReopening) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  Model model;
  std::mt19937_64 random(7);
  for (int round = 0; round < 4; ++round) {
    run_against_model(
        world, *map, model, random, 2000, 40, [&] { return random() % 3000; },
        [&] { return random(); });
    world.reopen();
    map = world.root<Numbers>();
    expect_equal(world, *map, model);
    expect_same_order(world, *map, model);
    expect_sound(world, *map);
  }
}

TEST(BtreeMapPool, AnExceptionOfTheUserTakesEverythingBack) {
  PoolWorld world;
  auto* map = world.root<Small>();
  Model model;
  for (std::uint64_t key = 0; key < 300; ++key) model.emplace(key, key);
  world.atomically([&](Tx& tx) { map->bulk_load(tx, model.begin(), model.end()); });
  const auto live = world.live_objects();
  EXPECT_THROW(world.atomically([&](Tx& tx) {
    for (std::uint64_t key = 200; key < 600; ++key) map->put(tx, key, 0);
    for (std::uint64_t key = 0; key < 250; ++key) map->erase(tx, key);
    throw std::string("user");
  }),
               std::string);
  EXPECT_EQ(world.live_objects(), live);
  expect_equal(world, *map, model);
  expect_sound(world, *map);
}

TEST(BtreeMapPool, AFullPoolKeepsWhatWasAcknowledgedAndTakesMoreWhenFreed) {
  PoolWorld world(std::uint64_t{1} << 20);
  auto* map = world.root<Numbers>();
  Model model;
  std::mt19937_64 random(8);
  const auto fill = [&] {
    try {
      for (;;) {
        const std::uint64_t key = random();
        world.atomically([&](Tx& tx) { map->put(tx, key, key); });
        model.emplace(key, key);
      }
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), Code::kNoSpace) << error.what();
    }
  };
  fill();
  EXPECT_GT(model.size(), 2000u);
  expect_equal(world, *map, model);
  expect_sound(world, *map);
  for (std::size_t left = model.size() / 2; left > 0; --left) {
    world.atomically([&](Tx& tx) { EXPECT_TRUE(map->erase(tx, model.begin()->first)); });
    model.erase(model.begin());
  }
  const std::size_t half = model.size();
  fill();
  EXPECT_GT(model.size(), half + half / 2);
  expect_equal(world, *map, model);
  expect_sound(world, *map);
}

TEST(BtreeMapPool, ThreadsWithKeysOfTheirOwnLoseNothing) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kKeys = 2500;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        const std::uint64_t key = i * kThreads + t;
        world.atomically([&](Tx& tx) { EXPECT_TRUE(map->put(tx, key, t)); });
        if (i % 3 == 0) world.atomically([&](Tx& tx) { EXPECT_TRUE(map->erase(tx, key)); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Model model;
  for (std::uint64_t key = 0; key < kThreads * kKeys; ++key) {
    if (key / kThreads % 3 != 0) model.emplace(key, key % kThreads);
  }
  expect_equal(world, *map, model);
  expect_sound(world, *map);
}

// Every transaction moves one entry to another key; a reader always counts the same.
TEST(BtreeMapPool, AReaderSeesWholeTransactionsOnly) {
  PoolWorld world;
  auto* map = world.root<Small>();
  constexpr std::uint64_t kEntries = 100;
  world.atomically([&](Tx& tx) {
    for (std::uint64_t key = 0; key < kEntries; ++key) map->put(tx, key * 10, key);
  });
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const auto [count, sum] = world.pool().read_only([&](Tx& tx) {
        std::pair<std::uint64_t, std::uint64_t> seen{};
        std::uint64_t before = 0;
        map->for_each(tx, [&](std::uint64_t key, std::uint64_t value) {
          EXPECT_TRUE(seen.first == 0 || before < key);
          before = key;
          ++seen.first;
          seen.second += value;
        });
        return seen;
      });
      EXPECT_EQ(count, kEntries);
      EXPECT_EQ(sum, kEntries * (kEntries - 1) / 2);
    }
  });
  std::vector<std::thread> writers;
  writers.reserve(2);
  for (unsigned t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 4000; ++i) {
        const std::uint64_t from = random() % 1000;
        const std::uint64_t to = random() % 1000;
        world.atomically([&](Tx& tx) {
          const auto value = map->get(tx, from);
          if (!value || map->contains(tx, to)) return;
          map->erase(tx, from);
          map->put(tx, to, *value);
        });
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  expect_sound(world, *map);
}

}  // namespace
}  // namespace perdure
