// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/pool_store.h"

#include <map>
#include <random>

#include <gmock/gmock.h>

#include "apps/memcached/session_test_world.h"

namespace perdure::memcached {
namespace {

using ::testing::HasSubstr;

TEST(PoolStoreTest, BehavesLikeAMapThroughGrowthAndRestarts) {
  World world;
  std::map<std::string, std::string> model;
  std::mt19937 random(1);
  for (int step = 0; step < 40'000; ++step) {
    const std::string key = "key" + std::to_string(random() % 5000);
    const std::string head = " 0 0 ";
    const std::string value(random() % (step % 100 == 0 ? 5000 : 300), char('a' + step % 26));
    const std::string block = std::to_string(value.size()) + "\r\n" + value + "\r\n";
    switch (random() % 6) {
      case 0:
      case 1:
        ASSERT_EQ(world.say("set " + key + head + block), "STORED\r\n");
        model[key] = value;
        break;
      case 2:
        ASSERT_EQ(world.say("add " + key + head + block),
                  model.emplace(key, value).second ? "STORED\r\n" : "NOT_STORED\r\n");
        break;
      case 3:
        ASSERT_EQ(world.say("delete " + key + "\r\n"),
                  model.erase(key) > 0 ? "DELETED\r\n" : "NOT_FOUND\r\n");
        break;
      case 4:
        if (value.size() < 50 && model.contains(key)) {
          ASSERT_EQ(world.say("append " + key + head + block), "STORED\r\n");
          model[key] += value;
        }
        break;
      default: {
        const auto found = model.find(key);
        ASSERT_EQ(world.say("get " + key + "\r\n"),
                  found == model.end()
                      ? "END\r\n"
                      : "VALUE " + key + " 0 " + std::to_string(found->second.size()) + "\r\n" +
                            found->second + "\r\nEND\r\n");
      }
    }
    if (step % 10'000 == 9999) {
      ASSERT_EQ(world.items(), model.size());
      world.reopen();
      ASSERT_EQ(world.items(), model.size());
      ASSERT_EQ(world.audit(), "");
    }
  }
}

TEST(PoolStoreTest, TheLimitHoldsAndWhatIsUsedStays) {
  constexpr std::uint64_t kLimit = 4 << 20;
  World world({kLimit, true});
  const std::string value(1000, 'v');
  const std::string set_popular = "set popular 0 0 1000\r\n" + value + "\r\n";
  world.say(set_popular);
  int missed = 0;
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(world.say("set k" + std::to_string(i) + " 0 0 1000\r\n" + value + "\r\n"),
              "STORED\r\n");
    ASSERT_LE(world.store->counts().bytes, kLimit);
    if (i % 50 == 0 && world.say("get popular\r\n") == "END\r\n") {
      ++missed;
      world.say(set_popular);
    }
  }
  // An item that has its entry of References may be stored between a use and the hand's visit: once in some thousand visits.
  EXPECT_LE(missed, 2) << "of 400";
  EXPECT_GT(world.store->counts().bytes, kLimit * 9 / 10);
  EXPECT_GT(world.store->counts().evictions, 10'000u);
  EXPECT_EQ(world.audit(), "");
  // A smaller limit, an hour later.
  EXPECT_TRUE(world.store->set_limit(1 << 20));
  world.say("set last 0 0 1\r\nx\r\n");
  EXPECT_LE(world.store->counts().bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(world.say("get last\r\n"), "VALUE last 0 1\r\nx\r\nEND\r\n");
}

TEST(PoolStoreTest, AFullCacheRefusesWhereNothingMayGo) {
  World world({1 << 20, false});
  const std::string value(10'000, 'v');
  std::string reply;
  int stored = 0;
  while ((reply = world.say("set k" + std::to_string(stored) + " 0 5 10000\r\n" + value +
                            "\r\n")) == "STORED\r\n")
    ++stored;
  EXPECT_EQ(reply, "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_GT(stored, 50);
  EXPECT_EQ(world.items(), static_cast<std::uint64_t>(stored));
  world.clock.set(World::kStart + 5);
  EXPECT_EQ(world.say("set more 0 0 10000\r\n" + value + "\r\n"), "STORED\r\n")
      << "what has expired may go";
}

TEST(PoolStoreTest, ALinkThatIsDamagedIsAnErrorOfTheRequestsThatNeedIt) {
  World world;
  world.say("set a 0 0 1\r\nx\r\n");
  auto* const cache = world.pool->find_root<Cache>(kRoot);
  const auto flip = [&] {
    world.pool->atomically([&](Tx& tx) {
      const Offset at = tx.load(cache->segments[0]).offset ^ (std::uint64_t{1} << 44);
      tx.store(cache->segments[0], {at});
    });
  };
  flip();
  for (const char* request : {"get a\r\n", "set a 0 0 1\r\ny\r\n", "delete a\r\n"}) {
    // Each in a connection of its own, which then ends.
    world.in_threads(1, [&](Session& session, int) {
      const std::string reply = World::say(session, request);
      EXPECT_THAT(reply, HasSubstr("SERVER_ERROR"));
      EXPECT_THAT(reply, HasSubstr("outside of the pool"));
    });
  }
  flip();
  EXPECT_EQ(world.say("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST(PoolStoreTest, IncrementsOfManyThreadsAddUp) {
  World world;
  world.say("set n 0 0 1\r\n0\r\n");
  constexpr int kThreads = 8;
  constexpr int kEach = 2000;
  world.in_threads(kThreads, [](Session& session, int i) {
    for (int k = 0; k < kEach; ++k) {
      World::say(session, "incr n 1\r\n");
      const std::string mine = "own" + std::to_string(i) + "-" + std::to_string(k % 100);
      World::say(session, "set " + mine + " 0 0 300\r\n" + std::string(300, 'x') + "\r\n");
    }
  });
  EXPECT_EQ(world.say("get n\r\n"), "VALUE n 0 5\r\n16000\r\nEND\r\n");
  EXPECT_EQ(world.items(), 1u + kThreads * 100);
  EXPECT_EQ(world.audit(), "");
}

TEST(PoolStoreTest, ThreadsEvictTogether) {
  constexpr std::uint64_t kLimit = 2 << 20;
  World world({kLimit, true});
  world.in_threads(4, [](Session& session, int i) {
    for (int k = 0; k < 3000; ++k) {
      const std::string key = std::to_string(i) + "-" + std::to_string(k);
      EXPECT_EQ(
          World::say(session, "set " + key + " 0 0 2000\r\n" + std::string(2000, 'x') + "\r\n"),
          "STORED\r\n");
    }
  });
  EXPECT_LE(world.store->counts().bytes, kLimit + 4 * 2720);
  EXPECT_EQ(world.audit(), "");
}

TEST(PoolStoreTest, DamageIsRefusedWithTheRemedy) {
  World world;
  world.say("set a 0 0 1\r\nx\r\n");
  auto* const cache = world.pool->find_root<Cache>(kRoot);
  const auto opening = [&] {
    try {
      PoolStore(*world.pool, *world.syncer, world.clock, {});
      return std::string("opened");
    } catch (const Exception& error) {
      return std::string(code_name(error.code())) + ": " + error.what();
    }
  };
  EXPECT_EQ(opening(), "opened");
  world.pool->atomically([&](Tx& tx) { tx.store(cache->version, 2); });
  EXPECT_THAT(opening(), HasSubstr("version: the cache has format version 2"));
  world.pool->atomically([&](Tx& tx) {
    tx.store(cache->version, kVersion);
    tx.store(cache->buckets, 0);
  });
  EXPECT_THAT(opening(), HasSubstr("corrupt: "));
  EXPECT_THAT(world.say("get a\r\n"), HasSubstr("SERVER_ERROR"));
  world.pool->atomically([&](Tx& tx) {
    tx.store(cache->buckets, 16);
    tx.store(cache->magic, 5);
  });
  EXPECT_THAT(opening(), HasSubstr("is not a cache"));
  EXPECT_NE(world.audit(), "");
}

TEST(PoolStoreTest, CountsThatAreWrongAreFound) {
  World world;
  world.say("set a 0 0 1\r\nx\r\n");
  auto* const cache = world.pool->find_root<Cache>(kRoot);
  world.pool->atomically([&](Tx& tx) { tx.store(cache->tallies[3].items, 1); });
  EXPECT_THAT(world.audit(), HasSubstr("2 entries counted, 1 found"));
  world.pool->atomically([&](Tx& tx) {
    tx.store(cache->tallies[3].items, 0);
    tx.store(cache->tallies[3].bytes, 64);
  });
  EXPECT_THAT(world.audit(), HasSubstr("bytes counted"));
}

}  // namespace
}  // namespace perdure::memcached
