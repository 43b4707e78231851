// SPDX-License-Identifier: BSD-3-Clause
// A pool as each version of the format wrote it, left by a killed process, must open for ever. The
// images are text, so that a change of the format shows in their diff.
//
// After a deliberate change of the format: bump kFormatVersion, keep the old images and their test,
//   and write a new one: PERDURE_WRITE_GOLDEN=tests/golden/v5.txt build/dev/tests/tests_test
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "tests/small_pool.h"

namespace golden {

struct Record {
  std::uint32_t number;
  double price;
  perdure::pptr<Record> next;
};

struct Shelf {
  std::array<std::uint8_t, 5> bytes;
  perdure::pptr<Record> first;
  perdure::string name;
  perdure::vector<std::uint64_t> numbers;
};

using Words = perdure::hash_map<perdure::bytes, perdure::bytes>;
using Prices = perdure::btree_map<std::uint64_t, double>;

}  // namespace golden

namespace perdure {
namespace {

using golden::Prices;
using golden::Record;
using golden::Shelf;
using golden::Words;
using testing::Image;

std::string image_of_version(std::uint32_t version) {
  return PERDURE_SOURCE_DIR "/tests/golden/v" + std::to_string(version) + ".txt";
}

/// Lines "offset: 64 bytes in hexadecimal"; what is missing is zero.
void write_image(Image& image, const std::string& path) {
  std::ofstream out(path);
  for (Offset line = 0; line < image.bytes(); line += kLineBytes) {
    std::array<Word, 8> words{};
    std::memcpy(words.data(), image.base() + line, kLineBytes);
    if (words == std::array<Word, 8>{}) continue;
    out << std::hex << line << ':';
    for (const Word word : words) out << ' ' << word;
    out << '\n';
  }
}

Image read_image(const std::string& path) {
  Image image(testing::kSmallGeometry.capacity_bytes);
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    Offset offset = 0;
    char colon = 0;
    fields >> std::hex >> offset >> colon;
    for (Offset at = offset; at < offset + kLineBytes; at += kWordBytes)
      fields >> std::hex >> image.word(at);
    EXPECT_TRUE(fields) << line;
  }
  return image;
}

/// Some of everything. The last two transactions stay in the log.
Image make_image() {
  Image image = Image::formatted();
  Pool pool = image.pool().value();
  auto* words = pool.root<Words>("words");
  auto* prices = pool.root<Prices>("prices");
  auto* shelf = pool.root<Shelf>("shelf");
  pool.atomically([&](Tx& tx) {
    words->use_seed(tx, 42);
    for (int i = 0; i < 100; ++i)
      words->put(tx, "word " + std::to_string(i), std::string(static_cast<std::size_t>(i), 'x'));
    words->erase(tx, "word 50");
    for (std::uint64_t i = 0; i < 100; ++i) prices->put(tx, i * 7, static_cast<double>(i) / 4);
    for (std::uint64_t i = 0; i < 20; ++i) shelf->numbers.push_back(tx, i * i);
  });
  pool.checkpoint();
  pool.atomically([&](Tx& tx) {
    auto* record = static_cast<Record*>(tx.allocate(sizeof(Record)));
    tx.store(record->number, 7u);
    tx.store(record->price, 2.5);
    tx.store(record->next, pptr<Record>{});
    tx.store(shelf->first, tx.link_to(record));
  });
  pool.atomically([&](Tx& tx) {
    tx.store(shelf->bytes[3], std::uint8_t{0xab});
    shelf->name.assign(tx, "the shelf of a golden pool");
  });
  return Image(image);  // a copy, from before the pool closes: what a killed process leaves
}

void expect_contents(Pool& pool) {
  auto* words = pool.find_root<Words>("words");
  auto* prices = pool.find_root<Prices>("prices");
  auto* shelf = pool.find_root<Shelf>("shelf");
  ASSERT_NE(words, nullptr);
  ASSERT_NE(prices, nullptr);
  ASSERT_NE(shelf, nullptr);
  pool.read_only([&](Tx& tx) {
    EXPECT_EQ(words->size(tx), 99u);
    for (int i = 0; i < 100; ++i) {
      const auto found = words->get(tx, "word " + std::to_string(i));
      ASSERT_EQ(found.has_value(), i != 50) << i;
      EXPECT_EQ(found.value_or(""), i == 50 ? "" : std::string(static_cast<std::size_t>(i), 'x'));
    }
    for (std::uint64_t i = 0; i < 100; ++i)
      EXPECT_EQ(prices->get(tx, i * 7), static_cast<double>(i) / 4);
    EXPECT_EQ(shelf->numbers.size(tx), 20u);
    EXPECT_EQ(shelf->numbers.at(tx, 19), 19u * 19u);
    EXPECT_EQ(tx.load(shelf->bytes[3]), 0xab);
    EXPECT_EQ(shelf->name.str(tx), "the shelf of a golden pool");
    const Record* record = tx.at(tx.load(shelf->first));
    EXPECT_EQ(tx.load(record->number), 7u);
    EXPECT_EQ(tx.load(record->price), 2.5);
    EXPECT_FALSE(tx.load(record->next));
  });
}

TEST(Golden, EveryVersionOpensAndHoldsWhatItHeld) {
  for (std::uint32_t version = kOldestFormatVersion; version <= kFormatVersion; ++version) {
    SCOPED_TRACE(version);
    Image image = read_image(image_of_version(version));
    ASSERT_EQ(image.super().version, version);
    Pool pool = image.pool().value();
    EXPECT_EQ(pool.recovery().records_replayed, 2u);
    expect_contents(pool);
  }
}

/// What its release could not read is not written into a pool of an older version.
TEST(Golden, NothingIsInitialisedInPlaceBeforeVersion2) {
  for (std::uint32_t version = kOldestFormatVersion; version <= kFormatVersion; ++version) {
    Image image = read_image(image_of_version(version));
    Pool pool = image.pool().value();
    pool.atomically([&](Tx& tx) {
      void* const object = tx.allocate(2000);
      EXPECT_EQ(tx.in_place().size(), version < kInPlaceSinceVersion ? 0u : 1u);
      tx.free(object);
    });
    EXPECT_EQ(image.super().version, version);
  }
}
TEST(Golden, NoRingIsALineLogBeforeVersion3) {
  for (std::uint32_t version = kOldestFormatVersion; version <= kFormatVersion; ++version) {
    Image image = read_image(image_of_version(version));
    Pool pool = image.pool().value();
    auto* shelf = pool.find_root<Shelf>("shelf");
    pool.atomically([&](Tx& tx) { tx.store(shelf->bytes[0], std::uint8_t{1}); });
    const Word head = image.word(image.super().head_offset);
    EXPECT_EQ(unseal(head, kSaltLineHead).has_value(), version >= kLinesSinceVersion) << version;
    EXPECT_EQ(unseal(head, kSaltHead).has_value(), version < kLinesSinceVersion) << version;
    const Image killed(image);
    Image again(killed);
    Pool reopened = again.pool().value();
    EXPECT_EQ(reopened.recovery().records_replayed, 1u);
    expect_contents(reopened);
  }
}

/// Written down from gcc and from clang; tests/compile_fail asks both.
TEST(Golden, TypesHaveTheNumbersThatPoolsHold) {
  EXPECT_EQ(type_id<std::uint64_t>(), 0x8e216328d7648a3au);
  EXPECT_EQ((type_id<hash_map<unsigned long, long>>()), 0x9dab15ef1a27fc3fu);
  EXPECT_EQ(type_id<Words>(), 0x92f89821adb2fbafu);
  EXPECT_EQ(type_id<pptr<Words>>(),
            type_id_of("perdure::link<" + std::string(type_name<Words>()) + ">", 8))
      << "what is now pptr was called link when pools were written first";
}

TEST(Golden, WhatThisReleaseWritesIsTheNewestVersion) {
  Image image = make_image();
  if (const char* path = std::getenv("PERDURE_WRITE_GOLDEN")) write_image(image, path);
  Image golden = read_image(image_of_version(kFormatVersion));
  // Only the identity differs, and the checksum over it.
  for (const auto& [begin, bytes] :
       {std::pair{offsetof(Superblock, uuid), sizeof(Superblock::uuid)},
        {offsetof(Superblock, crc), sizeof(Superblock::crc)}}) {
    for (const Offset copy : {Offset{0}, kSecondSuperblockOffset})
      std::memcpy(image.base() + copy + begin, golden.base() + copy + begin, bytes);
  }
  for (Offset at = 0; at < image.bytes(); at += kWordBytes)
    ASSERT_EQ(image.word(at), golden.word(at)) << "byte " << at;
}

}  // namespace
}  // namespace perdure
