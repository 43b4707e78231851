// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/hash_map.h"

#include <unordered_map>

#include "perdure/api/pool_core.h"
#include "perdure/container/container_test_world.h"
#include "perdure/container/string.h"

namespace perdure {
namespace {

using testing::expect_equal;
using testing::expect_sound;
using testing::PlainWorld;
using testing::PoolWorld;

using Numbers = hash_map<std::uint64_t, std::uint64_t>;
using Texts = hash_map<bytes, bytes>;

template <class World>
using HashMap = testing::InEachWorld<World>;
TYPED_TEST_SUITE(HashMap, testing::Worlds);

TYPED_TEST(HashMap, KeepsAnyBytesOfAnySize) {
  auto* map = this->world_.template root<Texts>();
  std::unordered_map<std::string, std::string> model = {
      {"", "the empty key"},
      {std::string(1, '\0'), ""},
      {std::string(2, '\0'), std::string(1, '\0')},
      {"page", std::string(8192, 'p')},
      {"more than a block", std::string(8193, 'b')},
      {"64 KiB", std::string(65536, 'k')},
      {"huge", std::string(900000, 'h')},
      {std::string(20000, 'K'), "a long key"},
      {std::string(20000, 'K') + 'x', "another"},
  };
  for (const auto& [key, value] : model) {
    this->world_.atomically([&](auto& tx) { EXPECT_TRUE(map->put(tx, key, value)); });
  }
  expect_equal(this->world_, *map, model);
  this->world_.atomically([&](auto& tx) {
    for (const auto& [key, value] : model) EXPECT_EQ(map->get(tx, key), value);
  });
  expect_sound(this->world_, *map);
}

TYPED_TEST(HashMap, ForEachMayEraseItsEntry) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t i = 0; i < 500; ++i) map->put(tx, i, i);
  });
  this->world_.atomically([&](auto& tx) {
    map->for_each(tx, [&](std::uint64_t key, std::uint64_t) {
      if (key % 2 == 0) map->erase(tx, key);
    });
    EXPECT_EQ(map->size(tx), 250u);
    map->for_each(tx, [&](std::uint64_t key, std::uint64_t) { EXPECT_EQ(key % 2, 1u); });
  });
  expect_sound(this->world_, *map);
}

// Growth between every two calls, from 300 to some thousand entries, and then erasure.
TYPED_TEST(HashMap, ScanSeesLastingEntriesExactlyOnceWhileTheMapChanges) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically(
      [&](auto& tx) { EXPECT_EQ(map->scan(tx, 0, 10, [](auto, auto) { ADD_FAILURE(); }), 0u); });
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    constexpr std::uint64_t kLasting = 300;
    std::mt19937_64 random(seed);
    this->world_.atomically([&](auto& tx) {
      for (std::uint64_t key = 0; key < kLasting; ++key) map->put(tx, key, 1);
    });
    std::map<std::uint64_t, int> seen;
    std::uint64_t cursor = 0;
    std::uint64_t fresh = kLasting;
    do {
      this->world_.atomically([&](auto& tx) {
        auto attempt = seen;
        std::size_t count = 0;
        const std::uint64_t next = map->scan(tx, cursor, 5, [&](std::uint64_t key, std::uint64_t) {
          ++attempt[key];
          ++count;
        });
        EXPECT_LT(count, 40u);
        cursor = next;
        seen = std::move(attempt);
      });
      this->world_.atomically([&](auto& tx) {
        for (std::uint64_t i = random() % 100; i > 0 && fresh < 5000; --i) map->put(tx, fresh++, 2);
        for (std::uint64_t i = random() % 50; i > 0; --i)
          map->erase(tx, kLasting + random() % (fresh - kLasting + 1));
      });
    } while (cursor != 0);
    for (std::uint64_t key = 0; key < kLasting; ++key) EXPECT_EQ(seen[key], 1) << key;
    for (const auto& [key, times] : seen) EXPECT_LE(times, 1) << key;
    this->world_.atomically([&](auto& tx) { map->clear(tx); });
  }
}

TYPED_TEST(HashMap, RefusesASeedOnceInUse) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    map->use_seed(tx, 42);
    map->put(tx, 1, 1);
    EXPECT_THROW(map->use_seed(tx, 43), Exception);
    EXPECT_EQ(map->get(tx, 1), 1u);
  });
}

// ---- what only ordinary memory can show ---------------------------------------------------------

class HashMapAudit : public ::testing::Test {
 protected:
  HashMapAudit() {
    map_->use_seed(world_.tx(), 1);
    for (std::uint64_t key = 0; key < 40; ++key) map_->put(world_.tx(), key, key);
    const auto objects = testing::objects_of(world_, *map_);
    table_ = objects.front();
    entry_ = objects.back();
  }
  void expect_complaint(const std::string& part) { testing::expect_complaint(world_, *map_, part); }
  PlainWorld world_;
  Numbers* map_ = world_.root<Numbers>();
  std::uint64_t* table_;  // seed, buckets, …
  std::uint64_t* entry_;  // next, key, value
};

TEST_F(HashMapAudit, FindsNothingWrongWithASoundMap) { expect_complaint("nothing"); }
TEST_F(HashMapAudit, FindsACircle) {
  entry_[0] = reinterpret_cast<std::uint64_t>(entry_);
  expect_complaint("or a circle");
}
TEST_F(HashMapAudit, FindsALostEntry) {
  ASSERT_EQ(entry_[0], 0u);
  map_->erase(world_.tx(), entry_[1]);
  table_[42] += 1;  // the first stripe of the count
  expect_complaint("hash_map: 40 entries counted, 39 found");
}
TEST_F(HashMapAudit, FindsAMisplacedEntry) {
  entry_[1] ^= 0x5555;
  expect_complaint("belongs to another bucket");
}
TEST_F(HashMapAudit, FindsAnImpossibleTable) {
  for (const std::uint64_t buckets :
       {std::uint64_t{0}, std::uint64_t{1} << 50, ~std::uint64_t{0}}) {
    table_[1] = buckets;
    expect_complaint(" buckets");
  }
}
TEST_F(HashMapAudit, FindsAKeyThatIsThereTwice) {
  auto* twin = static_cast<std::uint64_t*>(world_.tx().allocate(32));
  twin[0] = 0;
  twin[1] = entry_[1];
  entry_[0] = reinterpret_cast<std::uint64_t>(twin);
  table_[42] += 1;
  expect_complaint("holds a key twice");
}

TEST(HashMapHash, DependsOnEveryByteTheSizeAndTheSeed) {
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  for (std::size_t size = 0; size < 40; ++size) {
    for (std::size_t at = 0; at <= size; ++at) {
      for (const std::uint64_t seed : {0u, 1u, 2u}) {
        std::string key(size, '\0');
        if (at < size) key[at] = 1;
        seen.insert(detail::hash_memory(key.data(), key.size(), seed));
        ++count;
      }
    }
  }
  EXPECT_EQ(seen.size(), count);
}

// Each output bit must flip for half of all single-bit changes.
TEST(HashMapHash, SpreadsEveryBit) {
  std::mt19937_64 random(6);
  std::array<int, 64> flips{};
  constexpr int kRounds = 4000;
  for (int i = 0; i < kRounds; ++i) {
    const std::uint64_t key = random() % 1000;  // small numbers, as people use them
    const std::uint64_t other = key ^ (std::uint64_t{1} << random() % 64);
    std::uint64_t changed = detail::hash_memory(&key, 8, 99) ^ detail::hash_memory(&other, 8, 99);
    for (int& flip : flips) {
      flip += static_cast<int>(changed & 1);
      changed >>= 1;
    }
  }
  for (const int flip : flips) EXPECT_NEAR(flip, kRounds * 0.5, kRounds * 0.1);
}

// ---- what only pools can show -------------------------------------------------------------------

TEST(HashMapPool, AnEntryOfTwoWordsFitsThirtyTwoBytes) {
  using WideValues = hash_map<std::uint64_t, std::array<std::uint64_t, 8>>;
  PoolWorld world;
  const auto grown_by = [&](auto insert) {
    const auto before = core_of(world.pool()).heap().usage().object_bytes;
    world.atomically(insert);
    return core_of(world.pool()).heap().usage().object_bytes - before;
  };
  auto* numbers = world.root<Numbers>();
  auto* wide = world.root<WideValues>();
  auto* texts = world.root<Texts>();
  world.atomically([&](Tx& tx) {
    numbers->put(tx, 0, 0);
    wide->put(tx, 0, {});
    texts->put(tx, "", "");
  });
  EXPECT_EQ(grown_by([&](Tx& tx) { numbers->put(tx, 1, 1); }), 32u);
  EXPECT_EQ(grown_by([&](Tx& tx) { wide->put(tx, 1, {}); }), 80u);
  EXPECT_EQ(grown_by([&](Tx& tx) { texts->put(tx, "8 bytes.", std::string(64, 'v')); }), 96u);
}

}  // namespace
}  // namespace perdure
