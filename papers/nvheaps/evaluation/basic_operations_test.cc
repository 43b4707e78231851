// SPDX-License-Identifier: BSD-3-Clause
// The operations of Table 1, in every layer: they do what they are called, and leave nothing behind.
#include "papers/nvheaps/evaluation/basic_operations.h"

#include <gtest/gtest.h>

namespace perdure::bench::nvheaps {
namespace {

HeapSetting setting_of(Layer layer, const std::string& dir) {
  HeapSetting setting;
  setting.dir = dir;
  setting.layer = layer;
  setting.count = true;
  return setting;
}

template <class L>
void run_all(BasicOperations<L>& operations) {
  for (const Operation operation : kAllOperations) {
    for (const std::uint64_t at_once : {std::uint64_t{1}, operations.kMostAtOnce}) {
      for (int i = 0; i < 100; ++i) operations.run(operation, at_once);
      EXPECT_NO_THROW(operations.check());
    }
  }
}

TEST(BasicOperations, LeaveReferencesNullInEveryLayer) {
  const ScratchDirectory directory("/dev/shm", "nvheaps-test");
  BasicOperations<BaseLayer> base(setting_of(Layer::kBase, directory.path()));
  run_all(base);
  for (const Layer layer : {Layer::kSafe, Layer::kTx, Layer::kCTx, Layer::kNoDur}) {
    BasicOperations<SafeLayer> operations(setting_of(layer, directory.path()));
    run_all(operations);
  }
}

TEST(BasicOperations, WaitOnceForEachTransactionThatChangesSomething) {
  const ScratchDirectory directory("/dev/shm", "nvheaps-test");
  BasicOperations<SafeLayer> operations(setting_of(Layer::kCTx, directory.path()));
  const auto fences = [&](Operation operation, std::uint64_t at_once) {
    const DomainCounts before = operations.counts();
    for (int i = 0; i < 100; ++i) operations.run(operation, at_once);
    return static_cast<double>((operations.counts() - before).fences) / 100;
  };
  EXPECT_EQ(fences(Operation::kNop, 1), 0);
  EXPECT_EQ(fences(Operation::kRead, 64), 0);
  EXPECT_EQ(fences(Operation::kHandle, 64), 0);
  EXPECT_NEAR(fences(Operation::kWrite, 64), 1, 0.1);
  EXPECT_NEAR(fences(Operation::kRef, 1), 2, 0.1);
}

}  // namespace
}  // namespace perdure::bench::nvheaps
