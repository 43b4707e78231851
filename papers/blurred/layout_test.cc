// SPDX-License-Identifier: BSD-3-Clause
// Rings that are laid out for execution in the log when a pool opens, and for the library's log again when it closes: wherever
// a process is killed between, the next one may be cut off, too.
#include <gtest/gtest.h>

#include "papers/scenarios.h"

namespace perdure::papers {
namespace {

template <class E>
class Layout : public ::testing::Test {};
using Engines = ::testing::Types<Blurred, Adaptive>;
TYPED_TEST_SUITE(Layout, Engines);

TYPED_TEST(Layout, IsSoundWhereverAProcessIsKilledAndTheNextIsCut) {
  crash::Scenario scenario = on<TypeParam>(crash::pool_scenario("laps"));
  crash::Options options;
  options.full_limit = 1;
  options.samples = 1;
  options.nest_every = ~std::uint64_t{0};
  options.nested_full_limit = 4;
  options.nested_samples = 1;
  options.nested_most_points = 24;
  options.kill_every = 64;  // and at each flush and fence
  for (const crash::Model model : {crash::Model::kMemory, crash::Model::kFile}) {
    const crash::Report report = explore(subject_of(scenario), model, options);
    EXPECT_GT(report.kills, 10u);
    for (const crash::Violation& violation : report.violations) ADD_FAILURE() << violation.what;
  }
}

}  // namespace
}  // namespace perdure::papers
