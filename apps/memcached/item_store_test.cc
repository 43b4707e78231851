// SPDX-License-Identifier: BSD-3-Clause
// What holds for each store of items that is ours.
#include "apps/memcached/item_store.h"

#include <map>
#include <random>

#include <gmock/gmock.h>

#include "apps/memcached/session_test_world.h"

namespace perdure::memcached {
namespace {

using ::testing::HasSubstr;

class EveryStore : public ::testing::TestWithParam<World::Kept> {};

TEST_P(EveryStore, BehavesLikeAMapThroughGrowthAndRestarts) {
  World world({}, 1 << 20, DomainKind::kDram, GetParam());
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
      if (GetParam() == World::Kept::kInPool) {
        ASSERT_EQ(world.audit(), "");
      }
    }
  }
}

TEST_P(EveryStore, TheLimitHoldsAndWhatIsUsedStays) {
  constexpr std::uint64_t kLimit = 4 << 20;
  World world({kLimit, true}, 1 << 20, DomainKind::kDram, GetParam());
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
  if (GetParam() == World::Kept::kInPool) {
    EXPECT_EQ(world.audit(), "");
  }
  // A smaller limit, an hour later.
  EXPECT_TRUE(world.store->set_limit(1 << 20));
  world.say("set last 0 0 1\r\nx\r\n");
  EXPECT_LE(world.store->counts().bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(world.say("get last\r\n"), "VALUE last 0 1\r\nx\r\nEND\r\n");
}

TEST_P(EveryStore, AFullCacheRefusesWhereNothingMayGo) {
  World world({1 << 20, false}, 1 << 20, DomainKind::kDram, GetParam());
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

TEST_P(EveryStore, ManyThreadsOnFewKeysLoseNothing) {
  constexpr int kThreads = 6;
  constexpr int kRounds = 300;
  World world({}, 1 << 20, DomainKind::kDram, GetParam());
  world.say("set count 0 0 1\r\n0\r\n");
  world.in_threads(kThreads, [&](Session& session, int thread) {
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_THAT(World::say(session, "incr count 1\r\n"), HasSubstr("\r\n"));
      const std::string key = "k" + std::to_string((thread + i) % 3);
      World::say(session, "set " + key + " 0 0 3\r\nabc\r\nappend " + key + " 0 0 2\r\nde\r\n");
      World::say(session, "delete " + key + "\r\n");
    }
  });
  EXPECT_EQ(world.say("get count\r\n"), "VALUE count 0 4\r\n1800\r\nEND\r\n");
  world.say("delete k0\r\ndelete k1\r\ndelete k2\r\ndelete count\r\n");
  EXPECT_EQ(world.items(), 0u);
  EXPECT_EQ(world.store->counts().bytes, 0u);
}

TEST_P(EveryStore, WhatIsFlushedIsGoneAndItsSpaceComesBack) {
  World world({}, 1 << 20, DomainKind::kDram, GetParam());
  for (int i = 0; i < 100; ++i) world.say("set k" + std::to_string(i) + " 0 0 1\r\nx\r\n");
  world.say("flush_all\r\nset after 0 0 1\r\ny\r\n");
  EXPECT_EQ(world.say("get k1 after k99\r\n"), "VALUE after 0 1\r\ny\r\nEND\r\n");
  for (int i = 0; i < 100 && world.items() > 1; ++i) world.store->tidy();
  EXPECT_EQ(world.items(), 1u);
  world.reopen();
  EXPECT_EQ(world.say("get k1 after\r\n"), "VALUE after 0 1\r\ny\r\nEND\r\n");
  EXPECT_EQ(world.items(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Ours, EveryStore,
                         ::testing::Values(World::Kept::kInPool, World::Kept::kInObjects),
                         [](const auto& of) {
                           return std::string(of.param == World::Kept::kInPool ? "pool"
                                                                               : "objects");
                         });

}  // namespace
}  // namespace perdure::memcached
