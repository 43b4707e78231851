// SPDX-License-Identifier: BSD-3-Clause
// JobOf: a workload on a layer, as a Job.
#pragma once

#include <memory>
#include <vector>

#include "papers/nvheaps/evaluation/job.h"
#include "papers/nvheaps/evaluation/raw_layer.h"
#include "papers/nvheaps/evaluation/safe_layer.h"

namespace perdure::bench::nvheaps {

template <template <class> class Workload, class L>
class JobOf final : public Job {
 public:
  using On = Workload<L>;

  JobOf(const HeapSetting& setting, const Sizes& sizes, unsigned threads, std::uint64_t seed)
      : setting_(setting),
        heap_(std::make_unique<Heap>(setting)),
        work_(*heap_, sizes),
        there_(static_cast<std::int64_t>(work_.check())),
        pace_(setting.checkpoints.value_or(CheckpointPace::Period::zero())) {
    for (unsigned i = 0; i < threads; ++i)
      lanes_.push_back(std::make_unique<Lane>(Random(seed * 1000 + i)));
    if (setting.checkpoints) JobOf::checkpoint();
  }

  void run(std::uint64_t operations, unsigned thread) override {
    Lane& lane = *lanes_[thread];
    if (!setting_.checkpoints) {
      for (; operations > 0; --operations) lane.added += work_.operate(lane.random, lane.scratch);
      return;
    }
    for (; operations > 0; --operations) {
      lane.added += work_.operate(lane.random, lane.scratch);
      if (pace_.due()) checkpoint();
    }
  }
  void check() override {
    require(static_cast<std::int64_t>(work_.check()) == expected(), "an operation is lost");
  }
  DomainCounts counts() override { return heap_->counts(); }
  double touched_lines(std::uint64_t operations) override {
    std::size_t lines = 0;
    (void)TouchedLines::take();
    for (std::uint64_t i = 0; i < operations; ++i) {
      run(1, 0);
      lines += TouchedLines::take();
    }
    return static_cast<double>(lines) / static_cast<double>(operations);
  }

  void checkpoint() override {
    heap_->save();
    there_then_ = expected();
    if constexpr (requires { work_.remember(); }) work_.remember();
  }
  void recover() override {
    auto again = std::make_unique<Heap>(heap_->saved()->read_back(), setting_);
    work_.go_on_with(*again);
    for (const auto& lane : lanes_) {
      lane->scratch = {};  // it leads into the other heap
      lane->added = 0;
    }
    heap_ = std::move(again);
    there_ = there_then_;
    checkpoint();
  }
  CheckpointCounts checkpoints() override { return heap_->saved()->counts(); }

 private:
  using Heap = typename On::Heap;
  std::int64_t expected() const {
    std::int64_t expected = there_;
    for (const auto& lane : lanes_) expected += lane->added;
    return expected;
  }

  struct alignas(kLineBytes) Lane {
    explicit Lane(Random seeded) : random(seeded) {}
    Random random;
    typename On::Scratch scratch;
    std::int64_t added = 0;
  };
  HeapSetting setting_;
  std::unique_ptr<Heap> heap_;
  On work_;
  std::int64_t there_;           // when it was filled, or recovered
  std::int64_t there_then_ = 0;  // at the last checkpoint
  CheckpointPace pace_;          // of the one thread that BASE and SAFE have
  std::vector<std::unique_ptr<Lane>> lanes_;
};

/// Of one workload, in any layer.
template <template <class> class Workload>
std::unique_ptr<Job> make_job_of(const HeapSetting& setting, const Sizes& sizes, unsigned threads,
                                 std::uint64_t seed) {
  if (setting.layer == Layer::kBase)
    return std::make_unique<JobOf<Workload, BaseLayer>>(setting, sizes, threads, seed);
  return std::make_unique<JobOf<Workload, SafeLayer>>(setting, sizes, threads, seed);
}

}  // namespace perdure::bench::nvheaps
