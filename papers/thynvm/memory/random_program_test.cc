// SPDX-License-Identifier: BSD-3-Clause
// Random programs on every system: loads see what was stored last, and the same program takes the same
// time each time. (Power cuts: power_cut_test.cc.)
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "papers/thynvm/memory/machine.h"
#include "papers/thynvm/memory/small_machine_test.h"

namespace perdure::memory {
namespace {

using testing::IsEmpty;

// Code and data lie beside each other; accesses of all sizes, also across lines and pages; pages that
// are dense for a while; instructions without accesses, some for longer than an epoch.
std::vector<Access> random_program(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<Access> accesses;
  while (accesses.size() < count) {
    const std::uint64_t first = 0x400000 + random() % 40 * kPageBytes + random() % kPageBytes;
    const std::size_t run = random() % 4 == 0 ? 30 : 1;
    for (std::size_t i = 0; i < run; ++i) {
      const std::uint64_t kind = random() % 8;
      accesses.push_back(Access::of(kind == 0  ? AccessKind::kFetch
                                    : kind < 3 ? AccessKind::kLoad
                                               : AccessKind::kStore,
                                    first + i * kLineBytes, unsigned(random() % 7),
                                    unsigned(random() % 30)));
    }
    if (random() % 50 == 0)
      accesses.push_back(Access::run(random() % (random() % 10 == 0 ? 200'000 : 2'000)));
  }
  return accesses;
}

class RandomPrograms : public testing::TestWithParam<std::tuple<System, Reading>> {};

TEST_P(RandomPrograms, LoadWhatTheyStoredLast) {
  const auto [system, reading] = GetParam();
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Machine machine(system, small_model(reading), true);
    machine.run(random_program(seed, 20'000));
    machine.finish();
    EXPECT_THAT(machine.wrong(), IsEmpty()) << "seed " << seed;
    const Results results = machine.results();
    EXPECT_GT(results.l3_misses, 5'000U);
    EXPECT_GT(results.traffic.cpu_lines, 1'000U);
    if (system != System::kDram && system != System::kNvm) {
      EXPECT_GT(results.epochs.epochs, 20U);
    }
  }
}

TEST_P(RandomPrograms, TakeTheSameTimeEachTimeAndAlsoWithoutContents) {
  const auto [system, reading] = GetParam();
  const std::vector<Access> program = random_program(9, 20'000);
  Results results[3];
  for (int i = 0; i < 3; ++i) {
    Machine machine(system, small_model(reading), i == 2);
    machine.run(program);
    machine.finish();
    results[i] = machine.results();
  }
  for (int i = 1; i < 3; ++i) {
    EXPECT_EQ(results[i].time, results[0].time) << i;
    EXPECT_EQ(results[i].instructions, results[0].instructions) << i;
    EXPECT_EQ(results[i].l1_misses, results[0].l1_misses) << i;
    EXPECT_EQ(results[i].l3_misses, results[0].l3_misses) << i;
    EXPECT_EQ(results[i].traffic.nvm_bytes(), results[0].traffic.nvm_bytes()) << i;
    EXPECT_EQ(results[i].traffic.dram_bytes, results[0].traffic.dram_bytes) << i;
    EXPECT_EQ(results[i].epochs.stopped, results[0].epochs.stopped) << i;
    EXPECT_EQ(results[i].epochs.waited, results[0].epochs.waited) << i;
    EXPECT_EQ(results[i].epochs.lengths, results[0].epochs.lengths) << i;
  }
}

// The core stands still only within its time, and an epoch that is not the last begins where the one
// before has ended.
TEST_P(RandomPrograms, AccountForTheirTime) {
  const auto [system, reading] = GetParam();
  Machine machine(system, small_model(reading), false);
  machine.run(random_program(5, 20'000));
  const Results results = machine.results();
  Time all = 0;
  for (const Time length : results.epochs.lengths) all += length;
  EXPECT_EQ(results.epochs.lengths.size(), results.epochs.epochs);
  EXPECT_LE(all, results.time);
  EXPECT_LE(results.epochs.stopped + results.epochs.waited, results.time);
  EXPECT_LE(results.epochs.full, results.epochs.epochs);
}

INSTANTIATE_TEST_SUITE_P(Systems, RandomPrograms,
                         testing::Combine(testing::ValuesIn(kSystems),
                                          testing::Values(Reading::kPaperCode, Reading::kStrict)),
                         name_of_system_and_reading);

}  // namespace
}  // namespace perdure::memory
