// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/frame_table.h"

#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/domain/dram.h"

namespace perdure {
namespace {

using testing::HasSubstr;

constexpr FrameGeometry kSmall = {.frame_bytes = 64, .frame_count = 8, .file_entries = 3};

/// Files as maps of pages. A page that was never written is zeros.
class Shelf {
 public:
  using Key = std::pair<FileNumber, std::uint64_t>;
  Result<void> read_page(FilePage page, std::byte* to) {
    if (failing) return Error{Code::kIo, "the shelf fails"};
    const auto found = pages.find({page.file, page.page});
    if (found == pages.end()) {
      std::memset(to, 0, kSmall.frame_bytes);
    } else {
      std::memcpy(to, found->second.data(), kSmall.frame_bytes);
    }
    return {};
  }
  Result<void> write_page(FilePage page, const std::byte* from) {
    if (failing) return Error{Code::kIo, "the shelf fails"};
    pages[{page.file, page.page}].assign(from, from + kSmall.frame_bytes);
    ++writes;
    return {};
  }
  Result<void> sync(FileNumber) {
    ++syncs;
    return {};
  }
  std::map<Key, std::vector<std::byte>> pages;
  bool failing = false;
  int writes = 0;
  int syncs = 0;
};

class FrameTableTest : public testing::Test {
 protected:
  FrameTableTest() : memory(file_bytes_of(super()) / kWordBytes) {
    const auto format = frame_format(super());
    std::memcpy(base(), format.data(), format.size());
  }
  static const FrameSuperblock& super() {
    static const FrameSuperblock made = make_frame_superblock(kSmall, "pool").value();
    return made;
  }
  std::byte* base() { return reinterpret_cast<std::byte*>(memory.data()); }
  Word& entry(FrameNumber frame) { return memory[super().entry_offset / kWordBytes + frame]; }
  Result<FrameTable<Dram>> open() {
    auto checked = check_frame_superblock(base(), memory.size() * kWordBytes, "pool");
    if (!checked) return checked.error();
    return FrameTable<Dram>::open(Dram{}, base(), checked.value(), "pool");
  }
  void expect_corrupt(const std::string& message) {
    const auto opened = open();
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Code::kCorrupt);
    EXPECT_THAT(opened.error().message, HasSubstr(message));
  }

 public:
  std::vector<Word> memory;
  Shelf shelf;
};

TEST_F(FrameTableTest, APageIsBroughtInOnceAndGoesBackWhole) {
  auto table = open().value();
  const FileNumber file = table.register_file("/a").value();
  EXPECT_EQ(table.register_file("/a").value(), file);
  const FrameNumber frame = table.bring_in(shelf, {file, 7}).value();
  EXPECT_EQ(table.find({file, 7}), frame);
  EXPECT_EQ(table.free_frames(), 7u);
  table.may_be_stored_to(frame);
  std::memset(table.frame(frame), 0x5a, kSmall.frame_bytes);
  table.swap_out(shelf, std::vector{frame}).value();
  EXPECT_EQ(table.find({file, 7}), FrameIndex::kNone);
  EXPECT_EQ(table.free_frames(), 8u);
  EXPECT_EQ(shelf.pages.at({file, 7}), std::vector<std::byte>(64, std::byte{0x5a}));
}

TEST_F(FrameTableTest, AFrameThatNobodyStoredToIsNotWritten) {
  auto table = open().value();
  const FileNumber file = table.register_file("/a").value();
  const FrameNumber frame = table.bring_in(shelf, {file, 0}).value();
  table.swap_out(shelf, std::vector{frame}).value();
  EXPECT_EQ(shelf.writes, 0);
  EXPECT_EQ(shelf.syncs, 0);
}

TEST_F(FrameTableTest, WhatAnEarlierProcessLeftIsWrittenWithoutAnybodyMappingIt) {
  FileNumber file = 0;
  FrameNumber frame = 0;
  {
    auto table = open().value();
    file = table.register_file("/a").value();
    frame = table.bring_in(shelf, {file, 3}).value();
    table.may_be_stored_to(frame);
    std::memset(table.frame(frame), 1, kSmall.frame_bytes);
  }
  auto table = open().value();
  EXPECT_EQ(table.name_of(file), "/a");
  EXPECT_EQ(table.find({file, 3}), frame);
  EXPECT_EQ(table.free_frames(), 7u);
  table.swap_out(shelf, std::vector{frame}).value();
  EXPECT_EQ(shelf.pages.at({file, 3}), std::vector<std::byte>(64, std::byte{1}));
}

TEST_F(FrameTableTest, SeveralFramesShareASync) {
  auto table = open().value();
  const FileNumber file = table.register_file("/a").value();
  std::vector<FrameNumber> frames;
  for (std::uint64_t page = 0; page < 8; ++page) {
    frames.push_back(table.bring_in(shelf, {file, page}).value());
    table.may_be_stored_to(frames.back());
  }
  EXPECT_EQ(frames, (std::vector<FrameNumber>{0, 1, 2, 3, 4, 5, 6, 7})) << "in order: one mapping";
  table.swap_out(shelf, frames).value();
  EXPECT_EQ(shelf.writes, 8);
  EXPECT_EQ(shelf.syncs, 1);
}

TEST_F(FrameTableTest, AFailingFileLeavesEverythingWhereItWas) {
  auto table = open().value();
  const FileNumber file = table.register_file("/a").value();
  const FrameNumber frame = table.bring_in(shelf, {file, 0}).value();
  table.may_be_stored_to(frame);
  shelf.failing = true;
  EXPECT_EQ(table.swap_out(shelf, std::vector{frame}).error().code, Code::kIo);
  EXPECT_EQ(table.find({file, 0}), frame);
  EXPECT_EQ(table.bring_in(shelf, {file, 1}).error().code, Code::kIo);
  EXPECT_EQ(table.free_frames(), 7u);
  auto reopened = open().value();
  EXPECT_EQ(reopened.find({file, 0}), frame);
  EXPECT_EQ(reopened.find({file, 1}), FrameIndex::kNone);
}

TEST_F(FrameTableTest, FilesAreFewAndTheirNumbersAreUsedAgain) {
  auto table = open().value();
  for (const char* name : {"/a", "/b", "/c"}) EXPECT_TRUE(table.register_file(name).ok());
  const auto fourth = table.register_file("/d");
  ASSERT_FALSE(fourth.ok());
  EXPECT_EQ(fourth.error().code, Code::kNoSpace);
  EXPECT_THAT(fourth.error().message, HasSubstr("all 3 entries"));
  const FileNumber b = table.find_file("/b");
  table.forget_file(b).value();
  EXPECT_EQ(table.register_file(std::string(kFileNameBytes, 'x')).value(), b);
  EXPECT_EQ(table.register_file(std::string(kFileNameBytes + 1, 'x')).error().code, Code::kInvalid);
  EXPECT_EQ(table.register_file("").error().code, Code::kInvalid);
  auto reopened = open().value();
  EXPECT_EQ(reopened.name_of(b), std::string(kFileNameBytes, 'x'));
}

TEST_F(FrameTableTest, EveryFlippedBitOfTheTablesIsRefusedAndNamed) {
  {
    auto table = open().value();
    const FileNumber file = table.register_file("/a").value();
    for (std::uint64_t page = 0; page < 3; ++page) table.bring_in(shelf, {file, page}).value();
  }
  for (FrameNumber frame = 0; frame < kSmall.frame_count; ++frame) {
    for (int bit = 0; bit < 64; ++bit) {
      entry(frame) ^= Word{1} << bit;
      expect_corrupt("the entry of frame " + std::to_string(frame) + " (byte " +
                     std::to_string(super().entry_offset + frame * 8) + ") fails its check");
      entry(frame) ^= Word{1} << bit;
    }
  }
  for (FileNumber file = 1; file <= kSmall.file_entries; ++file) {
    const std::size_t at = (super().file_table_offset + (file - 1) * sizeof(FileEntry)) / 8;
    for (int bit = 0; bit < 64; ++bit) {
      memory[at] ^= Word{1} << bit;
      expect_corrupt("the entry of backing file " + std::to_string(file));
      memory[at] ^= Word{1} << bit;
    }
  }
  memory[super().file_table_offset / 8 + 1] ^= 1;  // the name itself
  expect_corrupt("the entry of backing file 1 (byte 4096) fails its check");
  memory[super().file_table_offset / 8 + 1] ^= 1;
  EXPECT_TRUE(open().ok());
}

TEST_F(FrameTableTest, APageInTwoFramesAndAnUnknownFileAreRefused) {
  {
    auto table = open().value();
    const FileNumber file = table.register_file("/a").value();
    table.bring_in(shelf, {file, 9}).value();
  }
  const Word before = entry(5);
  entry(5) = seal_frame(5, FilePage{1, 9}.payload());
  expect_corrupt("names page 9 of /a, which frame 5 has");
  entry(5) = seal_frame(5, FilePage{2, 0}.payload());
  expect_corrupt("names backing file 2, which is not registered");
  entry(5) = seal_frame(5, FilePage{4000, 0}.payload());
  expect_corrupt("names backing file 4000");
  entry(5) = seal_frame(5, 17);  // a page of no file
  expect_corrupt("names backing file 0");
  entry(5) = entry(6);  // a whole entry, at another frame's place
  expect_corrupt("frame 5");
  entry(5) = before;
  EXPECT_TRUE(open().ok());
}

TEST_F(FrameTableTest, EveryFlippedBitOfTheSuperblockIsRefused) {
  for (std::size_t byte = 0; byte < sizeof(FrameSuperblock); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      base()[byte] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(open().ok()) << byte;
      base()[byte] ^= static_cast<std::byte>(1 << bit);
    }
  }
  EXPECT_TRUE(open().ok());
}

TEST_F(FrameTableTest, GeometriesOutOfRangeAreRefusedByName) {
  const auto refused = [](FrameGeometry geometry, const char* field) {
    const auto made = make_frame_superblock(geometry, "pool");
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, Code::kInvalid);
    EXPECT_THAT(made.error().message, HasSubstr(field));
  };
  refused({.frame_bytes = 32, .frame_count = 1, .file_entries = 1}, "frame_bytes is 32");
  refused({.frame_bytes = 96, .frame_count = 1, .file_entries = 1}, "frame_bytes is 96");
  refused({.frame_bytes = 4 << 20, .frame_count = 1, .file_entries = 1}, "frame_bytes");
  refused({.frame_bytes = 4096, .frame_count = 0, .file_entries = 1}, "frame_count is 0");
  refused({.frame_bytes = 4096, .frame_count = 1, .file_entries = 4096}, "file_entries is 4096");
}

TEST_F(FrameTableTest, AFailedFencePoisons) {
  struct Broken : Dram {
    static bool fence(Site) { return false; }
  };
  EXPECT_EQ(FrameTable<Broken>::open(Broken{}, base(), super(), "pool").error().code,
            Code::kPoisoned);
}

TEST(FrameIndexTest, AgreesWithAMapThroughManyInsertionsAndErasures) {
  constexpr FrameNumber kFrames = 64;
  FrameIndex index(kFrames);
  std::map<std::uint64_t, FrameNumber> model;
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const auto frame = static_cast<FrameNumber>(random() % kFrames);
    if (index.key_of(frame) != 0) {
      model.erase(index.key_of(frame));
      index.erase(frame);
      continue;
    }
    const std::uint64_t key = 1 + random() % 200;
    const auto [known, fresh] = model.try_emplace(key, frame);
    EXPECT_EQ(index.insert(key, frame), fresh ? FrameIndex::kNone : known->second);
    const std::uint64_t asked = 1 + random() % 200;
    const auto found = model.find(asked);
    ASSERT_EQ(index.find(asked), found == model.end() ? FrameIndex::kNone : found->second);
  }
}

}  // namespace
}  // namespace perdure
