// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/btree_map.h"

#include "perdure/container/container_test_world.h"
#include "perdure/container/string.h"

namespace perdure {
namespace {

using testing::complaint;
using testing::expect_equal;
using testing::expect_sound;
using testing::PlainWorld;

using Numbers = btree_map<std::uint64_t, std::uint64_t>;
using Small = btree_map<std::uint64_t, std::uint64_t, 104>;  // four entries a node: deep trees
using Texts = btree_map<std::uint64_t, bytes, 104>;
using Model = std::map<std::uint64_t, std::uint64_t>;

template <class World>
using BtreeMap = testing::InEachWorld<World>;
TYPED_TEST_SUITE(BtreeMap, testing::Worlds);

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

TYPED_TEST(BtreeMap, BulkLoadBuildsWhatInsertionWould) {
  auto* numbers = this->world_.template root<Numbers>();
  auto* small = this->world_.template root<Small>();
  auto* texts = this->world_.template root<Texts>();
  for (const std::size_t size : {0u, 1u, 4u, 5u, 29u, 30u, 31u, 59u, 870u, 871u, 900u, 5000u}) {
    const auto load = [&](auto& map, auto&& value) {
      std::map<std::uint64_t, decltype(value(0))> model;
      for (std::uint64_t i = 0; i < size; ++i) model.emplace(i * 3, value(i));
      this->world_.atomically([&](auto& tx) { map.bulk_load(tx, model.begin(), model.end()); });
      EXPECT_EQ(complaint(this->world_, map), "nothing") << size;
      expect_equal(this->world_, map, model);
      this->world_.atomically([&](auto& tx) {
        for (std::uint64_t i = 0; i < size; i += 7) EXPECT_TRUE(map.erase(tx, i * 3));
        for (std::uint64_t i = 0; i < size; i += 5) map.put(tx, i * 3 + 1, value(i));
      });
      EXPECT_EQ(complaint(this->world_, map), "nothing") << size;
      this->world_.atomically([&](auto& tx) { map.clear(tx); });
    };
    load(*numbers, [](std::uint64_t i) { return i; });
    load(*small, [](std::uint64_t i) { return i; });
    load(*texts, [](std::uint64_t i) { return std::string(i % 700, 't'); });
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

// ---- what only ordinary memory can show ---------------------------------------------------------

TEST(BtreeMapPlain, AFailedBulkLoadLeavesNothing) {
  PlainWorld world;
  const auto expect_nothing_left = [&](auto* map, const auto& model) {
    const std::size_t before = world.live_objects().size();
    for (std::int64_t allowed = 0; allowed < 60; ++allowed) {
      world.tx().allowed = allowed;
      EXPECT_THROW(map->bulk_load(world.tx(), model.begin(), model.end()), std::bad_alloc);
      EXPECT_LE(world.live_objects().size(), before + 1);
      EXPECT_TRUE(map->empty(world.tx()));
    }
  };
  Model numbers;
  std::map<std::uint64_t, std::string> texts;
  for (std::uint64_t key = 0; key < 1000; ++key) {
    numbers.emplace(key, key);
    texts.emplace(key, std::string(key % 40, 'v'));
  }
  expect_nothing_left(world.root<Small>(), numbers);
  expect_nothing_left(world.root<Texts>(), texts);
}

TEST(BtreeMapPlain, AuditFindsAValueThatOverrunsItsObject) {
  PlainWorld world;
  auto* map = world.root<btree_map<std::uint64_t, bytes>>();
  map->put(world.tx(), 1, "value");
  const auto objects = testing::objects_of(world, *map);
  const auto with_room = [&](std::uint64_t room) {
    return map->audit(world.tx(), [&](std::uint64_t at) -> std::uint64_t {
      return reinterpret_cast<std::uint64_t*>(at) == objects.back() ? room : 4096;
    });
  };
  EXPECT_EQ(with_room(13), std::nullopt);
  EXPECT_NE(with_room(12).value_or("").find("do not agree"), std::string::npos);
  EXPECT_NE(with_room(7).value_or("").find("do not agree"), std::string::npos);
  *objects.back() = ~std::uint64_t{0};
  EXPECT_NE(with_room(4096).value_or("").find("do not agree"), std::string::npos);
}

TEST(BtreeMapPlain, AWalkOverADamagedLeafStaysInside) {
  PlainWorld world;
  auto* map = world.root<btree_map<std::uint64_t, std::uint64_t>>();
  map->put(world.tx(), 1, 1);
  auto* const value = map->find(world.tx(), 1);
  auto* const head = reinterpret_cast<std::uint8_t*>(testing::objects_of(world, *map).back());
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
    const auto objects = testing::objects_of(world_, *map_);
    base_ = objects[0];
    root_ = objects[1];
    leaf_ = objects.back();
  }
  void expect_complaint(const std::string& part) { testing::expect_complaint(world_, *map_, part); }
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

}  // namespace
}  // namespace perdure
