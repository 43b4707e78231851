// SPDX-License-Identifier: BSD-3-Clause
// The stores beside ours in Figure 7: they do what the workloads ask of them, and lose nothing.
#include "papers/nvheaps/evaluation/others.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "bench/system.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr Sizes kSmall{.array_words = 256, .keys = 64, .vertices = 60, .edges = 128};

class OtherTest : public ::testing::TestWithParam<std::string> {
 protected:
  const OtherKind& kind() const {
    return GetParam() == "Berkeley" ? others().berkeley : others().sqlite;
  }
  OtherOptions options(Work work, unsigned threads) const {
    OtherOptions options;
    options.work = work;
    options.dir = directory_.path();
    options.sizes = kSmall;
    options.threads = threads;
    return options;
  }
  void SetUp() override {
    if (kind().make == nullptr) GTEST_SKIP() << kind().name << " was not built in";
  }
  ScratchDirectory directory_{"/dev/shm", "nvheaps-others-test"};
};
INSTANTIATE_TEST_SUITE_P(Both, OtherTest, ::testing::Values("Berkeley", "Sqlite"),
                         [](const auto& of) { return of.param; });

TEST_P(OtherTest, LosesNoOperation) {
  for (const Work work : {Work::kSwaps, Work::kSixDegrees, Work::kBTree, Work::kHashTable}) {
    const auto job = OtherJob::make(kind(), options(work, 2));
    if (job == nullptr) {
      EXPECT_EQ(work, Work::kHashTable);
      continue;
    }
    {
      std::vector<std::jthread> threads;
      for (unsigned thread = 0; thread < 2; ++thread)
        threads.emplace_back([&, thread] { job->run(200, thread); });
    }
    EXPECT_NO_THROW(job->check()) << work_name(work);
  }
}

TEST_P(OtherTest, TogglesKeys) {
  const auto store = kind().make(options(Work::kBTree, 1));
  store->fill({{3, 3}, {5, 5}});
  EXPECT_TRUE(store->toggle(4, 0));
  EXPECT_FALSE(store->toggle(5, 0));
  EXPECT_TRUE(store->toggle(5, 0));
  EXPECT_EQ(store->count(), 3u);
}

TEST_P(OtherTest, BerkeleyDbWaitsForThePcmDiskAtEachCommit) {
  if (GetParam() != "Berkeley") GTEST_SKIP() << "its files alone can be on one";
  constexpr double kLatencyNs = 5e6;
  constexpr int kCommits = 8;
  OtherOptions slow = options(Work::kBTree, 1);
  slow.disk = reproduce::EmulatedMemory{kLatencyNs, 1};
  const auto store = kind().make(slow);
  const auto elsewhere = kind().make(options(Work::kBTree, 1));
  const auto seconds = [](OtherStore& of) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCommits; ++i) of.toggle(static_cast<std::uint64_t>(i), 0);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // A block and a fence, at least; the other environment of this process knows nothing of that disk.
  EXPECT_GE(seconds(*store), kCommits * 2 * kLatencyNs / 1e9);
  EXPECT_LT(seconds(*elsewhere), kCommits * 2 * kLatencyNs / 1e9);
}

TEST_P(OtherTest, FindsTheNeighboursOfAVertex) {
  const auto store = kind().make(options(Work::kSixDegrees, 1));
  store->fill({{1, 2}, {2, 1}, {2, 3}, {3, 2}});
  EXPECT_TRUE(store->toggle_edge(1, 300, 0));
  EXPECT_FALSE(store->toggle_edge(2, 3, 0));
  const auto near = [&](std::uint64_t vertex) {
    std::vector<std::uint64_t> to;
    store->neighbours(vertex, to, 0);
    return to;
  };
  EXPECT_EQ(near(1), (std::vector<std::uint64_t>{2, 300}));
  EXPECT_EQ(near(2), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(near(3), (std::vector<std::uint64_t>{}));
  EXPECT_EQ(near(300), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(store->count(), 4u);
}

}  // namespace
}  // namespace perdure::bench::nvheaps
