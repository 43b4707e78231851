// SPDX-License-Identifier: BSD-3-Clause
// Coarse shapes that the paper and README tell of, measured: a change of the engine that loses one fails here.
#include <gtest/gtest.h>

#include "measure/seen_shape.h"
#include "papers/mnemosyne/evaluation/churn.h"

namespace perdure::bench::reproduce {
namespace {

TEST(MnemosyneShapes, AsynchronousTruncationHelpsAProgramThatIsMostlyIdle) {
  StoreOptions at_once;
  at_once.dir = "/dev/shm";
  at_once.value_bytes = 64;
  at_once.pool = new_pool_options(at_once.memory);
  at_once.pool.truncation = Truncation::kEachCommit;
  StoreOptions later = at_once;
  later.pool.truncation = Truncation::kBackground;
  ChurnOptions churn;
  churn.value_bytes = at_once.value_bytes;
  churn.live = 500;
  churn.idle_part = 0.9;
  churn.rules = {5, 0.05};
  EXPECT_TRUE(larger([&] {
    const std::vector<ChurnResult> results = race_updates(
        {[&] { return make_hash_table(at_once); }, [&] { return make_hash_table(later); }}, churn);
    return results[0].insert_us.median / results[1].insert_us.median;
  }));
}

}  // namespace
}  // namespace perdure::bench::reproduce
