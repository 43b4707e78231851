// SPDX-License-Identifier: BSD-3-Clause
// The simulated machine's figures are the same on every machine, so they are pinned exactly: whoever changes one sees it here, and
// says in the commit why. Generated accesses only; what compilers make of programs is no one's to pin.
#include <gtest/gtest.h>

#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {
namespace {

constexpr std::uint64_t kRecords = 300'000;
constexpr System kBars[] = {System::kDram, System::kNvm, System::kJournal, System::kShadow,
                            System::kThyNvm};

struct Pinned {
  std::string pattern;
  Reading reading;
  std::array<std::uint64_t, 5> time;   // of kBars, in the simulator's unit
  std::array<std::uint64_t, 5> bytes;  // written, as the paper counts them
};
const Pinned kPinned[] = {
    {"random", Reading::kPaperCode, {}, {}},    {"random", Reading::kStrict, {}, {}},
    {"streaming", Reading::kPaperCode, {}, {}}, {"streaming", Reading::kStrict, {}, {}},
    {"sliding", Reading::kPaperCode, {}, {}},   {"sliding", Reading::kStrict, {}, {}},
};

ByMachine run_pattern(const std::string& pattern) {
  memory::WorkloadOptions options;
  options.seed = 1;
  return run(memory::make_workload(pattern, options),
             both_readings({std::begin(kBars), std::end(kBars)}), kRecords);
}

TEST(ThyNvmShapes, MicroBenchmarksTakeExactlyThisLong) {
  for (const Pinned& pinned : kPinned) {
    SCOPED_TRACE(pinned.pattern + ", " + std::string(memory::reading_name(pinned.reading)));
    const ByMachine machines = run_pattern(pinned.pattern);
    std::array<std::uint64_t, 5> time{}, bytes{};
    for (std::size_t i = 0; i < std::size(kBars); ++i) {
      const Results& results = machines.at({pinned.reading, kBars[i]});
      time[i] = static_cast<std::uint64_t>(results.time);
      bytes[i] = static_cast<std::uint64_t>(paper_bytes(results));
    }
    EXPECT_EQ(time, pinned.time);
    EXPECT_EQ(bytes, pinned.bytes);
  }
}

TEST(ThyNvmShapes, ThyNvmIsQuickerThanJournaling) {
  for (const char* pattern : {"random", "streaming", "sliding"}) {
    const ByMachine machines = run_pattern(pattern);
    for (const Reading reading : kReadings)
      EXPECT_LT(machines.at({reading, System::kThyNvm}).seconds(),
                machines.at({reading, System::kJournal}).seconds())
          << pattern << ", " << memory::reading_name(reading);
  }
}

}  // namespace
}  // namespace perdure::bench::thynvm
