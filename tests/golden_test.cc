// Pools of released formats open for ever. Each file in tests/golden/ is the image of one, as text: a line per run of
// words that are not zero, "byte offset: word word …" in hexadecimal.
//
// A new format version gets a new file: PERDURE_WRITE_GOLDEN=FILE golden_test --gtest_filter=*Written
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "perdure/type_id.h"
#include "tests/small_pool.h"

namespace perdure::golden {

// The names are part of the files: a root remembers its type's.
struct Entry {
  std::uint64_t key;
  std::array<char, 16> text;
  perdure::link<Entry> next;
};
struct Ledger {
  std::uint64_t entries;
  std::uint32_t year;
  std::uint16_t month;
  std::uint8_t day;
  std::uint8_t closed;
  perdure::link<Entry> first;
  perdure::link<std::uint64_t> large;  // 30,000 bytes
  perdure::link<std::uint64_t> huge;   // 200,000 bytes
};

constexpr Geometry kGeometry = {std::uint64_t{1} << 20, std::uint64_t{128} << 10, kPageBytes, 2, 4};
constexpr std::uint64_t kClosed = 40;  // entries written home
constexpr std::uint64_t kLogged = 5;   // entries that only the log holds

void add(Pool& pool, Ledger* ledger, std::uint64_t key) {
  pool.atomically([&](Tx& tx) {
    auto* entry = static_cast<Entry*>(tx.allocate(sizeof(Entry)));
    Entry value{key, {}, {tx.load(ledger->first.offset)}};
    const std::string text = "entry " + std::to_string(key);
    std::copy(text.begin(), text.end(), value.text.begin());
    tx.write(entry, &value, sizeof(value));
    tx.store(ledger->first.offset, tx.link_to(entry).offset);
    tx.store(ledger->entries, tx.load(ledger->entries) + 1);
  });
}

testing::Image make() {
  testing::Image image = testing::Image::formatted(kGeometry);
  std::optional<Pool> pool(image.pool().value());
  auto* ledger = pool->root<Ledger>("ledger");
  pool->atomically([&](Tx& tx) {
    tx.store(ledger->year, 2011u);
    tx.store(ledger->month, std::uint16_t{3});
    tx.store(ledger->day, std::uint8_t{5});
    auto* large = static_cast<std::uint64_t*>(tx.allocate(30000));
    auto* huge = static_cast<std::uint64_t*>(tx.allocate(200000));
    tx.store(large[3749], 17);
    tx.store(huge[24999], 18);
    tx.store(ledger->large.offset, tx.link_to(large).offset);
    tx.store(ledger->huge.offset, tx.link_to(huge).offset);
  });
  for (std::uint64_t key = 0; key < kClosed; ++key) add(*pool, ledger, key);
  pool->checkpoint();
  for (std::uint64_t key = kClosed; key < kClosed + kLogged; ++key) add(*pool, ledger, key);
  pool->atomically([&](Tx& tx) { tx.store(ledger->closed, std::uint8_t{1}); });
  return testing::Image(image);  // as a kill leaves it
}

void write(testing::Image& image, const std::string& path) {
  std::ofstream out(path);
  out << "# A pool of format version " << image.super().version << "; see tests/golden_test.cc.\n" << std::hex;
  for (Offset at = 0; at < image.bytes(); at += kWordBytes) {
    if (image.word(at) == 0) continue;
    out << at << ":";
    for (; at < image.bytes() && image.word(at) != 0; at += kWordBytes) out << " " << image.word(at);
    out << "\n";
  }
}

testing::Image read(const std::string& path) {
  testing::Image image(kGeometry.capacity_bytes);
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    words >> std::hex;
    Offset at = 0;
    char colon = 0;
    words >> at >> colon;
    for (Word word = 0; words >> word; at += kWordBytes) image.word(at) = word;
  }
  return image;
}

void expect_ledger(Pool& pool) {
  const auto* ledger = pool.find_root<Ledger>("ledger");
  ASSERT_NE(ledger, nullptr);
  pool.read_only([&](Tx& tx) {
    EXPECT_EQ(tx.load(ledger->entries), kClosed + kLogged);
    EXPECT_EQ(tx.load(ledger->year), 2011u);
    EXPECT_EQ(tx.load(ledger->month), 3u);
    EXPECT_EQ(tx.load(ledger->day), 5u);
    EXPECT_EQ(tx.load(ledger->closed), 1u);
    EXPECT_EQ(tx.load(tx.at(ledger->large)[3749]), 17u);
    EXPECT_EQ(tx.load(tx.at(ledger->huge)[24999]), 18u);
    std::uint64_t key = kClosed + kLogged;
    for (perdure::link<Entry> at = ledger->first; at; at = tx.at(at)->next) {
      EXPECT_EQ(tx.load(tx.at(at)->key), --key);
      EXPECT_EQ(std::string(tx.at(at)->text.data()), "entry " + std::to_string(key));
    }
    EXPECT_EQ(key, 0u);
  });
  EXPECT_EQ(pool.core().heap().usage().objects, 3 + kClosed + kLogged);
}

TEST(Golden, APoolOfFormatVersion1Opens) {
  testing::Image image = read(PERDURE_SOURCE_DIR "/tests/golden/pool_v1.txt");
  auto pool = image.pool();
  ASSERT_TRUE(pool.ok()) << pool.error().message;
  EXPECT_EQ(pool->recovery().records_replayed, kLogged + 1);
  expect_ledger(pool.value());
  add(pool.value(), pool->root<Ledger>("ledger"), 1000);
  EXPECT_EQ(pool->find_root<Ledger>("ledger")->entries, kClosed + kLogged + 1);
}

TEST(Golden, TheFilesHoldWhatIsWrittenToday) {
  testing::Image image = make();
  const std::string path = ::testing::TempDir() + "golden_test.pool.txt";
  write(image, path);
  EXPECT_TRUE(read(path) == image) << "the text form keeps every word";
  std::remove(path.c_str());
  Pool pool = image.pool().value();
  expect_ledger(pool);
}

// Files written by a program of one compiler are opened by those of another.
TEST(Golden, TypesHaveOneNumberWhateverTheCompiler) {
  EXPECT_EQ(type_id<std::uint64_t>(), 0x0u);
  EXPECT_EQ(type_id<std::int16_t>(), 0x0u);
  EXPECT_EQ((type_id<std::array<std::uint64_t, 4>>()), 0x0u);
  EXPECT_EQ(type_id<perdure::link<std::uint32_t>>(), 0x0u);
  EXPECT_EQ(type_id<Ledger>(), 0x0u);
}

TEST(Golden, Written) {
  const char* path = std::getenv("PERDURE_WRITE_GOLDEN");
  if (path == nullptr) GTEST_SKIP() << "PERDURE_WRITE_GOLDEN names no file";
  testing::Image image = make();
  write(image, path);
}

}  // namespace perdure::golden
