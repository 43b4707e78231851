// SPDX-License-Identifier: BSD-3-Clause
#include "measure/pcm_disk.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace perdure::bench::reproduce {
namespace {

constexpr double kBlockNs = 150 + 4096 / 4.0;
constexpr double kFenceNs = 150;

TEST(PcmDisk, ChargesABlockOncePerSync) {
  PcmDisk disk(EmulatedMemory{});
  disk.written(3, 0, 100);
  disk.written(3, 100, 100);
  disk.written(3, 4000, 96);
  disk.sync(3);
  EXPECT_NEAR(disk.busy_ns(), kBlockNs + kFenceNs, 2);
  disk.sync(3);
  EXPECT_NEAR(disk.busy_ns(), kBlockNs + 2 * kFenceNs, 2) << "nothing is dirty any more";
}

TEST(PcmDisk, ChargesEveryBlockThatAWriteTouches) {
  PcmDisk disk(EmulatedMemory{});
  disk.written(3, 4095, 2);      // the end of one block, the beginning of the next
  disk.written(3, 40960, 8192);  // two whole ones
  disk.written(3, 99999, 0);
  disk.sync(3);
  EXPECT_NEAR(disk.busy_ns(), 4 * kBlockNs + kFenceNs, 2);
}

TEST(PcmDisk, KeepsFilesApartAndForgetsClosedOnes) {
  PcmDisk disk(EmulatedMemory{});
  disk.written(3, 0, 8);
  disk.written(4, 0, 8);
  disk.close(4);
  disk.sync(4);
  EXPECT_NEAR(disk.busy_ns(), kFenceNs, 2);
  disk.sync(3);
  EXPECT_NEAR(disk.busy_ns(), kBlockNs + 2 * kFenceNs, 2);
}

TEST(PcmDisk, WaitsAsLongAsItSays) {
  PcmDisk disk(EmulatedMemory{1000, 1});
  const auto start = std::chrono::steady_clock::now();
  disk.sync_blocks(1000);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  EXPECT_NEAR(disk.busy_ns(), 1000 + 1000 * (1000 + 4096), 2);
  EXPECT_GE(took.count(), 0.98 * disk.busy_ns());
}

TEST(PcmDisk, ChargesNothingWhileItIsOff) {
  PcmDisk disk(EmulatedMemory{});
  disk.charge(false);
  disk.written(3, 0, 8);
  disk.sync(3);
  disk.charge(true);
  EXPECT_EQ(disk.busy_ns(), 0);
  disk.sync(3);
  EXPECT_NEAR(disk.busy_ns(), kFenceNs, 2) << "what was synced while it was off is not dirty";
}

TEST(PcmDisk, TakesWritesAndSyncsOfSeveralThreads) {
  PcmDisk disk(EmulatedMemory{0, 4096});  // a block a nanosecond: only the counting matters
  constexpr int kWrites = 500;
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kWrites; ++i)
        disk.written(7, static_cast<std::uint64_t>(thread * kWrites + i) * 4096, 4096);
      disk.sync(7);
    });
  }
  threads.clear();
  EXPECT_NEAR(disk.busy_ns(), 3 * kWrites, 3);
}

}  // namespace
}  // namespace perdure::bench::reproduce
