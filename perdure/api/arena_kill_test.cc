// SPDX-License-Identifier: BSD-3-Clause
// Processes that change an arena are killed at random moments, also while they open it.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "perdure/api/arena_test_fixture.h"

namespace perdure {
namespace {

INSTANTIATE_TEST_SUITE_P(Tracking, ArenaTest,
                         testing::Values(ArenaTracking::kUserfault, ArenaTracking::kMprotect),
                         tracking_name);

TEST_P(ArenaTest, KilledAtAnyMomentItHoldsAWholeEpoch) {
  options.epoch = std::chrono::milliseconds(5);
  options.durable = ArenaDurable::kProcess;
  Arena::create(file, options).value();
  std::mt19937_64 random(3);
  std::uint64_t most = 0;
  const int kills = GetParam() == ArenaTracking::kUserfault ? 60 : 25;
  for (int kill = 0; kill < kills; ++kill) {
    // Of every second child the opening is interrupted, too; of the others only what follows.
    int opened[2];
    ASSERT_EQ(::pipe(opened), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      auto arena = Arena::open(file, options).value();
      auto& names = arena.make_root<Names>("names");
      auto& numbers = arena.make_root<Numbers>("numbers");
      std::mt19937_64 choice(random());
      if (::write(opened[1], "", 1) != 1) std::abort();
      for (;;) {
        const Arena::Guard guard(arena);
        // What is in one is in the other, with a name that tells its number.
        const std::uint64_t number = choice() % 3000;
        if (const auto found = names.find(number); found != names.end()) {
          names.erase(found);
          numbers.erase(std::find(numbers.begin(), numbers.end(), number));
        } else {
          names.emplace(number, Text(std::to_string(number) + std::string(number % 200, '.'),
                                     arena.allocator<char>()));
          numbers.push_back(number);
        }
      }
    }
    ::close(opened[1]);
    char byte = 0;
    if (kill % 2 == 0) {
      ASSERT_EQ(::read(opened[0], &byte, 1), 1);
    }
    ::close(opened[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 25'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    ArenaOptions calm = options;
    calm.epoch = {};
    auto arena = Arena::open(file, calm).value();
    const auto* names = arena.root<Names>("names");
    const auto* numbers = arena.root<Numbers>("numbers");
    if (names == nullptr || numbers == nullptr) {
      ASSERT_EQ(most, 0u) << "roots that were there are gone";
      continue;
    }
    ASSERT_EQ(names->size(), numbers->size()) << "kill " << kill;
    for (const std::uint64_t number : *numbers) {
      const auto found = names->find(number);
      ASSERT_NE(found, names->end());
      ASSERT_EQ(found->second.size(), std::to_string(number).size() + number % 200);
    }
    ASSERT_GE(arena.epoch().epoch, most);
    most = arena.epoch().epoch;
  }
  EXPECT_GT(most, 5u);
}

}  // namespace
}  // namespace perdure
