// SPDX-License-Identifier: BSD-3-Clause
// ItemStore::together on a pool: one transaction or nothing.
#include <gtest/gtest.h>

#include "apps/memcached/session_test_world.h"

namespace perdure::memcached {
namespace {

std::string set(const std::string& key, std::size_t bytes = 512) {
  return "set " + key + " 0 0 " + std::to_string(bytes) + "\r\n" + std::string(bytes, 'v') + "\r\n";
}

TEST(PoolStoreGroupTest, WhatIsDoneTogetherIsThere) {
  World world;
  for (int round = 0; round < 500; ++round) {
    std::string replies;
    ASSERT_TRUE(world.store->together([&] {
      for (int i = 0; i < 8; ++i)
        replies += world.say(set("k" + std::to_string((round * 7 + i) % 900)));
      replies += world.say(set("n", 1) + "delete n\r\nmg n v\r\nset n 0 0 1\r\n1\r\nincr n 1\r\n");
    }));
    std::string expected;
    for (int i = 0; i < 9; ++i) expected += "STORED\r\n";
    ASSERT_EQ(replies, expected + "DELETED\r\nEN\r\nSTORED\r\n2\r\n") << "each sees those before";
  }
  EXPECT_EQ(world.items(), 901u);
  EXPECT_EQ(world.audit(), "");
  world.reopen();
  EXPECT_EQ(world.items(), 901u);
  EXPECT_EQ(world.say("get n\r\n"), "VALUE n 0 1\r\n2\r\nEND\r\n");
}

TEST(PoolStoreGroupTest, TogetherTheyWaitAsOneDoes) {
  World world({}, 1 << 20, DomainKind::kAdr);
  const auto fences_of = [&](int sets) {
    const std::uint64_t before = world.pool->counts().fences;
    EXPECT_TRUE(world.store->together([&] {
      for (int i = 0; i < sets; ++i) world.say(set("k" + std::to_string(i)));
    }));
    return world.pool->counts().fences - before;
  };
  for (int i = 0; i < 3; ++i) fences_of(16);  // the heap takes what memory they need
  EXPECT_EQ(fences_of(1), 2u) << "for the new object, and for the record that leads to it";
  EXPECT_EQ(fences_of(16), 2u);
}

TEST(PoolStoreGroupTest, WhoMeetsAnotherThreadHasDoneNothing) {
  World world;
  world.say(set("a", 1) + set("b", 1));
  int calls = 0;
  EXPECT_FALSE(world.store->together([&] {
    ++calls;
    EXPECT_EQ(world.say("mg a v\r\n"), "VA 1\r\nv\r\n");
    world.in_threads(
        1, [](Session& other, int) { EXPECT_EQ(World::say(other, set("a", 2)), "STORED\r\n"); });
    world.say(set("b", 300) + set("c") + set("a", 3));
    ADD_FAILURE() << "went on with what is not so any more";
  }));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(world.say("get a b c\r\n"), "VALUE a 0 2\r\nvv\r\nVALUE b 0 1\r\nv\r\nEND\r\n");
  EXPECT_EQ(world.items(), 2u);
  EXPECT_EQ(world.audit(), "");
}

TEST(PoolStoreGroupTest, WhatCannotBeDoneInsideEndsIt) {
  World world;
  world.say(set("a", 1));
  EXPECT_FALSE(world.store->together([&] {
    world.say(set("b"));
    world.say("flush_all\r\n");
    ADD_FAILURE() << "went on";
  }));
  EXPECT_EQ(world.say("get a b\r\n"), "VALUE a 0 1\r\nv\r\nEND\r\n");
  EXPECT_TRUE(world.store->together([&] { world.say(set("b")); })) << "the next one may";
  EXPECT_EQ(world.items(), 2u);
}

TEST(PoolStoreGroupTest, InAFullCacheRoomIsMadeBefore) {
  constexpr std::uint64_t kLimit = 4 << 20;
  World world({kLimit, true});
  int apart = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto eight = [&] {
      for (int i = 0; i < 8; ++i) world.say(set("k" + std::to_string(8 * round + i)));
    };
    if (world.store->together(eight)) continue;
    ++apart;
    eight();
  }
  EXPECT_LE(world.store->counts().bytes, kLimit);
  EXPECT_GT(world.store->counts().evictions, 20'000u);
  EXPECT_LT(apart, 20);
  EXPECT_EQ(world.audit(), "");
}

TEST(PoolStoreGroupTest, ThreadsThatMeetLoseNothing) {
  World world;
  world.say("set n 0 0 1\r\n0\r\n");
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  world.in_threads(kThreads, [&](Session& session, int i) {
    for (int round = 0; round < kRounds; ++round) {
      const auto some = [&] {
        for (int k = 0; k < 4; ++k)
          World::say(session, set("k" + std::to_string((i + round * 4 + k) % 50), 400));
        World::say(session, "incr n 1\r\n");
      };
      if (!world.store->together(some)) some();
    }
  });
  EXPECT_EQ(world.say("get n\r\n"), "VALUE n 0 4\r\n2000\r\nEND\r\n");
  EXPECT_EQ(world.items(), 51u);
  EXPECT_EQ(world.audit(), "");
}

}  // namespace
}  // namespace perdure::memcached
