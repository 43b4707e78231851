// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/container/vector.h"

#include <thread>

#include "perdure/container/container_test_world.h"
#include "perdure/container/string.h"

namespace perdure {
namespace {

using testing::complaint;
using testing::expect_sound;
using testing::PlainWorld;
using testing::PoolWorld;

using Numbers = vector<std::uint64_t>;

struct Wide {
  std::array<std::uint64_t, 8> words{};
  friend bool operator==(const Wide&, const Wide&) = default;
};

template <class World>
using Vector = testing::InEachWorld<World>;
TYPED_TEST_SUITE(Vector, testing::Worlds);

TYPED_TEST(Vector, IsEmptyAsZeroBytes) {
  auto* numbers = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    EXPECT_TRUE(numbers->empty(tx));
    EXPECT_EQ(numbers->size(tx), 0u);
    numbers->for_each(tx, [](auto) { ADD_FAILURE(); });
    numbers->clear(tx);
  });
  expect_sound(this->world_, *numbers);
}

TYPED_TEST(Vector, BehavesLikeTheModel) {
  auto* items = this->world_.template root<vector<Wide>>();
  std::vector<Wide> model;
  std::mt19937_64 random(1);
  for (int i = 0; i < 6000; ++i) {
    const Wide fresh{{random()}};
    this->world_.atomically([&](auto& tx) {
      const auto what = random() % 10;
      if (what < 5 || model.empty()) {
        items->push_back(tx, fresh);
        model.push_back(fresh);
      } else if (what < 8) {
        const std::uint64_t at = random() % model.size();
        items->set(tx, at, fresh);
        model[at] = fresh;
      } else {
        EXPECT_TRUE(items->pop_back(tx) == model.back());
        model.pop_back();
      }
      ASSERT_EQ(items->size(tx), model.size());
    });
  }
  this->world_.atomically([&](auto& tx) {
    std::size_t i = 0;
    items->for_each(tx, [&](const Wide& item) { EXPECT_TRUE(item == model[i++]); });
    EXPECT_EQ(i, model.size());
    for (i = 0; i < model.size(); ++i) EXPECT_TRUE(items->at(tx, i) == model[i]);
  });
  expect_sound(this->world_, *items);
}

TYPED_TEST(Vector, RefusesWhatIsBeyondTheEnd) {
  auto* numbers = this->world_.template root<Numbers>();
  const auto code = [&](auto body) {
    try {
      this->world_.atomically(body);
    } catch (const Exception& error) {
      return error.code();
    }
    return Code::kIo;
  };
  EXPECT_EQ(code([&](auto& tx) { numbers->pop_back(tx); }), Code::kInvalid);
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t i = 0; i < 10; ++i) numbers->push_back(tx, i);
    numbers->pop_back(tx);
  });
  EXPECT_EQ(code([&](auto& tx) { numbers->at(tx, 9); }), Code::kInvalid);
  EXPECT_EQ(code([&](auto& tx) { numbers->set(tx, 9, 0); }), Code::kInvalid);
  EXPECT_EQ(code([&](auto& tx) { numbers->element(tx, ~std::uint64_t{0}); }), Code::kInvalid);
}

TYPED_TEST(Vector, ElementsNeverMove) {
  auto* numbers = this->world_.template root<Numbers>();
  std::vector<std::uint64_t*> places;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    this->world_.atomically([&](auto& tx) { numbers->push_back(tx, i); });
    this->world_.atomically([&](auto& tx) { places.push_back(numbers->element(tx, i)); });
  }
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      EXPECT_EQ(numbers->element(tx, i), places[i]);
      EXPECT_EQ(tx.load(*places[i]), i);
    }
  });
}

TYPED_TEST(Vector, ClearGivesEverythingBack) {
  auto* texts = this->world_.template root<vector<string>>();
  for (int round = 0; round < 2; ++round) {
    this->world_.atomically([&](auto& tx) {
      for (int i = 0; i < 300; ++i) {
        texts->push_back(tx, string{});
        texts->element(tx, texts->size(tx) - 1)->assign(tx, "text");
      }
      for (std::uint64_t i = 0; i < 300; ++i) texts->element(tx, i)->clear(tx);
      texts->clear(tx);
      EXPECT_EQ(texts->size(tx), 0u);
    });
    EXPECT_TRUE(this->world_.live_objects().empty());
  }
}

TYPED_TEST(Vector, ForEachStopsWhenTold) {
  auto* numbers = this->world_.template root<Numbers>();
  this->world_.atomically([&](auto& tx) {
    for (std::uint64_t i = 0; i < 50; ++i) numbers->push_back(tx, i);
    std::uint64_t last = 0;
    numbers->for_each(tx, [&](std::uint64_t value) {
      last = value;
      return value < 30;
    });
    EXPECT_EQ(last, 30u);
  });
}

TEST(VectorPlain, AFailedAllocationChangesNothing) {
  PlainWorld world;
  auto* numbers = world.root<Numbers>();
  std::uint64_t size = 0;
  for (int i = 0; i < 3000; ++i) {
    world.tx().allowed = i % 2;
    if (testing::allocates([&] { numbers->push_back(world.tx(), size); })) ++size;
    ASSERT_EQ(numbers->size(world.tx()), size);
  }
  EXPECT_GT(size, 1500u);
  expect_sound(world, *numbers);
  for (std::uint64_t i = 0; i < size; ++i) EXPECT_EQ(numbers->at(world.tx(), i), i);
}

TEST(VectorPlain, AuditFindsImpossibleSizes) {
  PlainWorld world;
  auto* numbers = world.root<Numbers>();
  auto* words = reinterpret_cast<std::uint64_t*>(numbers);  // size, directory
  words[0] = 1;
  EXPECT_EQ(complaint(world, *numbers), "vector: claims 1 elements, but has no memory");
  words[0] = 0;
  numbers->push_back(world.tx(), 1);
  words[0] = 9;
  EXPECT_EQ(complaint(world, *numbers), "vector: claims 9 elements, but has memory for 8");
  *reinterpret_cast<std::uint64_t*>(words[1]) = 43;
  EXPECT_EQ(complaint(world, *numbers), "vector: claims 43 segments");
}

TEST(VectorPool, IsTheSameAfterReopeningAndUndoneByAnException) {
  PoolWorld world;
  auto* numbers = world.root<Numbers>();
  world.atomically([&](Tx& tx) {
    for (std::uint64_t i = 0; i < 5000; ++i) numbers->push_back(tx, i);
  });
  EXPECT_THROW(world.atomically([&](Tx& tx) {
    for (std::uint64_t i = 0; i < 5000; ++i) numbers->push_back(tx, 0);
    numbers->set(tx, 0, 99);
    throw std::string("user");
  }),
               std::string);
  expect_sound(world, *numbers);
  world.reopen();
  numbers = world.root<Numbers>();
  expect_sound(world, *numbers);
  world.atomically([&](Tx& tx) {
    EXPECT_EQ(numbers->size(tx), 5000u);
    for (std::uint64_t i = 0; i < 5000; ++i) EXPECT_EQ(numbers->at(tx, i), i);
  });
}

TEST(VectorPool, ThreadsPushEachElementOnce) {
  PoolWorld world;
  auto* numbers = world.root<Numbers>();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 1000; ++i)
        world.atomically([&](Tx& tx) { numbers->push_back(tx, i * 4 + t); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> times(4000);
  world.atomically([&](Tx& tx) {
    times.assign(4000, 0);
    numbers->for_each(tx, [&](std::uint64_t value) { ++times.at(value); });
  });
  EXPECT_EQ(times, std::vector<int>(4000, 1));
  expect_sound(world, *numbers);
}

TEST(VectorPool, AFullPoolSaysSoAndClearMakesRoom) {
  PoolWorld world(std::uint64_t{2} << 20);
  auto* numbers = world.root<vector<Wide>>();
  std::uint64_t acknowledged[2] = {};
  for (std::uint64_t& count : acknowledged) {
    try {
      for (;; ++count) world.atomically([&](Tx& tx) { numbers->push_back(tx, Wide{{count}}); });
    } catch (const Exception& error) {
      EXPECT_EQ(error.code(), Code::kNoSpace);
    }
    world.atomically([&](Tx& tx) {
      ASSERT_EQ(numbers->size(tx), count);
      for (std::uint64_t i = 0; i < count; ++i) EXPECT_EQ(numbers->at(tx, i).words[0], i);
    });
    expect_sound(world, *numbers);
    world.atomically([&](Tx& tx) { numbers->clear(tx); });
  }
  EXPECT_EQ(acknowledged[0], acknowledged[1]);
}

}  // namespace
}  // namespace perdure
