// SPDX-License-Identifier: BSD-3-Clause
// Power cuts in the whole simulated machine: small caches and tables, so that every epoch overflows
// something, and cuts at random moments, in the middle of checkpoints and of stops.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "papers/thynvm/memory/machine.h"
#include "papers/thynvm/memory/marks.h"
#include "papers/thynvm/memory/small_machine_test.h"

namespace perdure::memory {
namespace {

using testing::IsEmpty;

// Stores and loads that are dense in some pages and sparse in others, and change which.
std::vector<Access> mixed_accesses(std::mt19937_64& random, std::size_t count) {
  std::vector<Access> accesses;
  while (accesses.size() < count) {
    const std::uint64_t page = random() % 24;
    const std::size_t run = random() % 3 == 0 ? 40 : 1 + random() % 3;
    const std::uint64_t first = random() % 512;
    for (std::size_t i = 0; i < run; ++i) {
      const std::uint64_t address = 0x10000 + page * kPageBytes + (first + i) % 512 * 8;
      accesses.push_back(Access::of(random() % 3 == 0 ? AccessKind::kLoad : AccessKind::kStore,
                                    address, unsigned(random() % 4), unsigned(1 + random() % 20)));
    }
  }
  return accesses;
}

class PowerCut : public testing::TestWithParam<std::tuple<System, Reading>> {};

TEST_P(PowerCut, RecoversTheEndOfTheNewestSafeEpoch) {
  const auto [system, reading] = GetParam();
  std::uint64_t cuts = 0, unfinished = 0, epochs = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    Machine machine(system, small_model(reading), true);
    for (int part = 0; part < 60; ++part) {
      machine.cut_power_after_writes(1 + random() % 300, random());
      machine.run(mixed_accesses(random, 1 + random() % 100));
      if (const auto taken = machine.cut_taken()) {
        ++cuts;
        ASSERT_THAT(*taken, IsEmpty()) << "seed " << seed << ", part " << part;
      }
      ++cuts;
      ASSERT_THAT(machine.cut_power(random), IsEmpty()) << "seed " << seed << ", part " << part;
      ASSERT_THAT(machine.wrong(), IsEmpty()) << "seed " << seed << ", part " << part;
    }
    machine.finish();
    EXPECT_THAT(machine.cut_power(random), IsEmpty());
    unfinished += machine.cuts_of_unfinished_checkpoints();
    epochs += machine.results().epochs.epochs;
  }
  EXPECT_GT(cuts, 1200U);
  EXPECT_GT(epochs, 200U);
  if (system >= System::kThyNvm) {
    EXPECT_GT(unfinished, 50U);
  }
  std::printf("  %llu cuts, %llu of them in running checkpoints, %llu epochs\n",
              (unsigned long long)cuts, (unsigned long long)unfinished, (unsigned long long)epochs);
}

// The end-of-epoch instruction (section 6): a cut right after it, and ever after, finds the core behind it;
// a cut while it is being executed finds one of the two epochs. Before it the same stores were not safe.
TEST_P(PowerCut, SparesWhatIsBeforeAnEndOfEpochInstruction) {
  const auto [system, reading] = GetParam();
  const Access end_epoch = Access::of(AccessKind::kStore, PERDURE_MARK_END_EPOCH_WORD, 3, 1);
  std::uint64_t inside = 0, lost_without_it = 0, instructions = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    Machine machine(system, small_model(reading), true);
    for (int part = 0; part < 40; ++part) {
      const testing::ScopedTrace trace(
          __FILE__, __LINE__, "seed " + std::to_string(seed) + ", part " + std::to_string(part));
      machine.run(mixed_accesses(random, 1 + random() % 60));
      if (const auto taken = machine.cut_taken()) {
        ASSERT_THAT(*taken, IsEmpty());
      }
      ASSERT_THAT(machine.cut_power(random), IsEmpty());
      lost_without_it += machine.recovered_position() < machine.position() ? 1 : 0;
      machine.cut_power_after_writes(1 + random() % 60, random());
      machine.run({&end_epoch, 1});
      if (const auto taken = machine.cut_taken()) {
        ++inside;
        ASSERT_THAT(*taken, IsEmpty());
      }
      const std::uint64_t behind = machine.position();
      ++instructions;
      ASSERT_THAT(machine.cut_power(random), IsEmpty());
      ASSERT_EQ(machine.recovered_position(), behind);
      machine.run(mixed_accesses(random, 1 + random() % 20));
      if (const auto taken = machine.cut_taken()) {
        ASSERT_THAT(*taken, IsEmpty());
      }
      ASSERT_THAT(machine.cut_power(random), IsEmpty());
      ASSERT_GE(machine.recovered_position(), behind);
      ASSERT_THAT(machine.wrong(), IsEmpty());
    }
    EXPECT_EQ(machine.results().ended_by_program, 40U);
  }
  EXPECT_GT(inside, 100U);
  EXPECT_GT(lost_without_it, instructions / 2);
}

INSTANTIATE_TEST_SUITE_P(Systems, PowerCut,
                         testing::Combine(testing::Values(System::kJournal, System::kShadow,
                                                          System::kThyNvm, System::kThyNvmBlocks,
                                                          System::kThyNvmPages,
                                                          System::kThyNvmOverlap),
                                          testing::Values(Reading::kPaperCode, Reading::kStrict)),
                         name_of_system_and_reading);

}  // namespace
}  // namespace perdure::memory
