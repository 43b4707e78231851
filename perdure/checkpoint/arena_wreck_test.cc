// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/arena_wreck.h"

#include <fcntl.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/checkpoint/arena_file_test_world.h"
#include "perdure/checkpoint/arena_inspection.h"

namespace perdure::checkpoint {
namespace {

using perdure::testing::kSanitized;

class ArenaWreckTest : public ArenaFileTest {
 protected:
  struct Saved {
    std::string error;  // empty: the rest counts
    std::uint64_t epoch = 0;
    std::uint64_t dropped = 0;
    std::string image;
    std::vector<std::string> mended, lost;
  };
  Saved save(bool zero_lost_pages = false) const {
    Saved saved;
    const std::string copy = directory / "copy.arena";
    std::filesystem::remove(copy);
    auto wreck = ArenaWreck::open(file);
    // Not create_whole_file(), which waits for the device; the tests of the command have it.
    const Descriptor fd(wreck ? ::open(copy.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600)
                              : -1);
    const auto made =
        wreck ? wreck.value()->write(fd.get(), copy, zero_lost_pages) : Result<void>(wreck.error());
    if (!made) {
      saved.error = made.error().message;
      EXPECT_EQ(saved.error.find(file + ": "), 0u) << saved.error;
      return saved;
    }
    const auto arena = ArenaInspection::of(copy).value();
    for (const auto& finding : arena.findings()) ADD_FAILURE() << finding.message;
    EXPECT_EQ(arena.superblock()->address, kAddress);
    EXPECT_EQ(arena.superblock()->capacity_bytes, kCapacity);
    saved.epoch = arena.epoch();
    EXPECT_EQ(saved.epoch, wreck.value()->epoch());
    saved.dropped = wreck.value()->dropped_epochs();
    saved.image = testing::contents_of(copy).substr(kHomeOffset, kCapacity);
    saved.mended = wreck.value()->mended();
    saved.lost = wreck.value()->lost();
    return saved;
  }
  /// All epochs are there, and nothing is told to be lost.
  void expect_whole(const Saved& saved, const std::string& what) const {
    EXPECT_EQ(saved.error, "") << what;
    EXPECT_EQ(saved.epoch, images.size()) << what;
    EXPECT_TRUE(saved.lost.empty()) << what << ": " << ::testing::PrintToString(saved.lost);
    EXPECT_TRUE(!images.empty() && saved.image == images.back()) << what;
  }
  /// Puts the file back as it was when the test ends with it.
  void restore(const std::string& whole) const {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole;
  }
  ArenaSuperblock super() const { return *ArenaInspection::of(file).value().superblock(); }
};

TEST_F(ArenaWreckTest, ASoundArenaComesBackAsItIs) {
  const Saved fresh = save();
  EXPECT_EQ(fresh.error, "");
  EXPECT_EQ(fresh.epoch, 0u);
  EXPECT_TRUE(fresh.lost.empty());
  for (int i = 0; i < 12; ++i) {
    run(1 + i % 4);
    const std::string before = read();
    const Saved saved = save();
    expect_whole(saved, std::to_string(images.size()));
    EXPECT_TRUE(saved.mended.empty()) << ::testing::PrintToString(saved.mended);
    EXPECT_TRUE(read() == before) << "nothing is written to it";
  }
}

TEST_F(ArenaWreckTest, WithADamagedHeadOfAnythingAllComesBack) {
  for (int epochs : {5, 4, 3}) {
    run(epochs);
    const std::string whole = read();
    const auto super = this->super();
    for (const auto& [at, bytes] : {std::pair<Offset, std::size_t>{0, 104},
                                    {kStateOffset[0], 24},
                                    {kStateOffset[1], 24},
                                    {super.segment_offset[0], 40},
                                    {super.segment_offset[1], 40}}) {
      for (std::size_t i = 0; i < bytes; i += kSanitized ? 13 : 3) {
        overwrite(at + i, std::string(1, static_cast<char>(whole[at + i] ^ (1 << random() % 8))));
        expect_whole(save(), "byte " + std::to_string(at + i));
        overwrite(at + i, whole.substr(at + i, 1));
      }
      for (const char filler : {'\0', 'x'}) {
        overwrite(at, std::string(512, filler));
        expect_whole(save(), "the sector at byte " + std::to_string(at));
        overwrite(at, whole.substr(at, 512));
      }
    }
    overwrite(kStateOffset[0], std::string(24, 'x'));
    overwrite(kStateOffset[1], std::string(24, 'x'));
    expect_whole(save(), "both state slots");
    restore(whole);
  }
}

TEST_F(ArenaWreckTest, OfADamagedLogTheEpochBeforeComesBackWhole) {
  run(9, 1 << 20);  // one segment: nothing is home
  const std::string whole = read();
  const Offset log = super().segment_offset[0] + kSegmentHeadBytes;
  const Offset end = whole.find_last_not_of('\0') + 1;
  std::uint64_t dropped = 0;
  for (int i = 0; i < (kSanitized ? 50 : 300); ++i) {
    const Offset at = log + random() % (end - log);
    const std::size_t bytes = i % 2 == 0 ? 1 : 512;
    std::string damaged = whole.substr(at, bytes);
    for (char& byte : damaged) byte = static_cast<char>(i % 4 == 1 ? 0 : random());
    if (damaged == whole.substr(at, bytes)) continue;
    overwrite(at, damaged);
    const Saved saved = save();
    if (saved.error.empty()) {
      if (!saved.lost.empty()) {
        EXPECT_GE(saved.epoch + saved.dropped, bytes == 1 ? 9u : 8u) << "of two the last is missed";
      }
      EXPECT_TRUE(!saved.lost.empty() || saved.epoch >= (bytes == 1 ? 8 : 7))
          << "only the last one is not missed, or two that are in one sector";
      ASSERT_TRUE(saved.epoch >= 1 && saved.image == images[saved.epoch - 1]) << "byte " << at;
      dropped += saved.dropped;
    } else {
      EXPECT_NE(saved.error.find("epoch 1 of the log is damaged"), std::string::npos)
          << saved.error;
    }
    overwrite(at, whole.substr(at, bytes));
  }
  EXPECT_GT(dropped, kSanitized ? 10u : 50u);
}

/// What home has already need not be in the log.
TEST_F(ArenaWreckTest, DamageToWhatIsHomeCostsNothing) {
  run(10);
  const auto arena = ArenaInspection::of(file).value();
  const std::uint64_t home = arena.home_epoch();
  ASSERT_GT(home, 2u);
  ASSERT_LT(home, 10u);
  const std::string whole = read();
  // The segment whose epochs are home: each of its records.
  const int older = [&] {
    SegmentHead head[2];
    for (int i = 0; i < 2; ++i)
      std::memcpy(&head[i], whole.data() + super().segment_offset[i], sizeof(SegmentHead));
    return head[0].generation < head[1].generation ? 0 : 1;
  }();
  const Offset begin = super().segment_offset[older] + kSegmentHeadBytes;
  int tried = 0;
  for (Offset at = begin; at < begin + 6000; at += 160, ++tried) {
    overwrite(at, std::string(8, 'x'));
    expect_whole(save(), "byte " + std::to_string(at));
    overwrite(at, whole.substr(at, 8));
  }
  EXPECT_GT(tried, 30);
}

TEST_F(ArenaWreckTest, AMixtureOfEpochsIsRefused) {
  run(9, 1 << 20);
  const std::string whole = read();
  const auto super = this->super();
  ASSERT_EQ(ArenaInspection::of(file).value().home_epoch(), 0u);
  // Recovery was bringing epochs home when the process ended; then one of them is damaged.
  overwrite(super.home_offset, images[7].substr(0, kCapacity / 2));
  expect_whole(save(), "as long as the log is whole");
  Offset at = super.segment_offset[0] + kSegmentHeadBytes;
  for (int epoch = 1; epoch <= 3; at += sizeof(Record)) {  // into epoch 4
    Record record{};
    std::memcpy(&record, whole.data() + at, sizeof(record));
    at += payload_bytes(record);
    epoch += record.kind == RecordKind::kCommit ? 1 : 0;
  }
  overwrite(at + sizeof(Record) + 3, "x");
  const Saved saved = save();
  EXPECT_NE(saved.error.find("no epoch can be proved as a whole"), std::string::npos)
      << saved.error << saved.epoch;
}

TEST_F(ArenaWreckTest, WhatWasCutOffIsToldOrRefused) {
  run(10);
  const std::string whole = read();
  const auto super = this->super();
  std::map<std::string, int> seen;
  for (int i = 0; i < (kSanitized ? 20 : 100); ++i) {
    const std::size_t bytes = i == 0 ? whole.size() - 1 : random() % whole.size();
    restore(whole.substr(0, bytes));
    const Saved saved = save();
    if (!saved.error.empty()) {
      ++seen["refused"];
    } else {
      ASSERT_TRUE(saved.epoch >= 1 && saved.image == images[saved.epoch - 1]) << bytes;
      EXPECT_TRUE(!saved.lost.empty() || saved.epoch == 10) << bytes;
      ++seen[saved.lost.empty() ? "whole" : "told"];
    }
  }
  EXPECT_GT(seen["whole"], 0);
  EXPECT_GT(seen["told"], kSanitized ? 0 : 10);
  EXPECT_GT(seen["refused"], kSanitized ? 0 : 10);
  // Pages of home that are gone may be taken as zeros.
  restore(whole.substr(0, super.home_offset + kCapacity / 2));
  // Without its log, nobody knows how far home has come: but the state says it.
  const Saved refused = save();
  EXPECT_NE(refused.error.find("--zero-lost-pages"), std::string::npos) << refused.error;
  const Saved zeroed = save(true);
  EXPECT_EQ(zeroed.error, "");
  EXPECT_GT(zeroed.lost.size(), kCapacity / 2 / kPageBytes) << "each page is told, and the log";
  EXPECT_TRUE(zeroed.image.substr(kCapacity / 2) == std::string(kCapacity / 2, '\0'));
}

/// Single bits, words and sectors, anywhere. What comes back is one epoch as a whole, but for what was
/// damaged at home and tables of the heap, which are told.
TEST_F(ArenaWreckTest, OfAnyDamageWhatIsNotHitComesBackAndTheRestIsTold) {
  run(10);
  const std::string whole = read();
  const auto super = this->super();
  int whole_ones = 0;
  int told = 0;
  int refused = 0;
  int unnoticed = 0;
  const int turns = kSanitized ? 100 : 1500;
  for (int turn = 0; turn < turns; ++turn) {
    Offset at = random() % (super.home_offset + kCapacity);
    if (turn % 4 == 1) at = super.segment_offset[random() % 2] + random() % 12000;
    if (turn % 4 == 2) at = super.home_offset + random() % (2 * kPageBytes);  // the heap's tables
    std::size_t bytes = 1;
    if (turn % 3 == 1) bytes = 8;
    if (turn % 3 == 2) bytes = 512;
    at = round_down(at, bytes);
    std::string damage = whole.substr(at, bytes);
    if (bytes == 1) {
      damage[0] = static_cast<char>(damage[0] ^ (1 << random() % 8));
    } else {
      const bool zero = random() % 2 == 0;
      for (char& byte : damage) byte = zero ? '\0' : static_cast<char>(random());
    }
    if (damage == whole.substr(at, bytes)) continue;
    overwrite(at, damage);
    const Saved saved = save();
    overwrite(at, whole.substr(at, bytes));
    const std::string what = "turn " + std::to_string(turn) + ", byte " + std::to_string(at);
    const bool in_home = inside(at, 1, super.home_offset, super.home_offset + kCapacity);
    if (!saved.error.empty()) {
      ++refused;
      continue;
    }
    ASSERT_GE(saved.epoch, 1u) << what;
    if (!in_home) {
      ASSERT_TRUE(saved.image == images[saved.epoch - 1]) << what;
      ASSERT_TRUE(!saved.lost.empty() || saved.epoch >= 9) << what;
      ++(saved.lost.empty() ? whole_ones : told);
      continue;
    }
    ASSERT_EQ(saved.epoch, 10u) << what;
    const bool tables = std::any_of(saved.lost.begin(), saved.lost.end(), [](const auto& text) {
      return text.find("heap") != std::string::npos;
    });
    if (saved.image == images[9]) {
      ++whole_ones;
      continue;
    }
    ++(saved.lost.empty() ? unnoticed : told);
    // Nothing has changed but what was hit, and tables.
    const Offset hit = at - super.home_offset;
    for (Offset i = 0; i < kCapacity; ++i) {
      if (saved.image[i] == images[9][i] || (i >= hit && i < hit + bytes)) continue;
      ASSERT_TRUE(tables && i < 2 * kPageBytes) << what << ": image byte " << i;
    }
  }
  EXPECT_LT(refused, turns / 50);
  EXPECT_GT(told, turns / 100);
  EXPECT_GT(whole_ones, turns / 10);
  RecordProperty("unnoticed, in objects at home", unnoticed);
}

TEST_F(ArenaWreckTest, WhatIsNoArenaIsRefused) {
  const std::string whole = read();
  restore("no arena");
  EXPECT_NE(save().error.find("not a Perdure arena"), std::string::npos);
  EXPECT_FALSE(ArenaWreck::seems_one(file));
  restore(whole);
  EXPECT_TRUE(ArenaWreck::seems_one(file));
  ArenaSuperblock newer = super();
  newer.version = 2;
  newer.crc = crc_of(newer);
  overwrite(0, {reinterpret_cast<const char*>(&newer), sizeof(newer)});
  EXPECT_NE(save().error.find("use a newer release"), std::string::npos);
  restore(whole);
  const auto held = open_locked(file, false).value();
  EXPECT_NE(save().error.find("in use by process"), std::string::npos);
}

}  // namespace
}  // namespace perdure::checkpoint
