// SPDX-License-Identifier: BSD-3-Clause
// What the memory was at its last checkpoint is what its file holds: against copies of it.
#include "papers/nvheaps/evaluation/checkpointed_memory.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "bench/workload.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr std::uint64_t kMemoryBytes = std::uint64_t{2} << 20;

struct CheckpointedMemoryTest : ::testing::Test {
  std::vector<std::byte> copy_of(const CheckpointedMemory& memory) {
    return {memory.begin(), memory.begin() + memory.bytes()};
  }
  /// Sets words of the first half to what was drawn, some to zero.
  void write_some(CheckpointedMemory& memory, int words) {
    for (int i = 0; i < words; ++i) {
      const std::uint64_t value = random.next() % 3 == 0 ? 0 : random.next();
      std::memcpy(memory.begin() + 8 * random.below(kMemoryBytes / 16), &value, sizeof(value));
    }
  }
  ScratchDirectory directory{"/dev/shm", "nvheaps-checkpoints"};
  Random random{11};
};

TEST_F(CheckpointedMemoryTest, HoldsTheImageOfTheLastCheckpointAndNothingLater) {
  CheckpointedMemory memory(directory.path(), kMemoryBytes);
  for (int round = 0; round < 60; ++round) {  // its log begins anew several times
    write_some(memory, round % 7 == 0 ? 4000 : 30);
    memory.take();
    const std::vector<std::byte> then = copy_of(memory);
    write_some(memory, 50);
    ASSERT_NE(copy_of(memory), then);
    ASSERT_EQ(copy_of(*memory.read_back()), then) << round;
  }
  EXPECT_EQ(memory.counts().taken, 60u);
  EXPECT_GT(memory.counts().bytes, kMemoryBytes) << "four times its log";
}

TEST_F(CheckpointedMemoryTest, SavesOnlyWhatChanged) {
  CheckpointedMemory memory(directory.path(), kMemoryBytes);
  write_some(memory, 4000);
  memory.take();
  memory.begin()[5 * 4096 + 17] ^= std::byte{1};
  const CheckpointCounts before = memory.counts();
  memory.take();
  const CheckpointCounts one = memory.counts() - before;
  EXPECT_EQ(one.pages, 1u);
  EXPECT_GT(one.bytes, 0u);
  EXPECT_LT(one.bytes, 4096u) << "a line, not the page";
  const CheckpointCounts again = memory.counts();
  memory.take();
  EXPECT_EQ((memory.counts() - again).bytes, 0u);
  EXPECT_EQ((memory.counts() - again).taken, 1u);
}

TEST_F(CheckpointedMemoryTest, WhatWasReadBackIsSavedByItself) {
  CheckpointedMemory memory(directory.path(), kMemoryBytes);
  write_some(memory, 500);
  memory.take();
  const std::vector<std::byte> first = copy_of(memory);
  const auto again = memory.read_back();
  again->take();
  write_some(*again, 500);
  again->take();
  EXPECT_EQ(copy_of(*again->read_back()), copy_of(*again));
  EXPECT_EQ(copy_of(*memory.read_back()), first) << "its own file is as it was";
}

TEST_F(CheckpointedMemoryTest, WithoutACheckpointThereIsNothingToReadBack) {
  CheckpointedMemory memory(directory.path(), kMemoryBytes);
  write_some(memory, 500);
  try {
    (void)memory.read_back();
    FAIL() << "something was read back";
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.code(), Code::kNotFound);
  }
}

TEST_F(CheckpointedMemoryTest, LeavesNoFileBehind) {
  {
    CheckpointedMemory memory(directory.path(), kMemoryBytes);
    write_some(memory, 500);
    memory.take();
    (void)memory.read_back();
    EXPECT_FALSE(std::filesystem::is_empty(directory.path()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

}  // namespace
}  // namespace perdure::bench::nvheaps
