// SPDX-License-Identifier: BSD-3-Clause
// The simulated machine's figures are the same on every machine, so they are pinned exactly: whoever changes one sees it here, and
// says in the commit why. Generated accesses only; what compilers make of programs is no one's to pin.
#include <gtest/gtest.h>

#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::thynvm {
namespace {

constexpr System kBars[] = {System::kDram,   System::kNvm,    System::kJournal,
                            System::kShadow, System::kThyNvm, System::kThyNvmOverlap};

/// Of kBars, in their order.
struct Machines {
  std::array<std::uint64_t, 6> time;   // in the simulator's unit
  std::array<std::uint64_t, 6> bytes;  // written, as the paper counts them
};
struct Pinned {
  std::string pattern;
  std::uint64_t records;  // so many that every machine has made checkpoints
  Machines paper_code, strict;
};
void PrintTo(const Pinned& pinned, std::ostream* out) { *out << pinned.pattern; }

const Pinned kPinned[] = {
    {"random",
     2'000'000,
     {{44700464, 54438176, 63461820, 47112489, 57209740, 55891900},
      {1164224, 1164224, 7475596, 19189772, 5462784, 4874752}},
     {{23309221, 46259192, 55654872, 87481129, 38062481, 38062481},
      {1164224, 1164224, 7559808, 35618624, 3869632, 3869632}}},
    {"streaming",
     2'000'000,
     {{59790980, 73774964, 85927183, 68385671, 76605758, 69507341},
      {3646144, 3646144, 15027072, 9446900, 13172288, 10059136}},
     {{38775835, 94667984, 111720563, 57604904, 75490986, 70875340},
      {3646144, 3646144, 15234688, 9576768, 9307008, 9090368}}},
    {"sliding",
     8'000'000,
     {{121797584, 127302704, 136494779, 119449217, 126767816, 119900884},
      {2426816, 2426816, 14663352, 9957708, 13396544, 10029760}},
     {{36014972, 69112622, 68041447, 46771597, 38465119, 40064927},
      {2426816, 2426816, 13765440, 9441536, 5691136, 7132672}}},
};

class ThyNvmShapes : public ::testing::TestWithParam<Pinned> {};
INSTANTIATE_TEST_SUITE_P(Patterns, ThyNvmShapes, ::testing::ValuesIn(kPinned),
                         [](const auto& of) { return of.param.pattern; });

TEST_P(ThyNvmShapes, TakeExactlyThisLongAndThyNvmLessThanJournaling) {
  const Pinned& pinned = GetParam();
  memory::WorkloadOptions options;
  options.seed = 1;
  const ByMachine machines =
      run(memory::make_workload(pinned.pattern, options),
          both_readings({std::begin(kBars), std::end(kBars)}), pinned.records);
  for (const Reading reading : kReadings) {
    SCOPED_TRACE(memory::reading_name(reading));
    Machines found{};
    for (std::size_t i = 0; i < std::size(kBars); ++i) {
      const Results& results = machines.at({reading, kBars[i]});
      found.time[i] = static_cast<std::uint64_t>(results.time);
      found.bytes[i] = static_cast<std::uint64_t>(paper_bytes(results));
    }
    const Machines& expected = reading == Reading::kStrict ? pinned.strict : pinned.paper_code;
    EXPECT_EQ(found.time, expected.time);
    EXPECT_EQ(found.bytes, expected.bytes);
    EXPECT_LT(found.time[4], found.time[2]) << "ThyNVM and journaling";
    EXPECT_LT(found.time[5], found.time[2]) << "ThyNVM with everything overlapped, and journaling";
  }
}

}  // namespace
}  // namespace perdure::bench::thynvm
