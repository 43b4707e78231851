// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/arena_inspection.h"

#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "perdure/checkpoint/arena_file_test_world.h"

namespace perdure::checkpoint {
namespace {

using perdure::testing::kSanitized;

class ArenaInspectionTest : public ArenaFileTest {
 protected:
  std::string findings() const {
    std::string all;
    const auto arena = ArenaInspection::of(file).value();
    for (const auto& finding : arena.findings())
      all += finding.part + ": " + finding.message + "\n";
    return all;
  }
};

TEST_F(ArenaInspectionTest, OfASoundArenaTellsItsEpochsAndWritesNothing) {
  {
    const auto fresh = ArenaInspection::of(file).value();
    EXPECT_TRUE(fresh.findings().empty());
    EXPECT_EQ(fresh.epoch(), 0u);
    EXPECT_EQ(fresh.heap(), nullptr) << "the heap is made when the arena is opened";
  }
  run(10);
  const std::string before = read();
  {
    const auto arena = ArenaInspection::of(file).value();
    EXPECT_EQ(findings(), "");
    EXPECT_EQ(arena.epoch(), 10u);
    EXPECT_GT(arena.home_epoch(), 0u);
    EXPECT_FALSE(arena.unfinished());
    ASSERT_NE(arena.heap(), nullptr);
    EXPECT_EQ(arena.heap()->count_objects(), 10u);
  }
  EXPECT_EQ(read(), before);
}

TEST_F(ArenaInspectionTest, AnEpochThatIsLostIsNamedWhenALaterOneWasCommitted) {
  run(3, 1 << 20);  // one segment
  const auto super = *ArenaInspection::of(file).value().superblock();
  const Offset first = super.segment_offset[0] + kSegmentHeadBytes;
  std::string log = read().substr(first);
  overwrite(first + 40, std::string(1, static_cast<char>(~log[40])));
  EXPECT_NE(findings().find("epoch 1 of the log does not check, although epoch 3 was committed"),
            std::string::npos)
      << findings();
  EXPECT_EQ(ArenaInspection::of(file).value().epoch(), 0u);
  overwrite(first + 40, log.substr(40, 1));
  EXPECT_EQ(findings(), "");
  // The last one: as if the power had gone before its sync.
  const auto last_commit = log.find_last_not_of('\0');
  overwrite(first + last_commit - 100, std::string(1, static_cast<char>(~log[last_commit - 100])));
  EXPECT_EQ(findings(), "");
  EXPECT_TRUE(ArenaInspection::of(file).value().unfinished());
  EXPECT_EQ(ArenaInspection::of(file).value().epoch(), 2u);
}

TEST_F(ArenaInspectionTest, SlotsAndHeadsThatDoNotCheckAreNamed) {
  run(10);
  const auto super = *ArenaInspection::of(file).value().superblock();
  for (const Offset at :
       {kStateOffset[0], kStateOffset[1], super.segment_offset[0], super.segment_offset[1]}) {
    const std::string before = read().substr(at + 8, 1);
    overwrite(at + 8, std::string(1, static_cast<char>(~before[0])));
    EXPECT_NE(findings().find("byte " + std::to_string(at)), std::string::npos) << at << "\n"
                                                                                << findings();
    overwrite(at + 8, before);
  }
  EXPECT_EQ(findings(), "");
}

TEST_F(ArenaInspectionTest, AnyDamageIsHarmlessOrNamed) {
  run(10);
  const std::string whole = read();
  const auto super = *ArenaInspection::of(file).value().superblock();
  // Of segments, only what was used; half of the damage to what decides about the rest.
  int found = 0;
  int refused = 0;
  for (int turn = 0; turn < (kSanitized ? 500 : 3000); ++turn) {
    Offset at = random() % (super.home_offset + kCapacity);
    if (turn % 2 == 0) {
      const std::pair<Offset, std::uint64_t> heads[] = {
          {0, 104},
          {kStateOffset[0], 24},
          {kStateOffset[1], 24},
          {super.segment_offset[0], 40},
          {super.segment_offset[1], 40},
          {super.home_offset, 4096},
      };
      const auto [begin, bytes] = heads[random() % 6];
      at = begin + random() % bytes;
    } else if (turn % 4 == 1) {
      at = super.segment_offset[random() % 2] + kSegmentHeadBytes + random() % 6000;
    }
    std::string bytes = whole.substr(at, 1 + random() % 64);
    for (char& byte : bytes) byte = static_cast<char>(random());
    overwrite(at, bytes);
    const std::string damaged = whole.substr(0, at) + bytes + whole.substr(at + bytes.size());
    auto arena = ArenaInspection::of(file);
    if (!arena) {
      ++refused;
      ASSERT_TRUE(arena.error().code == Code::kForeign || arena.error().code == Code::kVersion)
          << arena.error().message;
      ASSERT_LT(at, 32u) << arena.error().message;
    } else if (!arena.value().findings().empty()) {
      ++found;
      for (const auto& finding : arena.value().findings())
        ASSERT_EQ(finding.message.find(file + ": "), 0u) << finding.message;
    } else {
      // What is called whole can be used.
      ASSERT_NE(arena.value().heap(), nullptr) << "byte " << at;
      ASSERT_EQ(arena.value().heap()->find_fault(kCapacity, kAddress), "");
      ASSERT_GE(arena.value().epoch() + 1, 10u)
          << "only of the last epoch nobody knows: byte " << at;
    }
    ASSERT_TRUE(read() == damaged) << "something was written";
    overwrite(at, whole.substr(at, bytes.size()));
  }
  EXPECT_GT(found, kSanitized ? 150 : 1000);
  EXPECT_GT(refused, kSanitized ? 3 : 25);
}

TEST_F(ArenaInspectionTest, WhatIsCutOffIsDamageAndWhatIsNoArenaAnError) {
  run(4);
  const std::string whole = read();
  for (const std::size_t bytes : {whole.size() - 1, std::size_t{5000}, sizeof(ArenaSuperblock)}) {
    std::filesystem::resize_file(file, bytes);
    EXPECT_NE(findings().find("superblock: " + file + ": has " + std::to_string(bytes) + " bytes"),
              std::string::npos)
        << findings();
  }
  EXPECT_TRUE(is_arena(file));
  std::filesystem::resize_file(file, 50);
  EXPECT_EQ(ArenaInspection::of(file).error().code, Code::kForeign);
  EXPECT_EQ(ArenaInspection::of(directory / "none").error().code, Code::kNotFound);
  EXPECT_FALSE(is_arena(directory / "none"));
  EXPECT_FALSE(is_arena(directory));
}

TEST_F(ArenaInspectionTest, WhoHasItOpenIsNamed) {
  const auto held = open_locked(file, false).value();
  const auto busy = ArenaInspection::of(file);
  EXPECT_EQ(busy.error().code, Code::kBusy);
  EXPECT_NE(busy.error().message.find(std::to_string(::getpid())), std::string::npos);
}

}  // namespace
}  // namespace perdure::checkpoint
