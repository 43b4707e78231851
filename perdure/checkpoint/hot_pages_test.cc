// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/hot_pages.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace perdure::checkpoint {
namespace {

struct HotPagesTest : testing::Test {
  /// An epoch in which one page changed, or was only compared.
  bool epoch(std::uint64_t page, bool changed) {
    pages.begin_epoch();
    return pages.note(page, changed);
  }
  std::vector<std::uint8_t> states = std::vector<std::uint8_t>(20'000);
  HotPages pages{states.data()};
};

TEST_F(HotPagesTest, HotAfterThreeChangesInARowAndUntilTwoEpochsWithout) {
  EXPECT_FALSE(epoch(7, true));
  EXPECT_FALSE(epoch(7, true));
  EXPECT_TRUE(epoch(7, true));
  EXPECT_TRUE(pages.hot(7));
  EXPECT_TRUE(epoch(7, false)) << "once does not count";
  EXPECT_TRUE(epoch(7, true));
  EXPECT_TRUE(epoch(7, false));
  EXPECT_FALSE(epoch(7, false));
  EXPECT_FALSE(epoch(7, true)) << "it begins anew";
  EXPECT_FALSE(epoch(7, true));
  EXPECT_TRUE(epoch(7, true));
}

TEST_F(HotPagesTest, AnEpochWithoutAWriteBreaksTheRow) {
  for (int turn = 0; turn < 100; ++turn) {
    EXPECT_FALSE(epoch(7, true));
    EXPECT_FALSE(epoch(7, true));
    pages.begin_epoch();  // not reported
  }
  EXPECT_FALSE(epoch(8, true));
  EXPECT_FALSE(epoch(8, true));
  EXPECT_FALSE(epoch(8, false)) << "written, but the same bytes";
  EXPECT_FALSE(epoch(8, true));
  EXPECT_FALSE(epoch(8, true));
  EXPECT_TRUE(epoch(8, true));
}

TEST_F(HotPagesTest, ThereAreNotMoreThanTheMost) {
  for (int turn = 0; turn < 5; ++turn) {
    pages.begin_epoch();
    for (std::uint64_t page = 0; page < states.size(); ++page) pages.note(page, true);
  }
  EXPECT_EQ(pages.count(), HotPages::kMost);
  EXPECT_TRUE(pages.hot(HotPages::kMost - 1));
  EXPECT_FALSE(pages.hot(HotPages::kMost));
}

TEST_F(HotPagesTest, AgreesWithAModelOfWhatEveryPageDid) {
  std::mt19937_64 random(1);
  constexpr std::uint64_t kPages = 60;
  std::vector<std::vector<bool>> history(kPages);  // of each page: changed
  std::vector<bool> hot(kPages);
  for (int turn = 0; turn < 5000; ++turn) {
    pages.begin_epoch();
    std::uint64_t count = 0;
    for (std::uint64_t page = 0; page < kPages; ++page) {
      // Some change nearly always, others now and then; but not after a rest of exactly 32 epochs,
      // which looks like none.
      auto& past = history[page];
      const bool due =
          past.size() > 20 && std::find(past.end() - 20, past.end(), true) == past.end();
      const bool changed = due || random() % 10 < (page % 3 == 0 ? 9u : page % 3 == 1 ? 5u : 2u);
      past.push_back(changed);
      const auto all = [&](std::size_t last, bool value) {
        if (past.size() < last) return false;
        for (std::size_t i = past.size() - last; i < past.size(); ++i) {
          if (past[i] != value) return false;
        }
        return true;
      };
      if (changed || hot[page]) {
        const bool noted = pages.note(page, changed);
        hot[page] = hot[page] ? !all(2, false) : all(3, true);
        ASSERT_EQ(noted, hot[page]) << "page " << page << " turn " << turn;
      }
      count += hot[page] ? 1 : 0;
    }
    ASSERT_EQ(pages.count(), count);
  }
}

TEST_F(HotPagesTest, AreWorthLeavingWhenTheyAreManyOrLieTogether) {
  const auto run = [&](auto&& change) {
    for (int turn = 0; turn < 4; ++turn) {
      pages.begin_epoch();
      change(turn);
    }
    return pages.worth_leaving();
  };
  const auto hot_pages = [&](std::uint64_t from, std::uint64_t count, std::uint64_t step) {
    return run([&](int) {
      for (std::uint64_t i = 0; i < count; ++i) pages.note(from + i * step, true);
    });
  };
  EXPECT_TRUE(hot_pages(0, 1000, 1));
  EXPECT_TRUE(hot_pages(0, 1000, 16));
  EXPECT_FALSE(hot_pages(3, 10, 1999)) << "walking memory again costs more than ten faults";
  // As many others, each behind a hot page: a call for each of them.
  const auto mixed = [&](std::uint64_t others_in_a_row) {
    return run([&](int turn) {
      for (std::uint64_t page = 0; page < 10'000; ++page) {
        const bool hot = page / others_in_a_row % 2 == 0;
        if (hot || turn == 3) pages.note(page, true);
      }
    });
  };
  EXPECT_FALSE(mixed(1));
  EXPECT_TRUE(mixed(10));
  pages = HotPages(states.data(), kMprotectCosts);
  EXPECT_TRUE(mixed(1)) << "its faults cost more than its calls";
}

TEST_F(HotPagesTest, WithoutAnyThereIsNothingToLeave) {
  EXPECT_FALSE(pages.worth_leaving());
  pages.begin_epoch();
  EXPECT_FALSE(pages.worth_leaving());
  EXPECT_FALSE(epoch(7, true));
  EXPECT_FALSE(pages.worth_leaving());
}

}  // namespace
}  // namespace perdure::checkpoint
