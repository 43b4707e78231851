// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/private_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sim/crash/working_view.h"

namespace perdure {
namespace {

constexpr std::uint64_t kPages = 64;

/// A private mapping of zeroes; a page that holds a byte of its own was not given back.
struct PrivatePagesTest : ::testing::Test {
  PrivatePagesTest() {
    void* view = ::mmap(nullptr, home.bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE, home.fd(), 0);
    base = static_cast<std::byte*>(view);
    pages.emplace(base, kPageBytes, home.bytes(), 8);
  }
  ~PrivatePagesTest() override { ::munmap(base, home.bytes()); }
  std::byte* page(std::uint64_t number) const { return base + number * kPageBytes; }
  void store(std::uint64_t number) {
    pages->mark(page(number) + 8);
    page(number)[8] = std::byte{1};
  }
  std::set<std::uint64_t> still_there() const {
    std::set<std::uint64_t> found;
    for (std::uint64_t i = 0; i < kPages; ++i) {
      if (page(i)[8] != std::byte{0}) found.insert(i);
    }
    return found;
  }
  crash::SharedMemory home{kPages * kPageBytes};
  std::byte* base = nullptr;
  std::optional<PrivatePages> pages;
};

TEST_F(PrivatePagesTest, ThoseOfAnOlderGenerationGoWhenThereAreMany) {
  for (std::uint64_t i = 1; i <= 4; ++i) store(i);
  store(1);  // once more
  EXPECT_EQ(pages->count(), 4u);
  pages->begin_generation();
  EXPECT_EQ(pages->give_back(), 0u) << "half of what may be there is not many";
  EXPECT_EQ(still_there().size(), 4u);
  for (std::uint64_t i = 5; i <= 9; ++i) store(i);
  EXPECT_TRUE(pages->are_too_many());
  store(2);
  EXPECT_EQ(pages->give_back(), 3u);
  EXPECT_EQ(still_there(), (std::set<std::uint64_t>{2, 5, 6, 7, 8, 9}))
      << "what was stored since the generation began is not home";
  pages->begin_generation();
  EXPECT_EQ(pages->give_back(), 6u);
  EXPECT_EQ(pages->count(), 0u);
  EXPECT_TRUE(still_there().empty());
  store(5);
  EXPECT_EQ(pages->count(), 1u) << "and may come again";
}

TEST_F(PrivatePagesTest, WhatWasStoredToLatelyGoesLast) {
  for (std::uint64_t i = 1; i <= 6; ++i) store(i);
  pages->begin_generation();
  store(7);
  pages->begin_generation();
  EXPECT_EQ(pages->give_back(), 6u);
  EXPECT_EQ(still_there(), (std::set<std::uint64_t>{7})) << "enough went without it";
}

TEST_F(PrivatePagesTest, ThoseOfAnExtentGoAtOnceIfTheyLieInItAsAWholeAndHaveNoPin) {
  for (std::uint64_t i = 1; i <= 9; ++i) store(i);
  pages->pin(page(5), 1);
  pages->give_back_within(page(2) + 1, 6 * kPageBytes);  // 3 to 7
  EXPECT_EQ(still_there(), (std::set<std::uint64_t>{1, 2, 5, 8, 9}));
  EXPECT_EQ(pages->count(), 5u);
  pages->unpin(page(5), 1);
  pages->give_back_within(page(1), (kPages - 1) * kPageBytes);
  EXPECT_EQ(pages->count(), 0u);
  EXPECT_TRUE(still_there().empty());
  store(5);
  EXPECT_EQ(pages->count(), 1u) << "and may come again";
  EXPECT_EQ(still_there(), (std::set<std::uint64_t>{5}));
}

TEST_F(PrivatePagesTest, APinHoldsPagesUntilItIsTakenAway) {
  const std::size_t two = kPageBytes + 1;
  for (std::uint64_t i = 1; i <= 10; ++i) store(i);
  pages->pin(page(3), two);
  pages->pin(page(4), 1);
  for (int i = 0; i < 2000; ++i) pages->pin(page(6), 1);
  pages->pin(page(20), 1);
  page(20)[8] = std::byte{1};
  pages->begin_generation();
  pages->begin_generation();
  EXPECT_EQ(pages->give_back(), 7u);
  EXPECT_EQ(still_there(), (std::set<std::uint64_t>{3, 4, 6, 20}));
  pages->unpin(page(3), two);
  for (int i = 0; i < 2000; ++i) pages->unpin(page(6), 1);
  pages->unpin(page(20), 1);
  for (std::uint64_t i = 30; i < 36; ++i) store(i);
  pages->begin_generation();
  pages->give_back();
  EXPECT_EQ(still_there(), (std::set<std::uint64_t>{4, 6})) << "one pin less, and too many";
  EXPECT_EQ(pages->count(), 2u);
}

TEST_F(PrivatePagesTest, WhatMustStayDoesNotCountAsTooMany) {
  for (std::uint64_t i = 1; i <= 20; ++i) pages->pin(page(i), 1);
  for (std::uint64_t i = 21; i <= 28; ++i) store(i);
  EXPECT_FALSE(pages->are_too_many());
  pages->unpin(page(1), 1);
  EXPECT_TRUE(pages->are_too_many());
  pages->begin_generation();
  EXPECT_EQ(pages->give_back(), 9u);
}

TEST_F(PrivatePagesTest, WhereTheSystemTakesNothingBackNobodyTriesAgain) {
  // Not mlock(), which does nothing under a sanitizer.
  if (::syscall(SYS_mlock, page(1), kPageBytes * 12) != 0)
    GTEST_SKIP() << "not allowed to lock memory";
  for (std::uint64_t i = 1; i <= 12; ++i) store(i);
  EXPECT_TRUE(pages->are_too_many());
  pages->begin_generation();
  EXPECT_EQ(pages->give_back(), 0u);
  EXPECT_FALSE(pages->are_many());
  store(3);
  EXPECT_EQ(still_there().size(), 12u);
  EXPECT_EQ(pages->count(), 12u);
}

TEST_F(PrivatePagesTest, AByteOutsideIsNoneOfTheirs) {
  EXPECT_FALSE(pages->contains(base));
  EXPECT_TRUE(pages->contains(page(1)));
  EXPECT_TRUE(pages->contains(page(kPages) - 1));
  EXPECT_FALSE(pages->contains(page(kPages)));
}

/// Stores that are pinned while they are brought home survive whoever gives pages back.
TEST_F(PrivatePagesTest, NothingStoredIsLostWhilePagesGoAndCome) {
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kRounds = 3000;
  std::atomic<bool> stop{false};
  std::thread giver([&] {
    while (!stop) {
      pages->begin_generation();
      pages->give_back();
    }
  });
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 1; i <= kRounds; ++i) {
        std::byte* const at = page(1 + (i * 7 + t) % (kPages - 1)) + 64 * (t + 1);
        auto* word = reinterpret_cast<Word*>(at);
        pages->pin(word, kWordBytes);
        store_word(word, load_word(word) + 1);
        store_word(reinterpret_cast<Word*>(home.base() + (at - base)), load_word(word));
        pages->unpin(word, kWordBytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  giver.join();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 1; i < kPages; ++i) {
    for (std::uint64_t t = 0; t < kThreads; ++t)
      sum += load_word(reinterpret_cast<Word*>(page(i) + 64 * (t + 1)));
  }
  EXPECT_EQ(sum, kThreads * kRounds);
}

}  // namespace
}  // namespace perdure
