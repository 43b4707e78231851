// SPDX-License-Identifier: BSD-3-Clause
// Containers of a damaged pool: whoever uses one is told, and nothing outside of the pool is touched. Random damage is what
// `perdure-lab mutants` tries.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/perdure.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMany = 300;
constexpr Word kFar = std::uint64_t{1} << 44;

class DamagedContainer : public ::testing::Test {
 protected:
  template <class Map>
  Map* filled() {
    auto* map = pool.root<Map>("map");
    for (std::uint64_t key = 0; key < kMany; ++key)
      pool.atomically([&](Tx& tx) { map->put(tx, key, key); });
    return map;
  }
  /// Where the objects are that it owns, in the order of its audit.
  template <class Container>
  std::vector<Offset> objects_of(const Container& container) {
    std::vector<Offset> objects;
    pool.read_only([&](Tx& tx) {
      objects.clear();
      EXPECT_EQ(container.audit(tx, [&](Offset at) { objects.push_back(at); }), std::nullopt);
    });
    return objects;
  }
  std::uint64_t& word(Offset at) { return *pool.at(pptr<std::uint64_t>{at}); }
  std::uint64_t& first_word_of(void* object) { return *static_cast<std::uint64_t*>(object); }
  void damage(std::uint64_t& at, std::uint64_t value) {
    pool.atomically([&](Tx& tx) { tx.store(at, value); });
  }
  /// What `body(tx)` is refused with.
  template <class Body>
  std::string told(Body body) {
    try {
      pool.atomically([&](Tx& tx) { (void)body(tx); });
    } catch (const Exception& refused) {
      EXPECT_EQ(refused.code(), Code::kCorrupt) << refused.what();
      return refused.what();
    }
    return "nothing";
  }

  testing::Image image = testing::Image::formatted();
  Pool pool = image.pool(10).value();
};

TEST_F(DamagedContainer, LinkThatLeavesThePoolIsNotFollowed) {
  auto* map = filled<hash_map<std::uint64_t, std::uint64_t>>();
  const std::uint64_t before = first_word_of(map);
  const auto look = [&](Tx& tx) { return map->get(tx, 1); };
  damage(first_word_of(map), before ^ kFar);
  EXPECT_THAT(told(look), HasSubstr("outside of the pool"));
  damage(first_word_of(map), before + 1);
  EXPECT_THAT(told(look), HasSubstr("no object begins"));
  damage(first_word_of(map), ~std::uint64_t{7});
  EXPECT_THAT(told(look), HasSubstr("outside of the pool"));
  damage(first_word_of(map), core_of(pool).region().grown_bytes() - 8);
  EXPECT_THAT(told(look), HasSubstr("outside of the pool")) << "it would end behind it";
  damage(first_word_of(map), before);
  EXPECT_EQ(told(look), "nothing");
}

TEST_F(DamagedContainer, LinkToWhatAnotherThreadAddedIsFollowed) {
  auto* map = pool.root<hash_map<std::uint64_t, bytes>>("map");
  const std::uint64_t before = core_of(pool).region().grown_bytes();
  std::thread([&] {
    for (std::uint64_t key = 0; core_of(pool).region().grown_bytes() == before; ++key)
      pool.atomically([&](Tx& tx) { map->put(tx, key, std::string(2000, 'x')); });
    pool.atomically([&](Tx& tx) { map->put(tx, 1'000'000, std::string(2000, 'y')); });
  }).join();
  pool.read_only([&](Tx& tx) { EXPECT_EQ(map->get(tx, 1'000'000), std::string(2000, 'y')); });
}

TEST_F(DamagedContainer, CircleOfAHashMapEnds) {
  auto* map = filled<hash_map<std::uint64_t, std::uint64_t>>();
  const Offset last = objects_of(*map).back();
  damage(word(last), last);  // an entry begins with its link to the next
  // The map's salt decides which of the absent keys lead to that chain: enough of them surely do.
  EXPECT_THAT(told([&](Tx& tx) {
                for (std::uint64_t key = kMany; key < 200 * kMany; ++key) (void)map->get(tx, key);
              }),
              HasSubstr("a chain of more entries"));
  EXPECT_THAT(told([&](Tx& tx) { map->for_each(tx, [](std::uint64_t, std::uint64_t) {}); }),
              HasSubstr("a chain of more entries"));
}

TEST_F(DamagedContainer, LengthOfAValueIsNotBelieved) {
  auto* map = pool.root<hash_map<std::uint64_t, bytes>>("map");
  pool.atomically([&](Tx& tx) { map->put(tx, 1, "one"); });
  const Offset entry = objects_of(*map).back();
  damage(word(entry + 8), word(entry + 8) | std::uint64_t{0x70000000} << 32);
  EXPECT_THAT(told([&](Tx& tx) { return map->get(tx, 1); }), HasSubstr("says to have"));
  // Of a key, where its chain is split.
  auto* other = pool.root<hash_map<std::uint64_t, bytes>>("other");
  pool.atomically([&](Tx& tx) { other->put(tx, 0, "none"); });
  const Offset of_key = objects_of(*other).back() + 8;
  damage(word(of_key), (word(of_key) & ~std::uint64_t{0xffffffff}) | 0x70000000);
  EXPECT_THAT(told([&](Tx& tx) {
                for (std::uint64_t key = 1; key < kMany; ++key) other->put(tx, key, "some");
              }),
              HasSubstr("says to have"));
  auto* text = pool.root<string>("text");
  pool.atomically([&](Tx& tx) { text->assign(tx, "text"); });
  damage(*(&first_word_of(text) + 1), kFar);
  EXPECT_THAT(told([&](Tx& tx) { return text->str(tx); }), HasSubstr("says to have"));
}

/// A length that another size of object would have: what stands beside the object is neither read nor written.
TEST_F(DamagedContainer, LengthEndsWithItsObject) {
  const std::string one(20, '1');
  auto* map = pool.root<hash_map<bytes, bytes>>("map");
  auto* tree = pool.root<btree_map<std::uint64_t, bytes>>("tree");
  auto* text = pool.root<string>("text");
  pool.atomically([&](Tx& tx) {
    map->put(tx, "one", one);
    tree->put(tx, 1, one);
    text->assign(tx, one);
  });
  constexpr std::uint64_t kValueOfMap = std::uint64_t{1} << 32;
  struct Length {
    std::uint64_t& word;
    std::uint64_t unit;
    std::uint64_t before_value;  // in its object
    std::function<std::string(Tx&)> get;
  };
  for (const Length& length :
       {Length{word(objects_of(*map).back() + 8), kValueOfMap, 24,
               [&](Tx& tx) { return map->get(tx, "one").value(); }},
        Length{word(objects_of(*tree).back()), 1, 8,
               [&](Tx& tx) { return tree->get(tx, 1).value(); }},
        Length{*(&first_word_of(text) + 1), 1, 0, [&](Tx& tx) { return text->str(tx); }}}) {
    const std::uint64_t sound = length.word;
    const std::uint64_t room = round_up(length.before_value + one.size(), 16);
    for (std::uint64_t bytes = 1; bytes < 300; ++bytes) {
      damage(length.word, sound + (bytes - one.size()) * length.unit);
      if (round_up(length.before_value + bytes, 16) == room) {
        pool.read_only([&](Tx& tx) { EXPECT_EQ(length.get(tx).size(), bytes); });
      } else {
        EXPECT_THAT(told(length.get), HasSubstr("was not allocated")) << bytes;
      }
    }
    damage(length.word, sound);
  }
  // The value would be replaced in place.
  damage(word(objects_of(*map).back() + 8), 3 + 100 * kValueOfMap);
  const auto replace = [&](Tx& tx) { return map->put(tx, "one", std::string(100, 'x')); };
  EXPECT_THAT(told(replace), HasSubstr("was not allocated"));
  const auto erase = [&](Tx& tx) { return map->erase(tx, "one"); };
  EXPECT_THAT(told(erase), HasSubstr("was not allocated"));
  const auto all = [&](Tx& tx) { map->for_each(tx, [](const auto&, const auto&) {}); };
  EXPECT_THAT(told([&](Tx& tx) { return all(tx), 0; }), HasSubstr("was not allocated"));
}

TEST_F(DamagedContainer, SizeOfAVectorIsNotBelieved) {
  auto* list = pool.root<vector<std::uint64_t>>("list");
  pool.atomically([&](Tx& tx) {
    for (std::uint64_t i = 0; i < 100; ++i) list->push_back(tx, i);
  });
  for (const std::uint64_t size : {std::uint64_t{1000}, kFar, ~std::uint64_t{0}}) {
    damage(first_word_of(list), size);
    EXPECT_THAT(told([&](Tx& tx) { return list->at(tx, size - 1); }), HasSubstr("vector: "));
    EXPECT_THAT(told([&](Tx& tx) { list->for_each(tx, [](std::uint64_t) {}); }),
                HasSubstr("vector: "));
  }
}

TEST_F(DamagedContainer, NodeOfABTreeIsNotBelieved) {
  auto* map = filled<btree_map<std::uint64_t, std::uint64_t>>();
  const std::vector<Offset> nodes = objects_of(*map);
  const auto use = [&](Tx& tx) {
    for (std::uint64_t key = 0; key < kMany; ++key) {
      map->put(tx, key, 1);
      map->erase(tx, key);
    }
  };
  const auto walk = [&](Tx& tx) { map->for_each(tx, [](std::uint64_t, std::uint64_t) {}); };
  // Not the root: that its level is another, nothing above it says.
  for (std::size_t i = 2; i < nodes.size(); ++i) {
    const std::uint64_t before = word(nodes[i]);
    for (const std::uint64_t head : {before | 0xff, before ^ 0x100, before ^ 0xff00,
                                     before | ~std::uint64_t{0xffff}}) {  // count, level, slots
      damage(word(nodes[i]), head);
      EXPECT_THAT(told(use), HasSubstr("btree_map: ")) << i << ' ' << head;
      damage(word(nodes[i]), before);
    }
  }
  const Offset leaf = nodes.back();
  damage(word(leaf + 32), leaf);
  EXPECT_THAT(told(walk), HasSubstr("btree_map: ")) << "leaves in a circle";
}

TEST_F(DamagedContainer, CircleOfARedBlackTreeEnds) {
  auto* map = filled<rb_map<std::uint64_t, std::uint64_t>>();
  const std::vector<Offset> nodes = objects_of(*map);
  for (const Offset side : {0u, 8u}) {
    const Offset at = nodes[nodes.size() / 2] + side;
    const std::uint64_t before = word(at);
    damage(word(at), nodes[1]);
    EXPECT_THAT(told([&](Tx& tx) {
                  for (std::uint64_t key = 0; key < kMany; ++key) {
                    if (map->get(tx, key) != key)
                      throw Exception(Code::kCorrupt, "rb_map: is not there");
                  }
                }),
                HasSubstr("rb_map: "));
    EXPECT_THAT(told([&](Tx& tx) { map->for_each(tx, [](std::uint64_t, std::uint64_t) {}); }),
                HasSubstr("rb_map: "));
    damage(word(at), before);
  }
}

}  // namespace
}  // namespace perdure
