// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/image.h"

#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/base/crc32c.h"
#include "perdure/checkpoint/protocol.h"

namespace perdure::checkpoint {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Bytes = std::vector<unsigned char>;

Geometry small_geometry() {
  Geometry geometry;
  geometry.block_entries = 4;
  geometry.spill_entries = 2;
  geometry.block_slots = 12;
  geometry.page_entries = 3;
  geometry.spill_pages = 1;
  return geometry;
}

Image small_image(std::uint64_t epoch = 7) {
  return {epoch, {{100, 3}, {5, 11}, {0, 0}}, {{9, 3}, {1'000'000, 1}}};
}

Bytes backup_of(const Image& image) {
  Bytes bytes = image.header();
  const Bytes tables = image.tables();
  bytes.insert(bytes.end(), tables.begin(), tables.end());
  return bytes;
}

std::string read(const Bytes& backup, Image& into) {
  return Image::read(backup, small_geometry(), into);
}
std::string read(const Image& image) {
  Image into;
  return read(backup_of(image), into);
}

/// A header whose field at this offset has another value, and whose checksum holds.
Bytes with_field(const Image& image, std::size_t offset, std::uint32_t value) {
  Bytes bytes = backup_of(image);
  std::memcpy(&bytes[offset], &value, 4);
  const std::uint32_t crc = crc32c(bytes.data(), 32);
  std::memcpy(&bytes[32], &crc, 4);
  return bytes;
}

TEST(Image, IsReadAsItWasWritten) {
  for (const Image& image : {small_image(), Image{}, Image{1, {}, {}},
                             Image{~std::uint64_t{0}, {{1, 1}}, {}}, Image{2, {}, {{1, 1}}}}) {
    Image into = {99, {{1, 2}}, {{3, 4}}};
    EXPECT_THAT(read(backup_of(image), into), IsEmpty());
    EXPECT_EQ(into, image);
  }
}

TEST(Image, HasAHeaderOf64BytesAndEightForEachEntry) {
  EXPECT_EQ(small_image().header().size(), 64U);
  EXPECT_EQ(small_image().tables().size(), 5U * 8);
  EXPECT_EQ(small_image().table_bytes(), 5U * 8);
  EXPECT_EQ(Image::most_bytes(small_geometry()), 64 + (4 + 2 + 3 + 1) * 8U);
}

TEST(Image, MayBeFollowedByAnything) {
  Bytes bytes = backup_of(small_image());
  bytes.resize(bytes.size() + 1000, 0xAB);
  Image into;
  EXPECT_THAT(read(bytes, into), IsEmpty());
  EXPECT_EQ(into, small_image());
}

TEST(Image, IsNeverAnotherOneAfterAByteHasChanged) {
  const Bytes good = backup_of(small_image());
  for (std::size_t at = 0; at < good.size(); ++at)
    for (unsigned flip = 1; flip < 256; ++flip) {
      Bytes bytes = good;
      bytes[at] = static_cast<unsigned char>(bytes[at] ^ flip);
      Image into;
      const std::string wrong = read(bytes, into);
      ASSERT_FALSE(wrong.empty()) << "byte " << at << " ^ " << flip;
      ASSERT_EQ(into, Image{}) << "what is refused leaves nothing behind";
    }
}

TEST(Image, IsNeverAnotherOneAfterTwoBytesHaveChangedPlaces) {
  const Bytes good = backup_of(small_image());
  for (std::size_t a = 0; a < good.size(); ++a)
    for (std::size_t b = a + 1; b < good.size(); ++b) {
      Bytes bytes = good;
      std::swap(bytes[a], bytes[b]);
      Image into;
      if (read(bytes, into).empty()) {
        ASSERT_EQ(into, small_image()) << a << " and " << b;
      }
    }
}

TEST(Image, IsRefusedWhenTruncated) {
  const Bytes good = backup_of(small_image());
  for (std::size_t size = 0; size < good.size(); ++size) {
    Image into;
    const std::string wrong = read(Bytes(good.begin(), good.begin() + std::ptrdiff_t(size)), into);
    EXPECT_THAT(wrong, HasSubstr(size < 64 ? "shorter than a header" : "shorter than its tables"));
  }
}

// What a power cut leaves of a checkpoint: any words of the new tables among those of an old one.
// The header is written last.
TEST(Image, IsRefusedWithTablesOfAnotherEpoch) {
  Bytes bytes = small_image().header();
  const Image other = {6, {{100, 3}, {5, 10}, {0, 0}}, {{9, 3}, {1'000'000, 1}}};
  const Bytes tables = other.tables();
  bytes.insert(bytes.end(), tables.begin(), tables.end());
  Image into;
  EXPECT_THAT(read(bytes, into), HasSubstr("tables' checksum"));
}

TEST(Image, IsRefusedWhenForeign) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    Bytes bytes(random() % 300);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    Image into;
    EXPECT_FALSE(read(bytes, into).empty());
  }
  Image into;
  EXPECT_THAT(read(Bytes(200), into), HasSubstr("no backup"));
  EXPECT_THAT(read(Bytes(200, 0xFF), into), HasSubstr("no backup"));
}

TEST(Image, IsRefusedWhenNewer) {
  Image into;
  EXPECT_THAT(read(with_field(small_image(), 8, 2), into), HasSubstr("another version"));
  EXPECT_THAT(read(with_field(small_image(), 8, 0), into), HasSubstr("another version"));
  EXPECT_THAT(read(with_field(small_image(), 8, 1), into),
              IsEmpty());  // with_field() does its work
}

TEST(Image, IsRefusedWithMoreEntriesThanTheTablesHave) {
  Image blocks{1, {}, {}}, pages{1, {}, {}};
  for (std::uint32_t i = 0; i < 6; ++i) blocks.blocks.push_back({i, i});
  for (std::uint32_t i = 0; i < 4; ++i) pages.pages.push_back({i, i});
  EXPECT_THAT(read(blocks), IsEmpty());
  EXPECT_THAT(read(pages), IsEmpty());
  blocks.blocks.push_back({6, 6});
  pages.pages.push_back({4, 4});
  EXPECT_THAT(read(blocks), HasSubstr("more entries"));
  EXPECT_THAT(read(pages), HasSubstr("more entries"));
  // Counts that no memory could hold.
  Image into;
  for (const std::size_t offset : {12, 16})
    EXPECT_THAT(read(with_field(small_image(), offset, ~0U), into), HasSubstr("more entries"));
  // Counts that fit the tables and not these bytes.
  EXPECT_THAT(read(with_field(small_image(), 12, 6), into), HasSubstr("shorter than its tables"));
}

// All with checksums that hold: this is what was written.
TEST(Image, IsRefusedWhenItCannotBeTrue) {
  EXPECT_THAT(read(Image{1, {{1, 12}}, {}}), HasSubstr("a slot is out of range"));
  EXPECT_THAT(read(Image{1, {{1, kNone}}, {}}), HasSubstr("a slot is out of range"));
  EXPECT_THAT(read(Image{1, {}, {{1, 4}}}), HasSubstr("a slot of a page is out of range"));
  EXPECT_THAT(read(Image{1, {}, {{1, kNone}}}), HasSubstr("a slot of a page is out of range"));
  EXPECT_THAT(read(Image{1, {{1, 2}, {2, 2}}, {}}), HasSubstr("used twice"));
  EXPECT_THAT(read(Image{1, {}, {{1, 2}, {2, 2}}}), HasSubstr("used twice"));
  EXPECT_THAT(read(Image{1, {{1, 2}, {1, 3}}, {}}), HasSubstr("a block is named twice"));
  EXPECT_THAT(read(Image{1, {}, {{1, 2}, {1, 3}}}), HasSubstr("a page is named twice"));
  EXPECT_THAT(read(Image{1, {{1, 2}}, {{1, 2}}}), IsEmpty());  // slots of blocks and of pages
  EXPECT_THAT(read(Image{1, {{kNone, 2}}, {}}), HasSubstr("a block lies beyond"));
  EXPECT_THAT(read(Image{1, {}, {{kNone, 2}}}), HasSubstr("a page lies beyond"));
  EXPECT_THAT(read(Image{1, {}, {{1U << 26, 2}}}),
              HasSubstr("a page lies beyond"));  // x 64: block 2^32
}

TEST(Recover, PicksTheNewestCompleteBackup) {
  const Bytes old = backup_of(small_image(7)), young = backup_of(small_image(8));
  Bytes torn = young;
  torn.back() ^= 1;
  Bytes torn_old = old;
  torn_old[0] ^= 1;
  const Bytes none(200), empty;
  struct {
    const Bytes *first, *second;
    int backup;
    std::uint64_t epoch;
  } const cases[] = {
      {&old, &young, 1, 8},      {&young, &old, 0, 8},      {&old, &torn, 0, 7},
      {&torn, &old, 1, 7},       {&young, &torn_old, 0, 8}, {&torn, &torn_old, -1, 0},
      {&none, &empty, -1, 0},    {&none, &young, 1, 8},     {&old, &empty, 0, 7},
      {&torn_old, &young, 1, 8},
  };
  for (const auto& each : cases) {
    const Recovered found = recover(*each.first, *each.second, small_geometry());
    EXPECT_EQ(found.backup, each.backup) << &each - cases;
    EXPECT_EQ(found.image, each.backup < 0 ? Image{} : small_image(each.epoch)) << &each - cases;
  }
}

TEST(Recover, TakesABackupOfEpoch0ForNone) {
  EXPECT_EQ(recover(backup_of(Image{}), backup_of(Image{}), small_geometry()).backup, -1);
}

}  // namespace
}  // namespace perdure::checkpoint
