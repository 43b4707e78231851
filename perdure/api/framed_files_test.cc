// SPDX-License-Identifier: BSD-3-Clause
// An address space whose regions are larger than its memory: wherever a page is, the program sees
// what it stored.
#include "perdure/api/framed_files.h"

#include <csignal>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/small_space.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using testing::in_child;
using testing::kReadWrite;
using testing::receivers_of;
using testing::store_durably;
using testing::TempDir;
using testing::word_of;

using Space = std::unique_ptr<AddressSpace>;

constexpr std::uint64_t kPages = 512;  // of a region
constexpr std::uint64_t kFrames = 64;

struct FramedFilesTest : ::testing::Test {
  FramedFilesTest() {
    options.backing_directory = backing;
    // Its tables know 4095 files.
    options.frames_bytes = kPageBytes + round_up(kMaxFileEntries * sizeof(FileEntry), kPageBytes) +
                           kPageBytes + kFrames * kPageBytes;
  }
  void SetUp() override {
    auto probe = AddressSpace::open_or_create(path, options);
    if (!probe && probe.error().message.find("userfaultfd") != std::string::npos)
      GTEST_SKIP() << probe.error().message;
    probe.value();
  }
  Space open() { return AddressSpace::open_or_create(path, options).value(); }
  /// The region that receiver `index` knows, made when there is none.
  static std::byte* region_of(AddressSpace& space, std::size_t index = 0) {
    auto& known = receivers_of(space);
    if (known.region(index) == nullptr)
      space.map(known.variable(index), kPages * kPageBytes, kReadWrite).value();
    return known.region(index);
  }
  static void fill(AddressSpace& space, std::byte* region, std::uint64_t salt) {
    for (std::uint64_t page = 0; page < kPages; ++page)
      store_durably(space, word_of(region, page), page + salt);
  }
  static std::uint64_t wrong_pages(std::byte* region, std::uint64_t salt, std::uint64_t first = 0,
                                   std::uint64_t last = kPages) {
    std::uint64_t wrong = 0;
    for (std::uint64_t page = first; page < last; ++page)
      wrong += word_of(region, page) != page + salt ? 1 : 0;
    return wrong;
  }
  std::string refusal(const AddressSpace::Options& with) {
    auto opened = AddressSpace::open_or_create(path, with);
    return opened.ok() ? "opened" : opened.error().message;
  }

  TempDir dir{"/dev/shm/"};
  std::string path = dir / "space";
  std::string backing = dir / "large";
  AddressSpace::Options options = testing::small_space_options();
};

TEST_F(FramedFilesTest, ARegionMayBeLargerThanItsMemory) {
  {
    const Space space = open();
    fill(*space, region_of(*space), 1000);
    EXPECT_EQ(wrong_pages(region_of(*space), 1000), 0u);
  }
  EXPECT_TRUE(std::filesystem::exists(backing + "/1.region"));
  EXPECT_FALSE(std::filesystem::exists(path + "/1.region"));
  // What the directory was made with need not be said again.
  options.backing_directory.clear();
  for (std::uint64_t salt = 1000; salt < 3000; salt += 1000) {
    const Space space = open();
    EXPECT_EQ(wrong_pages(region_of(*space), salt), 0u);
    fill(*space, region_of(*space), salt + 1000);
  }
}

TEST_F(FramedFilesTest, WhatIsAcknowledgedSurvivesTheProcess) {
  for (std::uint64_t round = 1; round <= 3; ++round) {
    EXPECT_EQ(in_child([&] {
                const Space space = open();
                fill(*space, region_of(*space), round * 1000);
                return ::raise(SIGKILL);
              }),
              1000 + SIGKILL);
    EXPECT_EQ(wrong_pages(region_of(*open()), round * 1000), 0u) << round;
  }
}

TEST_F(FramedFilesTest, PartsOfRegionsComeAndGo) {
  {
    const Space space = open();
    std::byte* const region = region_of(*space);
    fill(*space, region, 1);
    space->unmap(region + 100 * kPageBytes, 50 * kPageBytes).value();
    EXPECT_EQ(wrong_pages(region, 1, 0, 100), 0u);
    EXPECT_EQ(wrong_pages(region, 1, 150), 0u);
    fill(*space, region_of(*space, 1), 2);
  }
  {
    const Space space = open();
    EXPECT_EQ(space->regions().size(), 3u);
    std::byte* const region = region_of(*space);
    EXPECT_EQ(wrong_pages(region, 1, 0, 100), 0u);
    EXPECT_EQ(wrong_pages(region, 1, 150), 0u);
    EXPECT_EQ(wrong_pages(region_of(*space, 1), 2), 0u);
    space->unmap(region, kPages * kPageBytes).value();
    EXPECT_FALSE(std::filesystem::exists(backing + "/1.region"));
    EXPECT_EQ(wrong_pages(region_of(*space, 1), 2), 0u);
  }
  const Space space = open();
  EXPECT_EQ(space->regions().size(), 1u);
  EXPECT_EQ(wrong_pages(region_of(*space, 1), 2), 0u);
}

TEST_F(FramedFilesTest, InspectionSeesThePagesInFrames) {
  {
    const Space space = open();
    fill(*space, region_of(*space), 5);
  }
  const auto before = testing::contents_of_directory(path);
  const Space copy = AddressSpace::inspect(path).value();
  std::byte* const region = copy->base() + copy->regions().at(0).begin;
  EXPECT_EQ(wrong_pages(region, 5), 0u);
  EXPECT_EQ(testing::contents_of_directory(path), before);
}

TEST_F(FramedFilesTest, AReadOnlyRegionStaysOne) {
  // The kernel stores only where the program may: a store of ours would end the test.
  std::FILE* const zeroes = std::fopen("/dev/zero", "rb");
  for (int run = 0; run < 2; ++run) {
    const Space space = open();
    auto& known = receivers_of(*space);
    for (const std::size_t index : {0u, 1u}) {
      if (known.region(index) == nullptr)
        space->map(known.variable(index), kPageBytes, index == 0 ? PROT_READ : kReadWrite).value();
      std::uint64_t* const word = &word_of(known.region(index));
      EXPECT_EQ(*word, 0u);
      const ssize_t stored = ::read(::fileno(zeroes), word, sizeof(*word));
      EXPECT_EQ(stored, index == 0 ? -1 : 8) << run;
    }
  }
  std::fclose(zeroes);
}

TEST_F(FramedFilesTest, MistakesAreRefused) {
  AddressSpace::Options other = options;
  other.backing_directory = dir / "other";
  EXPECT_THAT(refusal(other), HasSubstr("backed in " + backing));
  other = options;
  other.pool.domain = DomainKind::kSync;
  EXPECT_THAT(refusal(other), HasSubstr("must be memory"));
  std::filesystem::rename(path + "/frames.pool", path + "/away");
  EXPECT_THAT(refusal(options), HasSubstr("frames.pool"));
  std::filesystem::rename(path + "/away", path + "/frames.pool");
  path = dir / "plain";
  other = options;
  other.backing_directory.clear();
  EXPECT_EQ(refusal(other), "opened");
  EXPECT_THAT(refusal(options), HasSubstr("made without a backing directory"));
}

TEST_F(FramedFilesTest, ACrashWhileItIsMadeIsMadeAgain) {
  path = dir / "next";
  ASSERT_TRUE(std::filesystem::create_directory(path));
  FramedFiles::prepare(path, backing, options.frames_bytes).value();
  EXPECT_EQ(refusal(options), "opened") << "link and frames, no heap";
  path = dir / "third";
  ASSERT_TRUE(std::filesystem::create_directory(path));
  FramePool::create(path + "/frames.pool", {.bytes = options.frames_bytes}).value();
  EXPECT_EQ(refusal(options), "opened");
}

}  // namespace
}  // namespace perdure
