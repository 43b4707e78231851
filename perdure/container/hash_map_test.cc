// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/hash_map.h"

#include <atomic>
#include <thread>
#include <unordered_map>

#include "perdure/api/pool_core.h"
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

using Numbers = hash_map<std::uint64_t, std::uint64_t>;
using Texts = hash_map<bytes, bytes>;

struct Wide {
  std::array<std::uint64_t, 8> words{};
  friend bool operator==(const Wide&, const Wide&) = default;
};

std::string random_text(std::mt19937_64& random, std::size_t max_size) {
  std::string text(random() % (max_size + 1), '\0');
  for (char& c : text) c = static_cast<char>(random() % 4);  // many zeros
  return text;
}

template <class World>
class HashMap : public ::testing::Test {
 protected:
  World world_;
};
TYPED_TEST_SUITE(HashMap, testing::Worlds);

TYPED_TEST(HashMap, IsEmptyAsZeroBytes) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    EXPECT_TRUE(map->empty(tx));
    EXPECT_EQ(map->size(tx), 0u);
    EXPECT_FALSE(map->get(tx, 1));
    EXPECT_FALSE(map->find(tx, 1));
    EXPECT_FALSE(map->contains(tx, 1));
    EXPECT_FALSE(map->erase(tx, 1));
    EXPECT_EQ(map->scan(tx, 0, 10, [](auto, auto) {}), 0u);
    EXPECT_TRUE(map->clear_some(tx, 1));
    map->for_each(tx, [](auto, auto) { ADD_FAILURE(); });
  });
  expect_sound(this->world_, *map);
}

TYPED_TEST(HashMap, PutTellsInsertedFromReplaced) {
  auto* map = this->world_.template root<Texts>();
  this->world_.atomically([&](auto& tx) {
    EXPECT_TRUE(map->put(tx, "key", "one"));
    EXPECT_FALSE(map->put(tx, "key", "two"));
    EXPECT_FALSE(map->put(tx, "key", "longer"));
    EXPECT_EQ(map->get(tx, "key"), "longer");
    EXPECT_EQ(map->size(tx), 1u);
  });
  expect_sound(this->world_, *map);
}

TYPED_TEST(HashMap, BehavesLikeTheModelWithFixedItems) {
  auto* map = this->world_.template root<Numbers>();
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random(1);
  for (const unsigned erase_percent : {20u, 80u, 50u, 10u}) {
    run_against_model(
        this->world_, *map, model, random, 8000, erase_percent, [&] { return random() % 3000; },
        [&] { return random(); });
    expect_equal(this->world_, *map, model);
    expect_sound(this->world_, *map);
  }
}

TYPED_TEST(HashMap, BehavesLikeTheModelWithBytes) {
  auto* map = this->world_.template root<Texts>();
  std::unordered_map<std::string, std::string> model;
  std::mt19937_64 random(2);
  for (const unsigned erase_percent : {20u, 70u, 40u}) {
    run_against_model(
        this->world_, *map, model, random, 3000, erase_percent,
        [&] { return random_text(random, 5); }, [&] { return random_text(random, 200); });
    expect_equal(this->world_, *map, model);
    expect_sound(this->world_, *map);
  }
}

TYPED_TEST(HashMap, BehavesLikeTheModelWithMixedItems) {
  auto* by_text = this->world_.template root<hash_map<bytes, Wide>>();
  std::unordered_map<std::string, Wide> model;
  std::mt19937_64 random(3);
  run_against_model(
      this->world_, *by_text, model, random, 3000, 30, [&] { return random_text(random, 80); },
      [&] { return Wide{{random(), random()}}; });
  expect_equal(this->world_, *by_text, model);
  expect_sound(this->world_, *by_text);
}

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

TYPED_TEST(HashMap, AnEntryOfTwoWordsFitsThirtyTwoBytes) {
  if constexpr (std::is_same_v<TypeParam, PoolWorld>) {
    const auto grown_by = [&](auto insert) {
      const auto before = this->world_.pool().core().heap().usage().object_bytes;
      this->world_.atomically(insert);
      return this->world_.pool().core().heap().usage().object_bytes - before;
    };
    auto* numbers = this->world_.pool().template root<Numbers>("numbers");
    auto* wide = this->world_.pool().template root<hash_map<std::uint64_t, Wide>>("wide");
    auto* texts = this->world_.pool().template root<Texts>("texts");
    this->world_.atomically([&](Tx& tx) {
      numbers->put(tx, 0, 0);
      wide->put(tx, 0, {});
      texts->put(tx, "", "");
    });
    EXPECT_EQ(grown_by([&](Tx& tx) { numbers->put(tx, 1, 1); }), 32u);
    EXPECT_EQ(grown_by([&](Tx& tx) { wide->put(tx, 1, {}); }), 80u);
    EXPECT_EQ(grown_by([&](Tx& tx) { texts->put(tx, "8 bytes.", std::string(64, 'v')); }), 96u);
  }
}

TYPED_TEST(HashMap, ForEachStopsWhenToldAndMayEraseItsEntry) {
  auto* map = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t i = 0; i < 500; ++i) map->put(tx, i, i);
  });
  this->world_.atomically([&](auto& tx) {
    int calls = 0;
    map->for_each(tx, [&](auto, auto) { return ++calls < 10; });
    EXPECT_EQ(calls, 10);
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
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    auto* map = this->world_.template root<Numbers>();
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

TYPED_TEST(HashMap, ClearGivesEverythingBack) {
  auto* map = this->world_.template root<Texts>();
  const auto before = this->world_.live_objects();
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 2000; ++i) {
      this->world_.atomically(
          [&](auto& tx) { map->put(tx, std::to_string(i), std::string(i % 90u, 'v')); });
    }
    EXPECT_GT(this->world_.live_objects().size(), 2000u);
    this->world_.atomically([&](auto& tx) { map->clear(tx); });
    EXPECT_EQ(this->world_.live_objects(), before);
  }
}

TYPED_TEST(HashMap, ClearSomeLeavesAUsableMap) {
  auto* map = this->world_.template root<Numbers>();
  std::unordered_map<std::uint64_t, std::uint64_t> model;
  std::mt19937_64 random(4);
  const auto key = [&] { return random() % 20000; };
  run_against_model(this->world_, *map, model, random, 10000, 0, key, [&] { return random(); });
  int calls = 0;
  bool empty = false;
  while (!empty) {
    this->world_.atomically([&](auto& tx) { empty = map->clear_some(tx, 200); });
    std::unordered_map<std::uint64_t, std::uint64_t> left;
    this->world_.atomically([&](auto& tx) {
      left.clear();
      map->for_each(tx, [&](std::uint64_t k, std::uint64_t v) { left.emplace(k, v); });
    });
    EXPECT_LT(left.size(), model.size() + (left.empty() ? 1 : 0));
    for (const auto& [k, v] : left) EXPECT_EQ(model.at(k), v);
    model = left;
    expect_equal(this->world_, *map, model);
    if (!empty && ++calls % 8 == 0)
      run_against_model(this->world_, *map, model, random, 100, 30, key, [&] { return random(); });
    expect_sound(this->world_, *map);
  }
  EXPECT_EQ(this->world_.live_objects().size(), 0u);
}

TYPED_TEST(HashMap, ValuesMayBeContainersThatAreFoundInPlace) {
  auto* map = this->world_.template root<hash_map<std::uint64_t, string>>();
  this->world_.atomically([&](auto& tx) {
    map->put(tx, 7, string{});
    map->find(tx, 7)->assign(tx, "seven");
  });
  this->world_.atomically([&](auto& tx) {
    EXPECT_EQ(map->find(tx, 7)->str(tx), "seven");
    map->find(tx, 7)->clear(tx);
    map->clear(tx);
  });
  EXPECT_TRUE(this->world_.live_objects().empty());
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

TEST(HashMapPlain, AFailedAllocationChangesNothing) {
  PlainWorld world;
  auto* map = world.root<Texts>();
  std::unordered_map<std::string, std::string> model;
  std::mt19937_64 random(5);
  for (int i = 0; i < 3000; ++i) {
    const std::string key = random_text(random, 6);
    const std::string value = random_text(random, 30);
    world.tx().allowed = static_cast<std::int64_t>(random() % 3);
    const bool done = testing::allocates([&] { map->put(world.tx(), key, value); });
    if (done) model[key] = value;
    world.tx().allowed = -1;
    if (i % 100 == 0) {
      expect_equal(world, *map, model);
      expect_sound(world, *map);
    }
  }
  expect_equal(world, *map, model);
  expect_sound(world, *map);
}

class HashMapAudit : public ::testing::Test {
 protected:
  HashMapAudit() {
    map_->use_seed(world_.tx(), 1);
    for (std::uint64_t key = 0; key < 40; ++key) map_->put(world_.tx(), key, key);
    std::vector<std::uint64_t*> objects;
    map_->audit(world_.tx(),
                [&](std::uint64_t at) { objects.push_back(reinterpret_cast<std::uint64_t*>(at)); });
    table_ = objects.front();
    entry_ = objects.back();
  }
  PlainWorld world_;
  Numbers* map_ = world_.root<Numbers>();
  std::uint64_t* table_;  // seed, buckets, …
  std::uint64_t* entry_;  // next, key, value
};

TEST_F(HashMapAudit, FindsNothingWrongWithASoundMap) {
  EXPECT_EQ(complaint(world_, *map_), "nothing");
}
TEST_F(HashMapAudit, FindsACircle) {
  entry_[0] = reinterpret_cast<std::uint64_t>(entry_);
  EXPECT_NE(complaint(world_, *map_).find("or a circle"), std::string::npos)
      << complaint(world_, *map_);
}
TEST_F(HashMapAudit, FindsALostEntry) {
  ASSERT_EQ(entry_[0], 0u);
  map_->erase(world_.tx(), entry_[1]);
  table_[42] += 1;  // the first stripe of the count
  EXPECT_EQ(complaint(world_, *map_), "hash_map: 40 entries counted, 39 found");
}
TEST_F(HashMapAudit, FindsAMisplacedEntry) {
  entry_[1] ^= 0x5555;
  EXPECT_NE(complaint(world_, *map_).find("belongs to another bucket"), std::string::npos);
}
TEST_F(HashMapAudit, FindsAnImpossibleTable) {
  for (const std::uint64_t buckets :
       {std::uint64_t{0}, std::uint64_t{1} << 50, ~std::uint64_t{0}}) {
    table_[1] = buckets;
    EXPECT_NE(complaint(world_, *map_).find(" buckets"), std::string::npos);
  }
}
TEST_F(HashMapAudit, FindsAKeyThatIsThereTwice) {
  auto* twin = static_cast<std::uint64_t*>(world_.tx().allocate(32));
  twin[0] = 0;
  twin[1] = entry_[1];
  entry_[0] = reinterpret_cast<std::uint64_t>(twin);
  table_[42] += 1;
  EXPECT_NE(complaint(world_, *map_).find("holds a key twice"), std::string::npos);
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

TEST(HashMapPool, IsTheSameAfterReopening) {
  PoolWorld world;
  auto* map = world.root<Texts>();
  std::unordered_map<std::string, std::string> model;
  std::mt19937_64 random(7);
  for (int round = 0; round < 4; ++round) {
    run_against_model(
        world, *map, model, random, 1000, 30, [&] { return random_text(random, 6); },
        [&] { return random_text(random, 100); });
    world.reopen();
    map = world.root<Texts>();
    expect_equal(world, *map, model);
    expect_sound(world, *map);
  }
}

TEST(HashMapPool, AnExceptionOfTheUserTakesEverythingBack) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  world.atomically([&](Tx& tx) {
    for (std::uint64_t i = 0; i < 100; ++i) map->put(tx, i, i);
  });
  const auto live = world.live_objects();
  const auto change_and_throw = [&](Tx& tx) {
    for (std::uint64_t i = 50; i < 400; ++i) map->put(tx, i, 0);
    for (std::uint64_t i = 0; i < 50; ++i) map->erase(tx, i);
    throw std::string("user");
  };
  EXPECT_THROW(world.atomically(change_and_throw), std::string);
  EXPECT_EQ(world.live_objects(), live);
  expect_sound(world, *map);
  world.atomically([&](Tx& tx) {
    EXPECT_EQ(map->size(tx), 100u);
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(map->get(tx, i), i);
  });
}

TEST(HashMapPool, AFullPoolKeepsWhatWasAcknowledgedAndTakesMoreWhenFreed) {
  PoolWorld world(std::uint64_t{3} << 20);
  auto* map = world.root<Texts>();
  std::uint64_t acknowledged = 0;
  const auto fill = [&] {
    try {
      for (;; ++acknowledged) {
        world.atomically(
            [&](Tx& tx) { map->put(tx, std::to_string(acknowledged), std::string(100, 'v')); });
      }
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), Code::kNoSpace);
      EXPECT_NE(std::string(error.what()).find("capacity"), std::string::npos) << error.what();
    }
  };
  fill();
  EXPECT_GT(acknowledged, 5000u);
  world.atomically([&](Tx& tx) {
    EXPECT_EQ(map->size(tx), acknowledged);
    for (std::uint64_t i = 0; i < acknowledged; ++i)
      EXPECT_TRUE(map->contains(tx, std::to_string(i)));
  });
  expect_sound(world, *map);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    world.atomically([&](Tx& tx) { EXPECT_TRUE(map->erase(tx, std::to_string(i))); });
  }
  const std::uint64_t before = acknowledged;
  fill();
  EXPECT_GE(acknowledged, before + 990);
  expect_sound(world, *map);
}

TEST(HashMapPool, ThreadsWithKeysOfTheirOwnDoNotDisturbEachOther) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kKeys = 4000;
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
  world.atomically([&](Tx& tx) {
    EXPECT_EQ(map->size(tx), kThreads * (kKeys - (kKeys + 2) / 3));
    for (std::uint64_t key = 0; key < kThreads * kKeys; ++key) {
      const auto value = map->get(tx, key);
      EXPECT_EQ(value.has_value(), key / kThreads % 3 != 0);
      if (value) {
        EXPECT_EQ(*value, key % kThreads);
      }
    }
  });
  expect_sound(world, *map);
}

// Every thread moves amounts between the same few keys; a reader always sees their sum.
TEST(HashMapPool, ThreadsOnTheSameKeysKeepTheirSum) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  constexpr std::uint64_t kKeys = 16;
  constexpr std::uint64_t kEach = 1000;
  world.atomically([&](Tx& tx) {
    for (std::uint64_t key = 0; key < kKeys; ++key) map->put(tx, key, kEach);
  });
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) {
      const std::uint64_t sum = world.pool().read_only([&](Tx& tx) {
        std::uint64_t total = 0;
        map->for_each(tx, [&](std::uint64_t, std::uint64_t amount) { total += amount; });
        return total;
      });
      EXPECT_EQ(sum, kKeys * kEach);
    }
  });
  std::vector<std::thread> writers;
  writers.reserve(3);
  for (unsigned t = 0; t < 3; ++t) {
    writers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 3000; ++i) {
        const std::uint64_t from = random() % kKeys;
        const std::uint64_t to = (from + 1 + random() % (kKeys - 1)) % kKeys;
        world.atomically([&](Tx& tx) {
          // An account is erased when it is empty, and inserted again when money comes.
          const std::uint64_t amount = map->get(tx, from).value_or(0);
          const std::uint64_t moved = std::min<std::uint64_t>(amount, 400);
          if (moved == 0) return;
          if (moved == amount)
            map->erase(tx, from);
          else
            map->put(tx, from, amount - moved);
          map->put(tx, to, map->get(tx, to).value_or(0) + moved);
        });
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  expect_sound(world, *map);
}

TEST(HashMapPool, ReadOnlyTransactionsReadAndRefuseToWrite) {
  PoolWorld world;
  auto* map = world.root<Numbers>();
  world.atomically([&](Tx& tx) { map->put(tx, 1, 2); });
  world.pool().read_only([&](Tx& tx) {
    EXPECT_EQ(map->get(tx, 1), 2u);
    EXPECT_EQ(map->size(tx), 1u);
  });
  EXPECT_THROW(world.pool().read_only([&](Tx& tx) { map->put(tx, 1, 3); }), Exception);
  EXPECT_THROW(world.pool().read_only([&](Tx& tx) { map->erase(tx, 1); }), Exception);
}

}  // namespace
}  // namespace perdure
