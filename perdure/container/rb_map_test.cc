// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/rb_map.h"

#include <algorithm>
#include <numeric>

#include "perdure/container/container_test_world.h"
#include "perdure/container/string.h"

namespace perdure {
namespace {

using testing::complaint;
using testing::PlainWorld;

using Numbers = rb_map<std::uint64_t, std::uint64_t>;

template <class World>
using RbMap = testing::InEachWorld<World>;
TYPED_TEST_SUITE(RbMap, testing::Worlds);

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

class RbMapAudit : public ::testing::Test {
 protected:
  // 2 is the root, 1 and 3 hang below it, red; 4 below 3 makes both black.
  RbMapAudit() {
    for (std::uint64_t key = 1; key <= 4; ++key) map_->put(world_.tx(), key, key);
    const auto objects = testing::objects_of(world_, *map_);
    base_ = objects[0];
    for (std::size_t i = 1; i < objects.size(); ++i) nodes_[objects[i][kKey]] = objects[i];
  }
  void expect_complaint(const std::string& part) { testing::expect_complaint(world_, *map_, part); }
  // A node in words: left, right, colour, key, value.
  static constexpr std::size_t kRight = 1;
  static constexpr std::size_t kColor = 2;
  static constexpr std::size_t kKey = 3;

  PlainWorld world_;
  Numbers* map_ = world_.root<Numbers>();
  std::uint64_t* base_;
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

}  // namespace
}  // namespace perdure
