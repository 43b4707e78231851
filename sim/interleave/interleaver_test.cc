// SPDX-License-Identifier: BSD-3-Clause
#include "sim/interleave/interleaver.h"

#include <array>
#include <memory>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

namespace perdure::interleave {
namespace {

class Interleaver : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kPossible) GTEST_SKIP() << "sanitizers do not follow fibers";
  }
};

TEST_F(Interleaver, RunsEveryOrderOfTwoStores) {
  std::set<int> seen;
  const Report report = explore([&] {
    auto value = std::make_shared<Atomic<int>>();
    return std::vector<Body>{[value] { value->store(1); },
                             [value, &seen] {
                               value->store(2);
                               seen.insert(value->load());
                             }};
  });
  EXPECT_TRUE(report.complete);
  EXPECT_EQ(report.violation, "");
  EXPECT_EQ(seen, (std::set<int>{1, 2}));
}

/// Each of two threads stores to a place of its own and then looks at the other's: whether both may see nothing.
bool both_see_nothing(bool store_buffers, bool fences) {
  bool ever = false;
  const Report report = explore(
      [&] {
        auto places = std::make_shared<std::array<Atomic<int>, 2>>();
        auto saw = std::make_shared<std::array<int, 2>>(std::array<int, 2>{-1, -1});
        std::vector<Body> bodies;
        for (unsigned me = 0; me < 2; ++me) {
          bodies.emplace_back([=, &ever] {
            (*places)[me].store(1, std::memory_order_relaxed);
            if (fences) fence();
            if ((*places)[me].load() != 1) throw std::runtime_error("not its own store");
            (*saw)[me] = (*places)[1 - me].load(std::memory_order_acquire);
            step();  // what it stored is still its own: it has not ended
            ever = ever || *saw == std::array<int, 2>{0, 0};
          });
        }
        return bodies;
      },
      {.store_buffers = store_buffers});
  EXPECT_TRUE(report.complete) << report.violation;
  return ever;
}

TEST_F(Interleaver, StoreBuffersShowWhatAFenceIsFor) {
  EXPECT_FALSE(both_see_nothing(false, false));
  EXPECT_TRUE(both_see_nothing(true, false));
  EXPECT_FALSE(both_see_nothing(true, true));
}

/// Two threads that each add one by a load and a store.
Report lost_update(unsigned preemptions) {
  std::shared_ptr<Atomic<int>> sum;
  return explore(
      [&] {
        sum = std::make_shared<Atomic<int>>();
        auto done = std::make_shared<Atomic<int>>();
        const Body add = [sum, done] {
          sum->store(sum->load() + 1);
          if (done->fetch_add(1) == 1 && sum->load() != 2) throw std::runtime_error("lost");
        };
        return std::vector<Body>{add, add};
      },
      {.preemptions = preemptions});
}

TEST_F(Interleaver, FindsALostUpdateWhichNeedsAPreemption) {
  EXPECT_EQ(lost_update(0).violation, "");
  EXPECT_EQ(lost_update(1).violation, "lost");
}

TEST_F(Interleaver, WhoWaitsGoesOnWhenSomethingHasChanged) {
  std::shared_ptr<Atomic<int>> ready;
  const Report report = explore([&] {
    ready = std::make_shared<Atomic<int>>();
    return std::vector<Body>{[ready = ready] {
                               while (ready->load() == 0) wait();
                             },
                             [ready = ready] { ready->store(1); }};
  });
  EXPECT_TRUE(report.complete) << report.violation;
  EXPECT_GE(report.schedules, 3u);
}

TEST_F(Interleaver, ABarrierEverywhereServesForTheOthersFence) {
  bool ever = false;
  const Report report = explore(
      [&] {
        auto places = std::make_shared<std::array<Atomic<int>, 2>>();
        auto saw = std::make_shared<std::array<int, 2>>(std::array<int, 2>{-1, -1});
        std::vector<Body> bodies;
        for (unsigned me = 0; me < 2; ++me) {
          bodies.emplace_back([=, &ever] {
            (*places)[me].store(1, std::memory_order_relaxed);
            if (me == 0) fence_everywhere();
            (*saw)[me] = (*places)[1 - me].load(std::memory_order_acquire);
            step();
            ever = ever || *saw == std::array<int, 2>{0, 0};
          });
        }
        return bodies;
      },
      {.store_buffers = true});
  EXPECT_TRUE(report.complete) << report.violation;
  EXPECT_FALSE(ever);
}

TEST_F(Interleaver, WhoGivesWayComesToTheThreadThatItWaitsFor) {
  const Report report = explore([] {
    auto ready = std::make_shared<Atomic<int>>();
    const Body wait = [ready] {
      while (ready->load() == 0) give_way();
    };
    return std::vector<Body>{wait, wait, [ready] { ready->store(1); }};
  });
  EXPECT_TRUE(report.complete) << report.violation;
}

TEST_F(Interleaver, EachThreadHandlesItsOwnExceptions) {
  const Report report = explore([] {
    const auto body = [](int mine) {
      return [mine] {
        try {
          try {
            throw mine;
          } catch (int) {
            step();
            throw;
          }
        } catch (int again) {
          step();
          if (again != mine) throw std::runtime_error("another thread's");
        }
      };
    };
    return std::vector<Body>{body(1), body(2)};
  });
  EXPECT_TRUE(report.complete) << report.violation;
}

TEST_F(Interleaver, AThreadCanEndTheSchedule) {
  const Report report = explore([] { return std::vector<Body>{[] { fail("enough"); }}; });
  EXPECT_EQ(report.violation, "enough");
  EXPECT_FALSE(in_body());
}

TEST_F(Interleaver, SaysThatThreadsWaitForEachOther) {
  const Report report = explore([] {
    auto never = std::make_shared<Atomic<int>>();
    return std::vector<Body>{[never] {
                               while (never->load() == 0) wait();
                             },
                             [never] { never->load(); }};
  });
  EXPECT_EQ(report.violation, "all threads wait for each other");
}

TEST_F(Interleaver, SaysThatAScheduleDoesNotEnd) {
  const Report report = explore([] {
    auto value = std::make_shared<Atomic<int>>();
    return std::vector<Body>{[value] {
      for (;;) value->store(1);
    }};
  });
  EXPECT_EQ(report.violation, "it does not end");
}

TEST_F(Interleaver, StopsAtItsLimit) {
  const Report report = explore(
      [] {
        auto value = std::make_shared<Atomic<int>>();
        const Body body = [value] {
          for (int i = 0; i < 10; ++i) value->fetch_add(1);
        };
        return std::vector<Body>{body, body};
      },
      {.schedules = 5});
  EXPECT_EQ(report.schedules, 5u);
  EXPECT_FALSE(report.complete);
}

}  // namespace
}  // namespace perdure::interleave
