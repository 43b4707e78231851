// SPDX-License-Identifier: BSD-3-Clause
// What every map promises, whatever it keeps and wherever it lies. What only one map promises is in
// its own test.
#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <string_view>
#include <thread>

#include "perdure/container/btree_map.h"
#include "perdure/container/container_test_world.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/string.h"

namespace perdure {
namespace {

using testing::complaint;
using testing::expect_equal;
using testing::expect_sound;
using testing::MeteredTx;
using testing::PlainWorld;
using testing::PoolWorld;
using testing::run_against_model;

struct Name {
  std::array<char, 12> text{};
  friend auto operator<=>(const Name&, const Name&) = default;
};
struct Wide {
  std::array<std::uint64_t, 12> words{};
  friend bool operator==(const Wide&, const Wide&) = default;
};

// ---- items --------------------------------------------------------------------------------------

/// Items of one type. of(i) is another for each i, and greater for a greater i where a map orders
/// its keys; number() tells i again. key() and value() are random; a key comes again and again.
template <class T>
struct Sample;
template <>
struct Sample<std::uint64_t> {
  static std::uint64_t of(std::uint64_t i) { return i; }
  static std::uint64_t number(std::uint64_t item) { return item; }
  static std::uint64_t key(std::mt19937_64& random) { return random() % 3000; }
  static std::uint64_t value(std::mt19937_64& random) { return random(); }
};
template <>
struct Sample<bytes> {
  static std::string of(std::uint64_t i) { return std::to_string(i); }
  static std::uint64_t number(std::string_view item) { return std::stoull(std::string(item)); }
  static std::string key(std::mt19937_64& random) { return text(random, 5); }
  static std::string value(std::mt19937_64& random) { return text(random, 400); }

 private:
  static std::string text(std::mt19937_64& random, std::size_t max_size) {
    std::string made(random() % (max_size + 1), '\0');
    for (char& c : made) c = static_cast<char>(random() % 4);  // many zeros
    return made;
  }
};
template <>
struct Sample<Name> {
  static Name key(std::mt19937_64& random) {
    Name made;
    for (std::size_t i = random() % made.text.size(); i > 0; --i)
      made.text[i] = static_cast<char>(random() % 3);
    return made;
  }
};
template <>
struct Sample<Wide> {
  static Wide value(std::mt19937_64& random) { return {{random(), random()}}; }
};

// ---- maps ---------------------------------------------------------------------------------------

template <class Map>
inline constexpr bool kOrdered = true;
template <class K, class V>
inline constexpr bool kOrdered<hash_map<K, V>> = false;

/// Its nodes hold several entries, and need not be full.
template <class Map>
inline constexpr bool kSharesNodes = false;
template <class K, class V, std::size_t kNodeBytes>
inline constexpr bool kSharesNodes<btree_map<K, V, kNodeBytes>> = true;

template <class Map>
struct ItemsOf;
template <template <class, class, auto...> class Map, class K, class V, auto... kMore>
struct ItemsOf<Map<K, V, kMore...>> {
  using Key = Sample<K>;
  using Value = Sample<V>;
  using Model = std::map<owned_t<K>, owned_t<V>>;
};

/// A map in a world.
template <class M, class W>
struct In {
  using Map = M;
  using World = W;
};
template <class... Maps>
struct List {
  using Alone = ::testing::Types<Maps...>;
  using InEachWorld = ::testing::Types<In<Maps, PlainWorld>..., In<Maps, PoolWorld>...>;
};
using Number = std::uint64_t;
// Nodes of 104 bytes hold four entries: deep trees.
using AllMaps = List<hash_map<Number, Number>, hash_map<bytes, bytes>, btree_map<Number, Number>,
                     btree_map<Number, bytes, 104>, rb_map<Number, Number>>;
using OrderedMaps =
    List<btree_map<Number, Number>, btree_map<Number, bytes, 104>, rb_map<Number, Number>>;
/// Compared with their models only.
using OtherMaps = List<hash_map<bytes, Wide>, btree_map<Name, Wide>, btree_map<Number, Number, 104>,
                       rb_map<Name, Wide>>;
using MapsOfContainers =
    List<hash_map<Number, string>, btree_map<Number, string>, rb_map<Number, string>>;

template <class Place>
class InWorld : public ::testing::Test {
 protected:
  using Map = typename Place::Map;
  using Key = typename ItemsOf<Map>::Key;
  using Value = typename ItemsOf<Map>::Value;
  using Model = typename ItemsOf<Map>::Model;

  static auto key(std::uint64_t i) { return Key::of(i); }
  static auto value(std::uint64_t i) { return Value::of(i); }
  static std::uint64_t number(const auto& value) { return Value::number(value); }

  /// Puts the items 0 … count - 1.
  void fill(std::uint64_t count) {
    world_.atomically([&](auto& tx) {
      for (std::uint64_t i = 0; i < count; ++i) map_->put(tx, key(i), value(i));
    });
  }
  void run(std::size_t count, unsigned erase_percent) {
    run_against_model(
        world_, *map_, model_, random_, count, erase_percent, [&] { return Key::key(random_); },
        [&] { return Value::value(random_); });
  }
  /// The map is the model, and sound.
  void expect_same() {
    expect_equal(world_, *map_, model_);
    if constexpr (kOrdered<Map>) expect_same_order(model_);
    expect_sound(world_, *map_);
  }

  void expect_model_behavior() {
    for (const unsigned erase_percent : {20u, 80u, 50u, 95u, 10u}) {
      run(4000, erase_percent);
      expect_same();
    }
  }

  typename Place::World world_;
  Map* map_ = world_.template root<Map>();
  Model model_;
  std::mt19937_64 random_{1};

 private:
  /// Order, bounds and ranges.
  void expect_same_order(const Model& model) {
    world_.atomically([&](auto& tx) {
      const auto same = [&](const auto& entry, typename Model::const_iterator expected) {
        ASSERT_EQ(entry.has_value(), expected != model.end());
        if (entry) {
          EXPECT_TRUE(entry->first == expected->first && entry->second == expected->second);
        }
      };
      same(map_->first(tx), model.begin());
      same(map_->last(tx), model.empty() ? model.end() : std::prev(model.end()));
      std::mt19937_64 random(9);
      for (int i = 0; i < 50; ++i) {
        const auto [low, high] = std::minmax({Key::key(random), Key::key(random)});
        same(map_->lower_bound(tx, low), model.lower_bound(low));
        same(map_->upper_bound(tx, low), model.upper_bound(low));
        auto expected = model.lower_bound(low);
        map_->for_each_in(tx, low, high, [&](const auto& key, const auto& value) {
          ASSERT_NE(expected, model.end());
          EXPECT_TRUE(key == expected->first && value == expected->second);
          ++expected;
        });
        EXPECT_TRUE(expected == model.lower_bound(high));
      }
      auto expected = model.begin();
      map_->for_each(
          tx, [&](const auto& key, const auto&) { EXPECT_TRUE(key == (expected++)->first); });
      EXPECT_TRUE(expected == model.end());
    });
  }
};

// ---- in ordinary memory and in a pool -----------------------------------------------------------

template <class Place>
using Maps = InWorld<Place>;
TYPED_TEST_SUITE(Maps, AllMaps::InEachWorld);

TYPED_TEST(Maps, IsEmptyAsZeroBytes) {
  auto* const map = this->map_;
  const auto key = this->key(1);
  this->world_.atomically([&](auto& tx) {
    EXPECT_TRUE(map->empty(tx));
    EXPECT_EQ(map->size(tx), 0u);
    EXPECT_FALSE(map->get(tx, key));
    EXPECT_FALSE(map->contains(tx, key));
    EXPECT_FALSE(map->erase(tx, key));
    if constexpr (requires { map->find(tx, key); }) {
      EXPECT_FALSE(map->find(tx, key));
    }
    if constexpr (kOrdered<typename TestFixture::Map>) {
      EXPECT_FALSE(map->first(tx));
      EXPECT_FALSE(map->last(tx));
      EXPECT_FALSE(map->lower_bound(tx, key));
      EXPECT_FALSE(map->upper_bound(tx, key));
    }
    map->for_each(tx, [](const auto&, const auto&) { ADD_FAILURE() << "in an empty map"; });
    EXPECT_TRUE(map->clear_some(tx, 1));
    map->clear(tx);
  });
  expect_sound(this->world_, *map);
}

TYPED_TEST(Maps, PutTellsInsertedFromReplaced) {
  const auto key = this->key(1);
  this->world_.atomically([&](auto& tx) {
    EXPECT_TRUE(this->map_->put(tx, key, this->value(1)));
    for (const std::uint64_t value : {2u, 30u, 4u}) {  // also longer and shorter ones
      EXPECT_FALSE(this->map_->put(tx, key, this->value(value)));
      EXPECT_EQ(this->map_->get(tx, key), this->value(value));
    }
    EXPECT_EQ(this->map_->size(tx), 1u);
  });
  expect_sound(this->world_, *this->map_);
}

TYPED_TEST(Maps, BehavesLikeTheModel) { this->expect_model_behavior(); }

template <class Place>
using MapsOfOtherItems = InWorld<Place>;
TYPED_TEST_SUITE(MapsOfOtherItems, OtherMaps::InEachWorld);
TYPED_TEST(MapsOfOtherItems, BehavesLikeTheModel) { this->expect_model_behavior(); }

TYPED_TEST(Maps, StaysSoundAfterEveryStepOfGrowthAndDecay) {
  auto* const map = this->map_;
  for (const int order : {0, 1, 2}) {
    std::vector<std::uint64_t> items(200);
    std::iota(items.begin(), items.end(), 0u);
    if (order == 1) std::reverse(items.begin(), items.end());
    if (order == 2) std::shuffle(items.begin(), items.end(), std::mt19937_64(3));
    for (const std::uint64_t i : items) {
      this->world_.atomically(
          [&](auto& tx) { EXPECT_TRUE(map->put(tx, this->key(i), this->value(i))); });
      EXPECT_EQ(complaint(this->world_, *map), "nothing");
    }
    std::rotate(items.begin(), items.begin() + 70, items.end());
    for (const std::uint64_t i : items) {
      this->world_.atomically([&](auto& tx) { EXPECT_TRUE(map->erase(tx, this->key(i))); });
      EXPECT_EQ(complaint(this->world_, *map), "nothing");
    }
    this->world_.atomically([&](auto& tx) { map->clear(tx); });
    EXPECT_TRUE(this->world_.live_objects().empty());
  }
}

TYPED_TEST(Maps, WalksStopWhenTold) {
  auto* const map = this->map_;
  this->fill(100);
  this->world_.atomically([&](auto& tx) {
    int calls = 0;
    map->for_each(tx, [&](const auto&, const auto&) { return ++calls < 40; });
    EXPECT_EQ(calls, 40);
    if constexpr (kOrdered<typename TestFixture::Map>) {
      map->for_each_in(tx, this->key(10), this->key(90),
                       [&](const auto&, const auto&) { return --calls > 0; });
      EXPECT_EQ(calls, 0);
    }
  });
}

TYPED_TEST(Maps, ClearGivesEverythingBack) {
  for (int round = 0; round < 3; ++round) {
    this->fill(2000);
    EXPECT_GT(this->world_.live_objects().size(), 60u);
    this->world_.atomically([&](auto& tx) { this->map_->clear(tx); });
    EXPECT_TRUE(this->world_.live_objects().empty());
  }
}

TYPED_TEST(Maps, ClearSomeLeavesAUsableMap) {
  constexpr std::size_t kAtATime = 200;
  this->run(5000, 0);
  bool empty = false;
  for (int calls = 1; !empty; ++calls) {
    this->world_.atomically([&](auto& tx) { empty = this->map_->clear_some(tx, kAtATime); });
    if constexpr (kOrdered<typename TestFixture::Map>) {  // as many, from the end
      for (std::size_t i = 0; i < kAtATime && !this->model_.empty(); ++i)
        this->model_.erase(std::prev(this->model_.end()));
    } else {
      typename TestFixture::Model left;
      this->world_.atomically([&](auto& tx) {
        left.clear();
        this->map_->for_each(tx, [&](const auto& k, const auto& v) { left.emplace(k, v); });
      });
      EXPECT_LT(left.size(), this->model_.size() + (left.empty() ? 1 : 0));
      for (const auto& [key, value] : left) EXPECT_EQ(this->model_.at(key), value);
      this->model_ = left;
    }
    EXPECT_EQ(empty, this->model_.empty());
    this->expect_same();
    if (!empty && calls % 8 == 0) this->run(100, 30);
  }
  EXPECT_TRUE(this->world_.live_objects().empty());
}

// ---- ordered ones -------------------------------------------------------------------------------

template <class Place>
using Ordered = InWorld<Place>;
TYPED_TEST_SUITE(Ordered, OrderedMaps::InEachWorld);

TYPED_TEST(Ordered, AWalkGoesOnInTheNextTransactionWhileTheMapChanges) {
  const auto value = this->value(0);
  auto* const map = this->map_;
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t i = 0; i < 2000; i += 2) map->put(tx, this->key(i), value);
  });
  const auto odd = [&] { return this->key(this->random_() % 1000 * 2 + 1); };
  std::uint64_t expected = 0;  // the next of the even ones, which all last
  auto entry = this->world_.atomically([&](auto& tx) { return map->first(tx); });
  while (entry) {
    EXPECT_FALSE(this->key(expected) < entry->first);
    if (entry->first == this->key(expected)) expected += 2;
    this->world_.atomically([&](auto& tx) { map->put(tx, odd(), value); });
    this->world_.atomically([&](auto& tx) { map->erase(tx, odd()); });
    entry = this->world_.atomically([&](auto& tx) { return map->upper_bound(tx, entry->first); });
  }
  EXPECT_EQ(expected, 2000u);
}

// ---- of containers ------------------------------------------------------------------------------

template <class Place>
class OfContainers : public ::testing::Test {
 protected:
  typename Place::World world_;
};
TYPED_TEST_SUITE(OfContainers, MapsOfContainers::InEachWorld);

TYPED_TEST(OfContainers, ValuesAreFoundInPlace) {
  auto* const map = this->world_.template root<typename TypeParam::Map>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t key = 0; key < 100; ++key) {
      map->put(tx, key, string{});
      map->find(tx, key)->assign(tx, std::to_string(key));
    }
  });
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t key = 0; key < 100; ++key) {
      EXPECT_EQ(map->find(tx, key)->str(tx), std::to_string(key));
      map->find(tx, key)->clear(tx);
    }
    map->clear(tx);
  });
  EXPECT_TRUE(this->world_.live_objects().empty());
}

// ---- what only ordinary memory can show ---------------------------------------------------------

template <class Map>
using InMemory = InWorld<In<Map, PlainWorld>>;
TYPED_TEST_SUITE(InMemory, AllMaps::Alone);

TYPED_TEST(InMemory, AFailedAllocationLosesNothing) {
  MeteredTx& tx = this->world_.tx();
  for (int i = 0; i < 3000; ++i) {
    const auto key = this->key(this->random_() % 1500);
    const auto value = TestFixture::Value::value(this->random_);
    tx.allowed = static_cast<std::int64_t>(this->random_() % 4);
    const bool done = testing::allocates([&] { this->map_->put(tx, key, value); });
    if (done) this->model_[key] = value;
    tx.allowed = -1;
    if (i % 20 == 0) expect_sound(this->world_, *this->map_);
    if (i % 100 == 0) expect_equal(this->world_, *this->map_, this->model_);
  }
  EXPECT_GT(this->model_.size(), 1000u);
  this->expect_same();
}

// ---- what only pools can show -------------------------------------------------------------------

template <class Map>
using InPool = InWorld<In<Map, PoolWorld>>;
TYPED_TEST_SUITE(InPool, AllMaps::Alone);

TYPED_TEST(InPool, IsTheSameAfterReopening) {
  for (int round = 0; round < 4; ++round) {
    this->run(1500, 40);
    this->world_.reopen();
    this->map_ = this->world_.template root<TypeParam>();
    this->expect_same();
  }
}

TYPED_TEST(InPool, AnExceptionOfTheUserTakesEverythingBack) {
  this->fill(300);
  for (std::uint64_t i = 0; i < 300; ++i) this->model_.emplace(this->key(i), this->value(i));
  const auto live = this->world_.live_objects();
  EXPECT_THROW(this->world_.atomically([&](Tx& tx) {
    for (std::uint64_t i = 200; i < 600; ++i) this->map_->put(tx, this->key(i), this->value(0));
    for (std::uint64_t i = 0; i < 250; ++i) this->map_->erase(tx, this->key(i));
    throw std::string("user");
  }),
               std::string);
  EXPECT_EQ(this->world_.live_objects(), live);
  this->expect_same();
}

TYPED_TEST(InPool, AFullPoolKeepsWhatWasAcknowledgedAndTakesMoreWhenFreed) {
  PoolWorld world(std::uint64_t{1} << 20);
  auto* const map = world.root<TypeParam>();
  const auto fill = [&] {
    try {
      for (;;) {
        const std::uint64_t i = this->random_() % 1'000'000'000;
        const auto key = this->key(i);
        const auto value = this->value(i);
        world.atomically([&](Tx& tx) { map->put(tx, key, value); });
        this->model_.emplace(key, value);
      }
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), Code::kNoSpace);
      EXPECT_NE(std::string(error.what()).find("capacity"), std::string::npos) << error.what();
    }
    expect_equal(world, *map, this->model_);
    expect_sound(world, *map);
  };
  fill();
  const std::size_t full = this->model_.size();
  EXPECT_GT(full, 2000u);
  while (this->model_.size() > full / 2) {
    world.atomically([&](Tx& tx) { EXPECT_TRUE(map->erase(tx, this->model_.begin()->first)); });
    this->model_.erase(this->model_.begin());
  }
  fill();
  EXPECT_GT(this->model_.size(), full * (kSharesNodes<TypeParam> ? 75 : 99) / 100);
}

TYPED_TEST(InPool, ThreadsWithKeysOfTheirOwnLoseNothing) {
  constexpr std::uint64_t kThreads = 4;
  constexpr std::uint64_t kKeys = 2000;
  auto* const map = this->map_;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        const auto key = this->key(i * kThreads + t);
        this->world_.atomically([&](Tx& tx) { EXPECT_TRUE(map->put(tx, key, this->value(t))); });
        if (i % 3 == 0) this->world_.atomically([&](Tx& tx) { EXPECT_TRUE(map->erase(tx, key)); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t i = 0; i < kThreads * kKeys; ++i) {
    if (i / kThreads % 3 != 0) this->model_.emplace(this->key(i), this->value(i % kThreads));
  }
  this->expect_same();
}

/// While writers run, each in a thread of its own with its own random numbers, a reader calls
/// `look`.
template <class Look, class Write>
void read_while_written(PoolWorld& world, unsigned writers, int writes, Look&& look,
                        Write&& write) {
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) look();
  });
  std::vector<std::thread> threads;
  threads.reserve(writers);
  for (unsigned t = 0; t < writers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < writes; ++i) {
        const std::uint64_t from = random();
        const std::uint64_t to = random();
        world.atomically([&](Tx& tx) { write(tx, from, to); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
}

// Every transaction moves one entry to another key; a reader always counts the same.
TYPED_TEST(InPool, AReaderSeesWholeTransactionsOnly) {
  constexpr std::uint64_t kEntries = 100;
  auto* const map = this->map_;
  this->world_.atomically([&](Tx& tx) {
    for (std::uint64_t i = 0; i < kEntries; ++i) map->put(tx, this->key(i * 10), this->value(i));
  });
  const auto look = [&] {
    const auto [count, sum] = this->world_.pool().read_only([&](Tx& tx) {
      std::pair<std::uint64_t, std::uint64_t> seen{};
      auto before = this->key(0);
      map->for_each(tx, [&](const auto& key, const auto& value) {
        if constexpr (kOrdered<TypeParam>) {
          EXPECT_TRUE(seen.first == 0 || before < key);
          before = key;
        }
        ++seen.first;
        seen.second += this->number(value);
      });
      return seen;
    });
    EXPECT_EQ(count, kEntries);
    EXPECT_EQ(sum, kEntries * (kEntries - 1) / 2);
  };
  read_while_written(this->world_, 2, 4000, look,
                     [&](Tx& tx, std::uint64_t random_from, std::uint64_t random_to) {
                       const auto from = this->key(random_from % 1000);
                       const auto to = this->key(random_to % 1000);
                       const auto value = map->get(tx, from);
                       if (!value || map->contains(tx, to)) return;
                       map->erase(tx, from);
                       map->put(tx, to, *value);
                     });
  expect_sound(this->world_, *map);
}

// Every transaction moves an amount between the same few keys; a reader always sees their sum.
TYPED_TEST(InPool, ThreadsOnTheSameKeysKeepTheirSum) {
  constexpr std::uint64_t kKeys = 16;
  constexpr std::uint64_t kEach = 1000;
  auto* const map = this->map_;
  this->world_.atomically([&](Tx& tx) {
    for (std::uint64_t i = 0; i < kKeys; ++i) map->put(tx, this->key(i), this->value(kEach));
  });
  const auto amount = [&](Tx& tx, const auto& key) {
    const auto value = map->get(tx, key);
    return value ? this->number(*value) : 0;
  };
  const auto look = [&] {
    const std::uint64_t sum = this->world_.pool().read_only([&](Tx& tx) {
      std::uint64_t total = 0;
      map->for_each(tx, [&](const auto&, const auto& value) { total += this->number(value); });
      return total;
    });
    EXPECT_EQ(sum, kKeys * kEach);
  };
  read_while_written(
      this->world_, 3, 3000, look, [&](Tx& tx, std::uint64_t random_from, std::uint64_t random_to) {
        const auto from = this->key(random_from % kKeys);
        const auto to = this->key((random_from + 1 + random_to % (kKeys - 1)) % kKeys);
        // An account is erased when it is empty, and inserted again when money comes.
        const std::uint64_t there = amount(tx, from);
        const std::uint64_t moved = std::min<std::uint64_t>(there, 400);
        if (moved == 0) return;
        if (moved == there)
          map->erase(tx, from);
        else
          map->put(tx, from, this->value(there - moved));
        map->put(tx, to, this->value(amount(tx, to) + moved));
      });
  expect_sound(this->world_, *map);
}

TYPED_TEST(InPool, ReadOnlyTransactionsReadAndRefuseToWrite) {
  const auto key = this->key(1);
  auto* const map = this->map_;
  this->world_.atomically([&](Tx& tx) { map->put(tx, key, this->value(2)); });
  this->world_.pool().read_only([&](Tx& tx) {
    EXPECT_EQ(map->get(tx, key), this->value(2));
    EXPECT_EQ(map->size(tx), 1u);
  });
  EXPECT_THROW(this->world_.pool().read_only([&](Tx& tx) { map->put(tx, key, this->value(3)); }),
               Exception);
  EXPECT_THROW(this->world_.pool().read_only([&](Tx& tx) { map->erase(tx, key); }), Exception);
}

}  // namespace
}  // namespace perdure
