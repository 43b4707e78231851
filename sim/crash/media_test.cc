// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/media.h"

#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "sim/crash/choices.h"

namespace perdure::crash {
namespace {

using Kind = TraceEvent::Kind;

/// Media over two pages of zeroes, and the trace that it follows.
class MediaTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 2 * kPageBytes;

  void step(Media& media, Kind kind, Offset offset = 0, std::uint64_t value = 0,
            std::uint8_t thread = 1) {
    media.advance({kind, thread, Site{}, offset, value}, trace_);
  }
  void sector(Media& media, Offset offset, int fill) {
    std::array<std::byte, kSectorBytes> bytes;
    bytes.fill(static_cast<std::byte>(fill));
    sectors_.push_back(std::make_unique<Trace>(memory_.data()));
    sectors_.back()->add_sectors(offset, bytes.data(), bytes.size());
    media.advance(sectors_.back()->events()[0], *sectors_.back());
  }
  /// Every image that the media may hold, as the words at `offsets`.
  std::set<std::vector<Word>> images(const Media& media, const std::vector<Offset>& offsets) {
    const Media::Frontier frontier = media.frontier();
    Random random(1);
    Choices choices(frontier, 1 << 16, 1, random);
    EXPECT_TRUE(choices.exhaustive());
    std::set<std::vector<Word>> found;
    while (const Media::Choice* choice = choices.next()) {
      frontier.apply(*choice, memory_.data());
      std::vector<Word> words;
      for (const Offset offset : offsets) words.push_back(word(memory_, offset));
      found.insert(words);
      frontier.undo(*choice, image_.data(), memory_.data());
      EXPECT_EQ(std::memcmp(memory_.data(), image_.data(), kBytes), 0);
    }
    return found;
  }
  static Word word(const std::vector<std::byte>& memory, Offset offset) {
    Word value;
    std::memcpy(&value, memory.data() + offset, sizeof(value));
    return value;
  }

  std::vector<std::byte> image_ = std::vector<std::byte>(kBytes);
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  Trace trace_{memory_.data()};
  std::vector<std::unique_ptr<Trace>> sectors_;
};

using Images = std::set<std::vector<Word>>;

TEST_F(MediaTest, StoresToOneLineArriveInOrder) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kStore, 0, 1);
  step(media, Kind::kStore, 8, 2);
  step(media, Kind::kStore, 0, 3);
  EXPECT_EQ(images(media, {0, 8}), (Images{{0, 0}, {1, 0}, {1, 2}, {3, 2}}));
}

TEST_F(MediaTest, WithCachesThatAreNotLostEachStoreArrivesAtOnce) {
  Media media(Model::kCaches, image_.data(), memory_.data());
  step(media, Kind::kStore, 64, 1);
  step(media, Kind::kStore, 0, 2);
  EXPECT_EQ(images(media, {0, 64}), (Images{{2, 1}}));
  EXPECT_FALSE(media.advance({Kind::kStore, 1, Site{}, 0, 2}, trace_)) << "the same image";
  EXPECT_TRUE(media.advance({Kind::kStore, 1, Site{}, 0, 3}, trace_));
}

TEST_F(MediaTest, StoresToTwoLinesArriveInAnyOrder) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kStore, 0, 1);
  step(media, Kind::kStore, 64, 2);
  EXPECT_EQ(images(media, {0, 64}), (Images{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
}

TEST_F(MediaTest, WordsWrittenThroughArriveInAnyOrderWithinALine) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kWriteThrough, 0, 1);
  step(media, Kind::kWriteThrough, 8, 2);
  EXPECT_EQ(images(media, {0, 8}), (Images{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
  step(media, Kind::kFence);
  EXPECT_EQ(images(media, {0, 8}), (Images{{1, 2}}));
}

TEST_F(MediaTest, FlushVouchesForWhatTheLineHeldThen) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kStore, 0, 1);
  step(media, Kind::kFlush, 0);
  step(media, Kind::kStore, 8, 2);
  EXPECT_EQ(images(media, {0, 8}).size(), 3u);
  step(media, Kind::kFence, 0, 0, 2);  // another thread's
  EXPECT_EQ(images(media, {0, 8}).size(), 3u);
  step(media, Kind::kFence);
  EXPECT_EQ(images(media, {0, 8}), (Images{{1, 0}, {1, 2}}));
}

TEST_F(MediaTest, FenceWithoutFlushVouchesForNothing) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kStore, 0, 1);
  step(media, Kind::kFence);
  EXPECT_EQ(images(media, {0}), (Images{{0}, {1}}));
}

TEST_F(MediaTest, StoreOfTheSameValueCountsOnce) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kStore, 0, 0);
  EXPECT_TRUE(media.frontier().units.empty());
  step(media, Kind::kStore, 0, 1);
  step(media, Kind::kStore, 0, 1);
  EXPECT_EQ(media.frontier().units.at(0)->writes.size(), 1u);
}

TEST_F(MediaTest, LaterStoreToAWordWrittenThroughNeverLosesToTheEarlier) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kWriteThrough, 0, 1);
  step(media, Kind::kStore, 0, 2);
  EXPECT_EQ(images(media, {0}), (Images{{0}, {1}, {2}}));
  step(media, Kind::kFence);  // the write-through is there for certain, the store may be
  EXPECT_EQ(images(media, {0}), (Images{{1}, {2}}));
  step(media, Kind::kFlush, 0);
  step(media, Kind::kFence);
  EXPECT_EQ(images(media, {0}), (Images{{2}}));
}

TEST_F(MediaTest, AfterAKillOnlyNewFlushesVouch) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  step(media, Kind::kStore, 0, 1);
  step(media, Kind::kFlush, 0);
  step(media, Kind::kWriteThrough, 64, 2);
  Media next = media.after_kill(image_.data(), memory_.data());
  step(next, Kind::kFence);
  EXPECT_EQ(images(next, {0, 64}).size(), 4u);
  step(next, Kind::kFlush, 0);
  step(next, Kind::kFlush, 64);
  step(next, Kind::kFence);
  EXPECT_EQ(images(next, {0, 64}), (Images{{1, 2}}));
}

TEST_F(MediaTest, SectorsOfAFileAreOldOrAnyVersion) {
  Media media(Model::kFile, image_.data(), memory_.data());
  step(media, Kind::kStore, 0, 99);  // the mapping is lost
  sector(media, 0, 1);
  sector(media, 512, 2);
  sector(media, 0, 3);
  const Word one = 0x0101010101010101;
  EXPECT_EQ(
      images(media, {0, 512}),
      (Images{{0, 0}, {one, 0}, {3 * one, 0}, {0, 2 * one}, {one, 2 * one}, {3 * one, 2 * one}}));
  step(media, Kind::kSync);
  EXPECT_EQ(images(media, {0, 512}), (Images{{3 * one, 2 * one}}));
}

TEST_F(MediaTest, DurableWriteOfARangeVouchesForThatRangeAlone) {
  Media media(Model::kFile, image_.data(), memory_.data());
  sector(media, 0, 1);
  sector(media, 4096, 2);
  step(media, Kind::kSync, 4096, 512);
  const Word one = 0x0101010101010101;
  EXPECT_EQ(images(media, {0, 4096}), (Images{{0, 2 * one}, {one, 2 * one}}));
}

// ---- choices ------------------------------------------------------------------------------------

TEST_F(MediaTest, ChoicesSurviveBeingWrittenAsText) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  for (Word i = 1; i <= 4; ++i) step(media, Kind::kStore, 8 * i, i);
  for (Offset line = 64; line < 64 * 6; line += 64) step(media, Kind::kStore, line, 1);
  const Media::Frontier frontier = media.frontier();
  Random random(7);
  Choices choices(frontier, 1 << 16, 1, random);
  std::uint64_t count = 0;
  while (const Media::Choice* choice = choices.next()) {
    const std::string text = text_of_choice(*choice, frontier);
    const auto read = choice_of(text, frontier);
    ASSERT_TRUE(read) << text;
    ASSERT_EQ(*read, *choice) << text;
    ++count;
  }
  EXPECT_EQ(count, 5u * 32);  // a prefix of four stores, times five lines there or not
  EXPECT_EQ(choices.count(), count);
}

TEST_F(MediaTest, SampleHoldsEachUnitAloneAndEachMissing) {
  Media media(Model::kMemory, image_.data(), memory_.data());
  for (Offset line = 0; line < 64 * 40; line += 64) step(media, Kind::kStore, line, 1);
  const Media::Frontier frontier = media.frontier();
  Random random(7);
  Choices choices(frontier, 1024, 40, random);
  EXPECT_FALSE(choices.exhaustive());
  std::set<Media::Choice> alone;
  std::set<Media::Choice> missing;
  bool none = false;
  bool all = false;
  while (const Media::Choice* choice = choices.next()) {
    const auto there = std::count(choice->begin(), choice->end(), 1u);
    none = none || there == 0;
    all = all || there == 40;
    if (there == 1) alone.insert(*choice);
    if (there == 39) missing.insert(*choice);
  }
  EXPECT_TRUE(none && all);
  EXPECT_EQ(alone.size(), 40u);
  EXPECT_EQ(missing.size(), 40u);
}

}  // namespace
}  // namespace perdure::crash
