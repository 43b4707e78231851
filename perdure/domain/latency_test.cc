// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/domain/latency.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/dram.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

alignas(kLineBytes) std::array<Word, 4096> memory;

struct LatencyTest : ::testing::Test {
  void SetUp() override {
    if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's own cost is not the model's";
  }
};

/// What a round of `work` takes on this machine: the lower quartile of many, since others share the
/// cores.
template <class Work>
double nanoseconds(Work work) {
  std::vector<double> rounds;
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t start = TscClock::now();
    work();
    rounds.push_back(static_cast<double>(TscClock::now() - start) / TscClock::ticks_per_ns());
  }
  std::nth_element(rounds.begin(), rounds.begin() + 100, rounds.end());
  return rounds[100];
}

void expect_within_20_percent(double got, double expected) {
  EXPECT_GE(got, 0.99 * expected);
  EXPECT_LE(got, 1.2 * expected);
}

void flush_lines(Latency<Dram>& domain, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i) domain.flush(&memory[8 * i], 8, Site::kUserFlush);
}

TEST_F(LatencyTest, EachFlushedLineAndTheFenceCostWhatTheModelSays) {
  LatencyModel model;
  model.flush_ns = 700;
  model.fence_ns = 500;
  Latency<Dram> domain(model, {});
  for (const std::size_t lines : {1u, 4u, 16u}) {
    expect_within_20_percent(nanoseconds([&] {
                               flush_lines(domain, lines);
                               domain.fence(Site::kUserFence);
                             }),
                             700.0 * static_cast<double>(lines) + 500);
  }
  domain.flush(&memory[0], 4 * kLineBytes, Site::kUserFlush);
  expect_within_20_percent(nanoseconds([&] {
                             domain.flush(&memory[0], 4 * kLineBytes, Site::kUserFlush);
                             domain.fence(Site::kUserFence);
                           }),
                           4 * 700 + 500);
}

TEST_F(LatencyTest, AWriteThroughCostsOnceARun) {
  LatencyModel model;
  model.write_through_ns = 20000;
  Latency<Dram> domain(model, {});
  const std::array<Word, 64> words{};
  expect_within_20_percent(nanoseconds([&] {
                             domain.write_through(&memory[0], words.data(), 64, Site::kUserFlush);
                             domain.fence(Site::kUserFence);
                           }),
                           20000);
}

TEST_F(LatencyTest, BandwidthLimitsLongRuns) {
  LatencyModel model;
  model.bandwidth_gb_per_s = 1;  // 64 ns a line
  Latency<Dram> domain(model, {});
  expect_within_20_percent(nanoseconds([&] {
                             domain.flush(memory.data(), 256 * kLineBytes, Site::kUserFlush);
                             domain.fence(Site::kUserFence);
                           }),
                           256 * 64);
}

TEST_F(LatencyTest, TheWriteCombiningBufferStallsTheNinthLine) {
  LatencyModel model;
  model.drain_ns = 1000;
  model.buffer_lines = 8;
  Latency<Dram> domain(model, {});
  const auto drained = [&] { domain.fence(Site::kUserFence); };
  double eight = 0;
  double twelve = 0;
  for (int i = 0; i < 2; ++i) {
    drained();
    const std::uint64_t start = TscClock::now();
    flush_lines(domain, 8);
    const std::uint64_t end = TscClock::now();
    eight = static_cast<double>(end - start) / TscClock::ticks_per_ns();
  }
  EXPECT_LT(eight, 1000) << "eight lines fit";
  twelve = nanoseconds([&] {
    flush_lines(domain, 12);
    drained();
  });
  expect_within_20_percent(twelve, 12000);
}

TEST_F(LatencyTest, TheWriteCombiningBufferTakesALineOnceForTheStoresThatFollowEachOther) {
  LatencyModel model;
  model.drain_ns = 1000;
  Latency<Dram> domain(model, {});
  expect_within_20_percent(nanoseconds([&] {
                             const Word value = 1;
                             for (std::size_t i = 0; i < 32; ++i)
                               domain.write_through(&memory[i], &value, 1, Site::kUserFlush);
                             domain.fence(Site::kUserFence);
                           }),
                           4000);
  expect_within_20_percent(nanoseconds([&] {
                             for (std::size_t i = 0; i < 4; ++i) flush_lines(domain, 2);
                             domain.fence(Site::kUserFence);
                           }),
                           8000);
}

TEST_F(LatencyTest, AFenceWithNothingToWaitForIsFree) {
  LatencyModel model;
  model.fence_ns = 100000;
  Latency<Dram> domain(model, {});
  EXPECT_LT(nanoseconds([&] { domain.fence(Site::kUserFence); }), 5000);
}

TEST_F(LatencyTest, TheSpinsOwnErrorIsSmall) {
  // Other jobs only make it worse: the best of some seconds is the spin's own.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  double best = TscClock::spin_error_ns(1000);
  while (best >= 200 && std::chrono::steady_clock::now() < end)
    best = std::min(best, TscClock::spin_error_ns(1000));
  EXPECT_LT(best, 200);
}

}  // namespace
}  // namespace perdure
