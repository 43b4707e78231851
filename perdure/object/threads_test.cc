// SPDX-License-Identifier: BSD-3-Clause
// Threads on one graph of objects.
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/object_fixture.h"
#include "tests/object_workload.h"

namespace perdure {
namespace {

using testing::Graph;
using testing::HeapInMemory;
using testing::kSanitized;
using testing::Worker;

constexpr Geometry kShared = {std::uint64_t{64} << 20, std::uint64_t{128} << 10,
                              std::uint64_t{16} << 10, 8, 4};

class ObjectThreads : public testing::ObjectTest {};
PERDURE_ON_ENGINES(ObjectThreads);

TEST_P(ObjectThreads, LeaveEveryCountRightAndNothingBehind) {
  HeapInMemory<Graph> heap(GetParam(), kShared);
  prepare(*heap);
  for (int round = 0; round < 2; ++round) {
    std::vector<Worker> workers;
    for (std::size_t t = 0; t < Graph::kThreads; ++t)
      workers.emplace_back(*heap, t, round * 10 + t);
    std::vector<std::thread> threads;
    for (Worker& worker : workers) {
      threads.emplace_back([&] {
        for (int i = 0; i < (kSanitized ? 1000 : 5000); ++i) worker.step();
        worker.let_go();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Worker& worker : workers) EXPECT_EQ(worker.bad(), 0u);
    EXPECT_EQ(complaints_about_graph(*heap), "");
    heap.kill();
    EXPECT_EQ(complaints_about_graph(*heap), "");
  }
}

TEST_P(ObjectThreads, WhatTheyHoldWhenTheProcessDiesIsReclaimed) {
  HeapInMemory<Graph> heap(GetParam(), kShared);
  prepare(*heap);
  std::vector<Worker> workers;
  for (std::size_t t = 0; t < Graph::kThreads; ++t) workers.emplace_back(*heap, t, t);
  std::vector<std::thread> threads;
  for (Worker& worker : workers) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) worker.step();
    });
  }
  for (std::thread& thread : threads) thread.join();
  heap.kill();
  EXPECT_GT(heap->recovery().orphans, 0u);
  EXPECT_EQ(complaints_about_graph(*heap), "");
}

}  // namespace
}  // namespace perdure
