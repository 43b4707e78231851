// SPDX-License-Identifier: BSD-3-Clause
// Coarse shapes that the paper and README tell of, measured: a change of the engines that loses one fails here.
#include <gtest/gtest.h>

#include "measure/seen_shape.h"
#include "papers/blurred/evaluation/job_race.h"

namespace perdure::bench::reproduce {
namespace {

/// The rate of the first of two systems over that of the second.
double rate_over(Work work, const PaperSystem& first, const PaperSystem& second) {
  JobOptions options;
  options.dir = "/dev/shm";
  options.live = 500;
  const PaperSystem systems[] = {first, second};
  const std::vector<JobResult> results = race_jobs(systems, work, options, RaceRules{5, 0.03});
  return results[0].transactions_per_s.median / results[1].transactions_per_s.median;
}

TEST(BlurredShapes, BppmIsQuickerThanBase) {
  for (const Work work : {Work::kSps, Work::kHash})
    EXPECT_TRUE(larger([&] { return rate_over(work, kBppm, kBaseSystem); })) << work_name(work);
}

TEST(BlurredShapes, PersistenceCostsBaseThroughput) {
  EXPECT_TRUE(larger([] { return rate_over(Work::kHash, kNp, kBaseSystem); }));
}

TEST(BlurredShapes, AVolatileCheckpointIsQuickerThanForcingHomeAtEachCommit) {
  EXPECT_TRUE(larger([] { return rate_over(Work::kHash, kVcbp, kMne); }));
}

}  // namespace
}  // namespace perdure::bench::reproduce
