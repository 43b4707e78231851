// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/arena_heap.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/small_pool.h"

namespace perdure::checkpoint {
namespace {

using perdure::testing::kSanitized;

constexpr std::uint64_t kCapacity = std::uint64_t{2} << 20;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
std::unique_ptr<std::byte, Free> zeros() {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(ArenaHeap::kChunkBytes, kCapacity));
  std::memset(memory, 0, kCapacity);
  return std::unique_ptr<std::byte, Free>(memory);
}

TEST(ArenaHeap, ObjectsNeverOverlapAndAllComesBack) {
  const auto memory = zeros();
  ArenaHeap& heap = *ArenaHeap::open(memory.get(), kCapacity, true).value();
  std::mt19937_64 random(5);
  struct Object {
    std::byte* at;
    std::size_t bytes;
    std::byte value;
  };
  std::vector<Object> objects;
  int full = 0;
  for (int turn = 0; turn < 30'000; ++turn) {
    const bool grow = turn / 3000 % 2 == 0;
    if (!objects.empty() && random() % 10 < (grow ? 3u : 7u)) {
      std::swap(objects[random() % objects.size()], objects.back());
      const Object& gone = objects.back();
      for (std::size_t i = 0; i < gone.bytes; ++i) ASSERT_EQ(gone.at[i], gone.value);
      heap.deallocate(gone.at);
      objects.pop_back();
    } else {
      const std::size_t bytes = random() % 20 == 0 ? random() % 60'000 : random() % 600;
      const std::size_t alignment = std::size_t{1} << (random() % 8);
      try {
        auto* at = static_cast<std::byte*>(heap.allocate(bytes, alignment));
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignment, 0u);
        const auto value = static_cast<std::byte>(random());
        std::memset(at, static_cast<int>(value), bytes);
        objects.push_back({at, bytes, value});
      } catch (const Exception& error) {
        ASSERT_EQ(error.code(), Code::kNoSpace);
        ++full;
      }
    }
    if (turn % 200 == 0) {
      ASSERT_EQ(heap.find_fault(kCapacity), "") << turn;
    }
  }
  EXPECT_GT(full, 0);
  for (const Object& object : objects) heap.deallocate(object.at);
  EXPECT_EQ(heap.used_bytes(), 0u);
  EXPECT_EQ(heap.find_fault(kCapacity), "");
  EXPECT_NO_THROW(heap.deallocate(heap.allocate(kCapacity - 64 * 1024)));
}

TEST(ArenaHeap, ResizedObjectsKeepWhatFits) {
  const auto memory = zeros();
  ArenaHeap& heap = *ArenaHeap::open(memory.get(), kCapacity, true).value();
  std::mt19937_64 random(6);
  struct Object {
    std::byte* at = nullptr;
    std::vector<std::byte> contents;
  };
  std::vector<Object> objects(12);
  int stayed = 0;
  for (int turn = 0; turn < (kSanitized ? 3'000 : 20'000); ++turn) {
    Object& object = objects[random() % objects.size()];
    const std::size_t bytes = random() % (random() % 2 == 0 ? 300 : 90'000);
    auto* const at = static_cast<std::byte*>(heap.resize(object.at, bytes));
    stayed += at == object.at ? 1 : 0;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignof(std::max_align_t), 0u);
    const std::size_t kept = std::min(bytes, object.contents.size());
    ASSERT_TRUE(std::equal(at, at + kept, object.contents.begin())) << turn;
    object.at = at;
    object.contents.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      at[i] = object.contents[i] = static_cast<std::byte>(random());
    if (turn % 200 == 0) {
      ASSERT_EQ(heap.find_fault(kCapacity), "") << turn;
    }
  }
  EXPECT_GT(stayed, kSanitized ? 100 : 1000);
  EXPECT_THROW(heap.resize(objects[0].at, kCapacity), Exception);
  const auto& kept = objects[0];
  EXPECT_EQ(std::memcmp(kept.at, kept.contents.data(), kept.contents.size()), 0);
  for (const Object& object : objects) heap.deallocate(object.at);
  EXPECT_EQ(heap.used_bytes(), 0u);
  EXPECT_EQ(heap.find_fault(kCapacity), "");
}

TEST(ArenaHeap, DamagedTablesAreFoundAndNeverFollowed) {
  const auto memory = zeros();
  ArenaHeap& heap = *ArenaHeap::open(memory.get(), kCapacity, true).value();
  std::vector<void*> objects;
  for (std::size_t i = 1; i < 500; ++i) objects.push_back(heap.allocate(i * 7));
  for (std::size_t i = 0; i < objects.size(); i += 3) heap.deallocate(objects[i]);
  heap.set_root("one", 1, objects[1]);
  const auto copy = zeros();
  std::mt19937_64 random(9);
  int refused = 0;
  // All of the head and the table; a root's address must lie in the copy, so it is left out.
  heap.set_root("one", 1, nullptr);
  for (int turn = 0; turn < 4000; ++turn) {
    std::memcpy(copy.get(), memory.get(), kCapacity);
    for (int flips = 0; flips < 3; ++flips)
      copy.get()[random() % 9000] ^= static_cast<std::byte>(1u << (random() % 8));
    auto opened = ArenaHeap::open(copy.get(), kCapacity, false);
    if (!opened) {
      ++refused;
      EXPECT_NE(opened.error().code, Code::kIo);
    }
  }
  EXPECT_GT(refused, 1500);
}

/// A bit, a word or a sector of head and table: afterwards the heap can be used, and whatever is
/// allocated lies beside what was there.
TEST(ArenaHeap, DamagedTablesAreMendedAndNothingThatIsThereIsGivenOutAgain) {
  const auto memory = zeros();
  ArenaHeap& heap = *ArenaHeap::open(memory.get(), kCapacity, true).value();
  struct Object {
    std::size_t at;
    std::size_t bytes;
  };
  std::vector<Object> objects;
  std::mt19937_64 random(10);
  for (int i = 0; i < 700; ++i) {
    const std::size_t bytes = random() % 30 == 0 ? random() % 50'000 : 1 + random() % 900;
    auto* const at = static_cast<std::byte*>(heap.allocate(bytes));
    if (random() % 3 == 0) {
      heap.deallocate(at);
      continue;
    }
    std::memset(at, 'o', bytes);
    objects.push_back({static_cast<std::size_t>(at - memory.get()), bytes});
  }
  for (std::size_t i = 0; i < objects.size() / 2; ++i) {
    std::swap(objects[random() % objects.size()], objects.back());
    heap.deallocate(memory.get() + objects.back().at);
    objects.pop_back();
  }
  const std::size_t tables = sizeof(ArenaHeap) + kCapacity / ArenaHeap::kChunkBytes * 24;
  const auto copy = zeros();
  const auto address = reinterpret_cast<std::uintptr_t>(copy.get());
  int mended = 0;
  int usable = 0;
  for (int turn = 0; turn < (kSanitized ? 150 : 1000); ++turn) {
    std::memcpy(copy.get(), memory.get(), kCapacity);
    const std::size_t bytes = turn % 3 == 0 ? 1 : turn % 3 == 1 ? 8 : 512;
    const std::size_t at = random() % tables / bytes * bytes;
    for (std::size_t i = at; i < at + bytes; ++i)
      copy.get()[i] = bytes == 1      ? copy.get()[i] ^ static_cast<std::byte>(1u << random() % 8)
                      : turn % 2 == 0 ? std::byte{0}
                                      : static_cast<std::byte>(random());
    auto& damaged = *reinterpret_cast<ArenaHeap*>(copy.get());
    if (damaged.find_fault(kCapacity, address).empty()) continue;
    (void)damaged.mend(kCapacity, address);
    ++mended;
    ASSERT_EQ(damaged.find_fault(kCapacity, address), "") << "turn " << turn << " byte " << at;
    ArenaHeap& opened = *ArenaHeap::open(copy.get(), kCapacity, false).value();
    std::uint64_t given = 0;
    for (const std::size_t size : {40'000u, 16'000u, 5'000u, 700u, 100u, 16u}) {
      try {
        for (;; given += size) std::memset(opened.allocate(size), 'n', size);
      } catch (const Exception& error) {
        ASSERT_EQ(error.code(), Code::kNoSpace);
      }
    }
    usable += given > kCapacity / 4 ? 1 : 0;
    ASSERT_EQ(opened.find_fault(kCapacity, address), "");
    for (const Object& object : objects) {
      for (std::size_t i = 0; i < object.bytes; ++i)
        ASSERT_EQ(copy.get()[object.at + i], std::byte{'o'})
            << "turn " << turn << ", " << bytes << " bytes at " << at << ": object at "
            << object.at;
    }
  }
  EXPECT_GT(mended, kSanitized ? 30 : 300);
  EXPECT_GT(usable, mended / 2);
}

TEST(ArenaHeap, RootsHaveTypes) {
  const auto memory = zeros();
  ArenaHeap& heap = *ArenaHeap::open(memory.get(), kCapacity, true).value();
  void* object = heap.allocate(10);
  EXPECT_EQ(heap.root("a", 1), nullptr);
  heap.set_root("a", 1, object);
  EXPECT_EQ(heap.root("a", 1), object);
  EXPECT_THROW(heap.root("a", 2), Exception);
  for (std::size_t i = 1; i < ArenaHeap::kRoots; ++i)
    heap.set_root("root " + std::to_string(i), 1, object);
  EXPECT_THROW(heap.set_root("one more", 1, object), Exception);
  heap.set_root("a", 1, nullptr);
  EXPECT_NO_THROW(heap.set_root("one more", 1, object));
}

TEST(ArenaHeapDeathTest, WhatIsGivenBackTwiceOrElsewhereStopsTheProgram) {
  const auto memory = zeros();
  ArenaHeap& heap = *ArenaHeap::open(memory.get(), kCapacity, true).value();
  auto* object = static_cast<std::byte*>(heap.allocate(100'000));
  EXPECT_DEATH(heap.deallocate(object + 16), "is given back");
  heap.deallocate(object);
  EXPECT_DEATH(heap.deallocate(object), "given back");
  int elsewhere = 0;
  EXPECT_DEATH(heap.deallocate(&elsewhere), "not of it");
}

}  // namespace
}  // namespace perdure::checkpoint
