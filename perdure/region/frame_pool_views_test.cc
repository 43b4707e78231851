// SPDX-License-Identifier: BSD-3-Clause
// Views of a frame pool: where pieces of files are shown, and how they go.
#include <atomic>
#include <cstring>
#include <thread>

#include "perdure/region/frame_pool_test_fixture.h"

namespace perdure {
namespace {

using FramePoolViewsTest = FramePoolTest;

TEST_F(FramePoolViewsTest, AViewCanBeReadOnlyAndBeAtAChosenAddress) {
  auto pool = pool_of(with(4));
  std::ofstream(file("a")) << std::string(3 * 4096, 'x');
  void* place = ::mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto view = pool->attach(place, 10 * 4096 + 1, file("a"), PROT_READ).value();
  EXPECT_EQ(view.address, place);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(static_cast<char>(view.address[2 * 4096]), 'x');
    for (std::uint64_t page = 3; page <= 10; ++page) EXPECT_EQ(*word(view, page), 0u);
  }
  pool->detach(view).value();
  EXPECT_EQ(std::filesystem::file_size(file("a")), 3u * 4096) << "nothing was stored, or written";
}

TEST_F(FramePoolViewsTest, PiecesOfAFileAreShownAtDifferentPlaces) {
  auto pool = pool_of(with(4));
  const auto tail = pool->attach(nullptr, 8 * 4096, file("a"), kBoth, 8 * 4096).value();
  const auto head = pool->attach(nullptr, 8 * 4096, file("a"), kBoth).value();
  EXPECT_EQ(head.file, tail.file);
  EXPECT_EQ(pool->attach(nullptr, 2 * 4096, file("a"), kBoth, 7 * 4096).error().code, Code::kBusy);
  EXPECT_EQ(pool->attach(nullptr, 4096, file("a"), kBoth, 100).error().code, Code::kInvalid);
  for (std::uint64_t page = 0; page < 8; ++page) {
    *word(head, page) = page + 1;
    *word(tail, page) = page + 9;
  }
  for (std::uint64_t page = 0; page < 8; ++page) {
    EXPECT_EQ(*word(head, page), page + 1);
    EXPECT_EQ(*word(tail, page), page + 9);
  }
  EXPECT_EQ(pool->detach(head).error().code, Code::kBusy);
  pool->cut(head.address, head.bytes).value();
  EXPECT_EQ(*word(tail, 7), 16u);
  pool->detach(tail).value();
  for (std::uint64_t page = 0; page < 16; ++page)
    EXPECT_EQ(word_of_file(file("a"), page), page + 1);
}

TEST_F(FramePoolViewsTest, WhatIsLeftOfACutViewCanBeUsedMeanwhile) {
  auto pool = pool_of(with(4));
  constexpr std::uint64_t kPages = 64;
  const auto view = pool->attach(nullptr, kPages * 4096, file("a"), kBoth).value();
  for (std::uint64_t page = 0; page < kPages; ++page) *word(view, page) = page;
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> rounds = 0;
  std::thread user([&] {
    while (!stop) {
      for (const std::uint64_t page : {0u, 1u, 62u, 63u}) *word(view, page, 1) += 1;
      ++rounds;
    }
  });
  while (rounds == 0) std::this_thread::yield();
  for (std::uint64_t page = 2; page < 62; page += 4)
    pool->cut(view.address + page * 4096, 4 * 4096).value();
  const std::uint64_t then = rounds;
  while (rounds == then) std::this_thread::yield();
  stop = true;
  user.join();
  for (const std::uint64_t page : {0u, 1u, 62u, 63u}) {
    EXPECT_EQ(*word(view, page), page);
    EXPECT_EQ(*word(view, page, 1), rounds);
  }
  EXPECT_EQ(pool->cut(view.address + 2 * 4096, 4096).error().code, Code::kInvalid) << "cut before";
  EXPECT_EQ(pool->cut(view.address, 100).error().code, Code::kInvalid);
  // What was cut can be shown again, elsewhere.
  const auto again = pool->attach(nullptr, 60 * 4096, file("a"), kBoth, 2 * 4096).value();
  for (std::uint64_t page = 2; page < 62; ++page) EXPECT_EQ(*word(again, page - 2), page);
  pool->cut(again.address, again.bytes).value();
  EXPECT_EQ(pool->forget(file("a")).error().code, Code::kBusy) << "its ends are attached";
  pool->cut(view.address, 2 * 4096).value();
  pool->cut(view.address + 62 * 4096, 2 * 4096).value();
  EXPECT_EQ(pool->statistics().mappings, 0u);
  pool->forget(file("a")).value();
  EXPECT_EQ(pool->statistics().frames_free, 4u);
  for (std::uint64_t page = 0; page < kPages; ++page)
    EXPECT_EQ(word_of_file(file("a"), page), page);
}

TEST_F(FramePoolViewsTest, InspectionShowsWhatIsInFrames) {
  std::uint64_t pages = 0;
  const auto count = [&](Offset at, std::span<const std::byte> page) {
    Word first = 0;
    std::memcpy(&first, page.data(), sizeof(first));
    EXPECT_EQ(first, at / 4096 + 1);
    EXPECT_EQ(page.size(), 4096u);
    ++pages;
  };
  {
    auto pool = pool_of(with(4));
    const auto view = pool->attach(nullptr, 8 * 4096, file("a"), kBoth).value();
    for (std::uint64_t page = 0; page < 8; ++page) *word(view, page) = page + 1;
    EXPECT_EQ(FramePool::inspect(path, file("a"), count).error().code, Code::kBusy);
  }
  FramePool::inspect(path, file("a"), count).value();
  EXPECT_EQ(pages, 4u);
  FramePool::inspect(path, file("unknown"), count).value();
  EXPECT_EQ(pages, 4u);
}

}  // namespace
}  // namespace perdure
