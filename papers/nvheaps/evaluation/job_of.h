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
      : heap_(setting), work_(heap_, sizes), filled_(work_.check()) {
    for (unsigned i = 0; i < threads; ++i)
      lanes_.push_back(std::make_unique<Lane>(Random(seed * 1000 + i)));
  }

  void run(std::uint64_t operations, unsigned thread) override {
    Lane& lane = *lanes_[thread];
    for (; operations > 0; --operations) lane.added += work_.operate(lane.random, lane.scratch);
  }
  void check() override {
    std::int64_t expected = static_cast<std::int64_t>(filled_);
    for (const auto& lane : lanes_) expected += lane->added;
    require(static_cast<std::int64_t>(work_.check()) == expected, "an operation is lost");
  }
  DomainCounts counts() override { return heap_.counts(); }
  double touched_lines(std::uint64_t operations) override {
    std::size_t lines = 0;
    (void)TouchedLines::take();
    for (std::uint64_t i = 0; i < operations; ++i) {
      run(1, 0);
      lines += TouchedLines::take();
    }
    return static_cast<double>(lines) / static_cast<double>(operations);
  }

 private:
  struct alignas(kLineBytes) Lane {
    explicit Lane(Random seeded) : random(seeded) {}
    Random random;
    typename On::Scratch scratch;
    std::int64_t added = 0;
  };
  typename On::Heap heap_;
  On work_;
  std::uint64_t filled_;
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
