// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/pool_store.h"

#include <map>
#include <random>

#include <gmock/gmock.h>

#include "apps/memcached/session_test_world.h"

namespace perdure::memcached {
namespace {

using ::testing::HasSubstr;

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
