// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/dirty_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/base/words.h"

namespace perdure::checkpoint {
namespace {

constexpr std::uint64_t kPages = 512;

class DirtyPagesTest : public testing::TestWithParam<Tracking> {
 protected:
  void SetUp() override {
    void* got = ::mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(got, MAP_FAILED);
    base = static_cast<std::byte*>(got);
    dirty = DirtyPages::watch(base, kPages, GetParam()).value();
  }
  void TearDown() override {
    dirty.reset();
    ::munmap(base, kPages * kPageBytes);
  }

  using Pages = std::set<std::uint64_t>;
  void write(const Pages& pages) const {
    for (const std::uint64_t page : pages) base[page * kPageBytes + 5] ^= std::byte{1};
  }
  Pages collect(bool again) {
    std::vector<PageRange> ranges;
    dirty->collect(ranges, again).value();
    Pages pages;
    for (const PageRange& range : ranges) {
      for (std::uint64_t page = range.first; page < range.first + range.count; ++page)
        pages.insert(pages.end(), page);
    }
    return pages;
  }

  std::byte* base = nullptr;
  std::unique_ptr<DirtyPages> dirty;
};

INSTANTIATE_TEST_SUITE_P(Ways, DirtyPagesTest,
                         testing::Values(Tracking::kUserfault, Tracking::kMprotect),
                         [](const auto& way) {
                           return way.param == Tracking::kUserfault ? "Userfault" : "Mprotect";
                         });

TEST_P(DirtyPagesTest, TellsEachWrittenPageOnce) {
  EXPECT_EQ(collect(true), Pages{});
  write({0, 1, 7, kPages - 1});
  EXPECT_EQ(collect(true), (Pages{0, 1, 7, kPages - 1}));
  EXPECT_EQ(collect(true), Pages{});
  write({7});
  EXPECT_EQ(collect(true), Pages{7});
}

TEST_P(DirtyPagesTest, WhatIsNotWatchedAgainIsToldAgain) {
  write({3, 4, 5, 9});
  EXPECT_EQ(collect(false), (Pages{3, 4, 5, 9}));
  dirty->watch_again({4, 1}).value();
  dirty->watch_again({6, 4}).value();  // also pages that are watched
  EXPECT_EQ(collect(false), (Pages{3, 5}));
  write({4, 7});
  EXPECT_EQ(collect(false), (Pages{3, 4, 5, 7}));
  dirty->watch_again({0, kPages}).value();
  EXPECT_EQ(collect(false), Pages{});
}

TEST_P(DirtyPagesTest, LosesNothingOfARandomProgram) {
  std::mt19937_64 random(2);
  Pages unwatched;
  for (int turn = 0; turn < 300; ++turn) {
    Pages expected = unwatched;
    for (std::uint64_t left = random() % 100; left > 0; --left) expected.insert(random() % kPages);
    write(expected);
    const bool again = random() % 2 == 0;
    ASSERT_EQ(collect(again), expected) << turn;
    unwatched = again ? Pages{} : expected;
    for (std::uint64_t left = again ? 0 : random() % 20; left > 0; --left) {
      const std::uint64_t first = random() % kPages;
      const std::uint64_t count = 1 + random() % std::min<std::uint64_t>(40, kPages - first);
      dirty->watch_again({first, count}).value();
      unwatched.erase(unwatched.lower_bound(first), unwatched.lower_bound(first + count));
    }
  }
}

/// All mappings that this process may still have, but for a few, as the pages of a region that
/// alternate.
class Mappings {
 public:
  explicit Mappings(std::uint64_t left) {
    std::uint64_t most = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> most;
    std::uint64_t taken = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++taken;
    if (most == 0 || most > 1'000'000 || taken + left >= most) return;
    const std::uint64_t wanted = most - taken - left;
    bytes_ = wanted * kPageBytes;
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::uint64_t page = 1; page < wanted; page += 2) {
      if (::mprotect(base_ + page * kPageBytes, kPageBytes, PROT_NONE) != 0) break;
    }
    full_ = true;
  }
  ~Mappings() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;
  bool full() const { return full_; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool full_ = false;
};

TEST_P(DirtyPagesTest, WithoutMappingsLeftTooMuchIsToldAndNothingLost) {
  Pages written;
  for (std::uint64_t page = 1; page < kPages; page += 7) written.insert(page);
  Pages told;
  Pages then;
  {
    const Mappings others(20);
    if (!others.full()) GTEST_SKIP() << "this system has room for more mappings than a test";
    write(written);
    told = collect(true);
    write({8, 100});
    then = collect(true);
  }
  EXPECT_TRUE(std::includes(told.begin(), told.end(), written.begin(), written.end()));
  if (GetParam() == Tracking::kMprotect) {
    EXPECT_EQ(told.size(), kPages) << "there were enough mappings: this test judges nothing";
  } else {
    EXPECT_EQ(told, written);
  }
  EXPECT_EQ(then, (Pages{8, 100})) << "it is watched again";
}

}  // namespace
}  // namespace perdure::checkpoint
