// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/rb_map.h"

#include <algorithm>
#include <atomic>
#include <numeric>
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

using Numbers = rb_map<std::uint64_t, std::uint64_t>;
using Model = std::map<std::uint64_t, std::uint64_t>;

struct Name {
  std::array<char, 12> text{};
  friend auto operator<=>(const Name&, const Name&) = default;
};
struct Wide {
  std::array<std::uint64_t, 12> words{};
  friend bool operator==(const Wide&, const Wide&) = default;
};

template <class World>
class RbMap : public ::testing::Test {
 protected:
  World world_;
};
TYPED_TEST_SUITE(RbMap, testing::Worlds);

/// Order, bounds and ranges, against a model.
template <class World>
void expect_same_order(World& world, const Numbers& map, const Model& model) {
  world.atomically([&](auto& tx) {
    const auto same = [&](const auto& entry, Model::const_iterator expected) {
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
      map.for_each_in(tx, low, high, [&](std::uint64_t key, std::uint64_t value) {
        ASSERT_NE(expected, model.end());
        EXPECT_EQ(key, expected->first);
        EXPECT_EQ(value, expected->second);
        ++expected;
      });
      EXPECT_TRUE(expected == model.lower_bound(high));
    }
    auto expected = model.begin();
    map.for_each(tx,
                 [&](std::uint64_t key, std::uint64_t) { EXPECT_EQ(key, (expected++)->first); });
    EXPECT_TRUE(expected == model.end());
  });
}

TYPED_TEST(RbMap, IsEmptyAsZeroBytes) {
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
    EXPECT_FALSE(map->upper_bound(tx, 0));
    map->for_each(tx, [](auto, auto) { ADD_FAILURE() << "an entry in an empty map"; });
    EXPECT_TRUE(map->clear_some(tx, 1));
    map->clear(tx);
  });
  expect_sound(this->world_, *map);
}

TYPED_TEST(RbMap, BehavesLikeTheModel) {
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

/// Every order of insertion of up to seven keys and every key erased from each: all shapes and all
/// cases of the balance that small trees have.
TYPED_TEST(RbMap, StaysSoundInEverySmallShape) {
  auto* map = this->world_.template root<Numbers>();
  std::vector<std::uint64_t> keys(6);
  std::iota(keys.begin(), keys.end(), std::uint64_t{1});
  do {
    for (const std::uint64_t first_gone : keys) {
      this->world_.atomically([&](auto& tx) {
        for (const std::uint64_t key : keys) EXPECT_TRUE(map->put(tx, key, key));
        EXPECT_TRUE(map->erase(tx, first_gone));
      });
      ASSERT_EQ(complaint(this->world_, *map), "nothing");
      this->world_.atomically([&](auto& tx) {
        for (const std::uint64_t key : keys) EXPECT_EQ(map->erase(tx, key), key != first_gone);
      });
      ASSERT_EQ(complaint(this->world_, *map), "nothing");
    }
  } while (std::next_permutation(keys.begin(), keys.end()));
}

TYPED_TEST(RbMap, StaysSoundAfterEveryStepOfGrowthAndDecay) {
  for (const int order : {0, 1, 2}) {
    auto* map = this->world_.template root<Numbers>();
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

TYPED_TEST(RbMap, TakesOtherKeysAndValues) {
  auto* map = this->world_.template root<rb_map<Name, Wide>>();
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
  expect_equal(this->world_, *map, model);
  expect_sound(this->world_, *map);
}

TYPED_TEST(RbMap, WalksStopWhenTold) {
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

TYPED_TEST(RbMap, ClearsInPieces) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t key = 0; key < 250; ++key) map->put(tx, key, key);
  });
  int calls = 1;
  while (!this->world_.atomically([&](auto& tx) { return map->clear_some(tx, 100); })) {
    expect_sound(this->world_, *map);
    ++calls;
  }
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(this->world_.live_objects().empty());
}

TYPED_TEST(RbMap, AValueKeepsItsAddressUntilItsKeyIsErased) {
  auto* map = this->world_.template root<rb_map<std::uint64_t, string>>();
  std::map<std::uint64_t, const string*> places;
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t key = 0; key < 300; ++key) {
      map->put(tx, key, string{});
      map->find(tx, key)->assign(tx, std::to_string(key));
      places[key] = map->find(tx, key);
    }
  });
  for (std::uint64_t gone = 1; gone < 300; gone += 2) {
    this->world_.atomically([&](auto& tx) {
      map->find(tx, gone)->clear(tx);
      map->erase(tx, gone);
    });
    places.erase(gone);
    this->world_.atomically([&](auto& tx) {
      for (const auto& [key, place] : places) EXPECT_EQ(map->find(tx, key), place);
    });
  }
  this->world_.atomically([&](auto& tx) {
    for (const auto& [key, place] : places) EXPECT_EQ(place->str(tx), std::to_string(key));
    for (const auto& [key, place] : places) map->find(tx, key)->clear(tx);
    map->clear(tx);
  });
  EXPECT_TRUE(this->world_.live_objects().empty());
}

// ---- what only ordinary memory can show ---------------------------------------------------------

TEST(RbMapPlain, AFailedAllocationLosesNothing) {
  PlainWorld world;
  auto* map = world.root<Numbers>();
  Model model;
  std::mt19937_64 random(6);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t key = random() % 100000;
    world.tx().allowed = static_cast<std::int64_t>(random() % 3);
    if (testing::allocates([&] { map->put(world.tx(), key, key); })) model[key] = key;
    world.tx().allowed = -1;
    if (i % 20 == 0) expect_sound(world, *map);
  }
  EXPECT_GT(model.size(), 1000u);
  expect_equal(world, *map, model);
}

class RbMapAudit : public ::testing::Test {
 protected:
  // 2 is the root, 1 and 3 hang below it, red; 4 below 3 makes both black.
  RbMapAudit() {
    for (std::uint64_t key = 1; key <= 4; ++key) map_->put(world_.tx(), key, key);
    map_->audit(world_.tx(), [&](std::uint64_t at) {
      auto* object = reinterpret_cast<std::uint64_t*>(at);
      if (base_ == nullptr) {
        base_ = object;
      } else {
        nodes_[object[kKey]] = object;
      }
    });
  }
  void expect_complaint(const std::string& part) {
    EXPECT_NE(complaint(world_, *map_).find(part), std::string::npos) << complaint(world_, *map_);
  }
  // A node in words: left, right, colour, key, value.
  static constexpr std::size_t kRight = 1;
  static constexpr std::size_t kColor = 2;
  static constexpr std::size_t kKey = 3;

  PlainWorld world_;
  Numbers* map_ = world_.root<Numbers>();
  std::uint64_t* base_ = nullptr;
  std::map<std::uint64_t, std::uint64_t*> nodes_;
};

TEST_F(RbMapAudit, FindsNothingWrongWithASoundMap) {
  expect_complaint("nothing");
  EXPECT_EQ(nodes_.size(), 4u);
}
TEST_F(RbMapAudit, FindsAColorThatIsNone) {
  nodes_[3][kColor] = 7;
  expect_complaint("is neither red nor black");
}
TEST_F(RbMapAudit, FindsARedRoot) {
  nodes_[2][kColor] = 1;
  expect_complaint("is a red root");
}
TEST_F(RbMapAudit, FindsARedNodeBelowARedOne) {
  nodes_[1][kColor] = 1;
  nodes_[3][kColor] = 1;
  expect_complaint("is red below a red one");
}
TEST_F(RbMapAudit, FindsUnequalWaysDown) {
  nodes_[1][kColor] = 1;
  expect_complaint("has 0 black nodes on the left, 1 on the right");
}
TEST_F(RbMapAudit, FindsKeysOutOfOrder) {
  nodes_[4][kKey] = 3;
  expect_complaint("has a key out of order");
}
TEST_F(RbMapAudit, FindsACircle) {
  nodes_[4][kRight] = reinterpret_cast<std::uint64_t>(nodes_[2]);
  expect_complaint("more entries than the 4 counted");
}
TEST_F(RbMapAudit, FindsAWrongSize) {
  base_[8] += 1;  // the first stripe of the count
  expect_complaint("5 entries counted, 4 found");
  base_[8] -= 2;
  expect_complaint("more entries than the 3 counted");
}
TEST_F(RbMapAudit, AWayThatNeverEndsIsRefusedByTheOperations) {
  nodes_[4][kRight] = reinterpret_cast<std::uint64_t>(nodes_[4]);
  const auto expect_corrupt = [&](auto&& operation) {
    try {
      operation(world_.tx());
      ADD_FAILURE() << "went on";
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), Code::kCorrupt);
    }
  };
  expect_corrupt([&](auto& tx) { map_->put(tx, 9, 9); });
  expect_corrupt([&](auto& tx) { map_->erase(tx, 9); });
  expect_corrupt([&](auto& tx) { map_->get(tx, 9); });
  expect_corrupt([&](auto& tx) { map_->last(tx); });
}

// ---- what only pools can show -------------------------------------------------------------------

TEST(RbMapPool, IsTheSameAfterReopening) {
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

TEST(RbMapPool, AnExceptionOfTheUserTakesEverythingBack) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  Model model;
  for (std::uint64_t key = 0; key < 300; ++key) model.emplace(key, key);
  world.atomically([&](Tx& tx) {
    for (const auto& [key, value] : model) map->put(tx, key, value);
  });
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

TEST(RbMapPool, ThreadsWithKeysOfTheirOwnLoseNothing) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kKeys = 1500;
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

}  // namespace
}  // namespace perdure
