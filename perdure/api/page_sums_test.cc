// SPDX-License-Identifier: BSD-3-Clause
// Checksums of pages at rest: what they find, and that they never claim what a legal life of a pool has
// left.
#include "perdure/region/page_sums.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/api/raise_limits.h"
#include "perdure/api/scrub.h"
#include "perdure/perdure.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

constexpr std::uint64_t kSlots = 4096;
struct Page {
  std::array<std::uint64_t, kPageBytes / kWordBytes> words;
};
using Pages = std::array<Page, kSlots>;  // 16 MiB, so several areas

class PageSumsTest : public ::testing::TestWithParam<DomainKind> {
 protected:
  ExpertOptions options() const {
    ExpertOptions options;
    options.domain = GetParam();
    options.capacity_bytes = std::uint64_t{256} << 20;
    options.ring_bytes = 64 << 10;
    options.log_slots = 2;
    return options;
  }
  Pool open() const { return Pool::open_or_create(path, options()).value(); }
  static void put(Pool& pool, std::uint64_t slot, std::uint64_t value) {
    Pages* pages = pool.root<Pages>("pages");
    pool.atomically([&](Tx& tx) { tx.store((*pages)[slot].words[0], value); });
  }
  /// Several pages in each of the areas.
  void make() const {
    Pool pool = open();
    for (std::uint64_t slot = 0; slot < kSlots; slot += 64) put(pool, slot, slot + 1);
  }
  PageSumsReport scrubbed() const { return scrub_pool(path).value(); }
  void expect_no_damage() const {
    const PageSumsReport report = scrubbed();
    for (const auto& damage : report.damage) ADD_FAILURE() << damage.what();
  }
  void expect_at_rest() const {
    const PageSumsReport report = scrubbed();
    EXPECT_GT(report.areas, 3u);
    EXPECT_EQ(report.areas_at_rest, report.areas);
    EXPECT_TRUE(report.damage.empty());
  }
  void flip(Offset byte, unsigned bit = 0) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(byte));
    const int was = file.get();
    file.seekp(static_cast<std::streamoff>(byte));
    file.put(static_cast<char>(was ^ (1 << bit)));
  }

  std::string bytes_at(Offset offset, std::size_t count) const {
    std::ifstream file(path, std::ios::binary);
    std::string found(count, '\0');
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(found.data(), static_cast<std::streamsize>(count));
    return found;
  }
  void put_bytes(Offset offset, const std::string& bytes) const {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  testing::TempDir directory;
  const std::string path = directory / "a.pool";
};

TEST_P(PageSumsTest, AClosedPoolIsAtRest) {
  make();
  expect_at_rest();
}

TEST_P(PageSumsTest, AFlippedBitIsFoundWhereverItIs) {
  make();
  const Superblock super = Region::read_superblock(path).value();
  const std::uint64_t end = std::filesystem::file_size(path);
  std::mt19937_64 random(7);
  for (Offset page = super.heap_offset; page < end; page += 397 * kPageBytes) {
    const Offset byte = page + random() % kPageBytes;
    const auto bit = static_cast<unsigned>(random() % 8);
    flip(byte, bit);
    const PageSumsReport report = scrubbed();
    ASSERT_EQ(report.damage.size(), 1u) << byte;
    EXPECT_EQ(report.damage[0].offset, page);
    EXPECT_EQ(report.damage[0].bytes, kPageBytes);
    EXPECT_FALSE(report.damage[0].in_sums);
    flip(byte, bit);
  }
  // Neighbours are told as one.
  flip(super.heap_offset + 5 * kPageBytes);
  flip(super.heap_offset + 6 * kPageBytes);
  const PageSumsReport both = scrubbed();
  ASSERT_EQ(both.damage.size(), 1u);
  EXPECT_EQ(both.damage[0].offset, super.heap_offset + 5 * kPageBytes);
  EXPECT_EQ(both.damage[0].bytes, 2 * kPageBytes);
}

TEST_P(PageSumsTest, ALostRootIsNotTakenForOneThatWasNeverMade) {
  const Offset table = 2 * kPageBytes;
  constexpr std::size_t kSector = 512;
  constexpr std::size_t kRoots = 2 * kSector / sizeof(RootEntry);
  make();
  const std::string before = bytes_at(table, 2 * kSector);
  {
    Pool pool = open();
    for (std::size_t i = 1; i < kRoots; ++i) pool.root<std::uint64_t>("root " + std::to_string(i));
  }
  expect_at_rest();
  const std::string sound = bytes_at(table, 2 * kSector);
  for (const Offset sector : {table, table + kSector}) {
    for (const std::string& as :
         {std::string(kSector, '\0'), before.substr(sector - table, kSector)}) {
      put_bytes(sector, as);
      const auto opened = Pool::open(path, options());
      ASSERT_FALSE(opened.ok());
      EXPECT_EQ(opened.error().code, Code::kCorrupt);
      EXPECT_NE(opened.error().message.find("byte 8192"), std::string::npos)
          << opened.error().message;
      EXPECT_EQ(Pool::inspect(path).error().code, Code::kCorrupt);
      EXPECT_EQ(scrubbed().damage.size(), 1u);
      put_bytes(table, sound);
    }
  }
  // Roots that are made or taken away before a kill are no damage.
  for (std::size_t i = 1; i < kRoots; i += 5) {
    EXPECT_EQ(testing::in_child([&] {
                Pool pool = open();
                pool.atomically(
                    [&](Tx& tx) { core_of(pool).remove_root(tx, "root " + std::to_string(i)); });
                if (i % 2 == 0) pool.checkpoint();
                ::_exit(7);
                return 0;
              }),
              7);
    expect_no_damage();
    Pool pool = open();
    EXPECT_EQ(pool.read_only([&](Tx& tx) { return core_of(pool).roots(tx).size(); }),
              kRoots - i / 5 - 1);
  }
  expect_at_rest();
}

TEST_P(PageSumsTest, DamagedSumsAreNotTakenForDamagedPages) {
  make();
  const Superblock super = Region::read_superblock(path).value();
  const Section words = area_words_of(super);
  const std::uint64_t area = super.heap_offset / kAreaBytes + 1;
  for (const Offset byte :
       {words.begin + area * kWordBytes + 3, words.begin + area * kWordBytes + 6,
        words.end() + area * kPageBytes + 1000}) {
    flip(byte);
    const PageSumsReport report = scrubbed();
    ASSERT_EQ(report.damage.size(), 1u) << byte;
    EXPECT_TRUE(report.damage[0].in_sums);
    flip(byte);
  }
  expect_at_rest();
  flip(words.end() + area * kPageBytes);
  complete_sums(path).value();
  expect_at_rest();
}

TEST_P(PageSumsTest, WhatIsWrittenIsOpenUntilThePoolIsClosed) {
  make();
  const std::uint64_t areas = scrubbed().areas;
  {
    Pool pool = open();
    put(pool, kSlots / 2, 77);
    pool.checkpoint();
    const PageSumsReport report = scrubbed();
    EXPECT_TRUE(report.damage.empty());
    // On memory nobody knows where a program stores.
    EXPECT_EQ(report.areas_at_rest, GetParam() == DomainKind::kSync ? areas - 1 : 0);
  }
  expect_at_rest();
}

TEST_P(PageSumsTest, DamageBesideWhatIsWrittenIsFound) {
  if (GetParam() != DomainKind::kSync) GTEST_SKIP() << "on memory all that is open is read again";
  make();
  const Offset page = Region::read_superblock(path).value().heap_offset + 2 * kAreaBytes;
  {
    Pool pool = open();
    for (std::uint64_t slot = 0; slot < kSlots; slot += 64) put(pool, slot + 1, slot);
    pool.checkpoint();
    flip(page + 999);
  }
  const PageSumsReport report = scrubbed();
  EXPECT_EQ(report.areas_at_rest, report.areas);
  ASSERT_EQ(report.damage.size(), 1u);
  EXPECT_EQ(report.damage[0].offset, page);
}

TEST_P(PageSumsTest, AnOpenThatChangesNothingOpensNothing) {
  make();
  {
    Pool pool = open();
    pool.read_only(
        [&](Tx& tx) { EXPECT_EQ(tx.load((*pool.root<Pages>("pages"))[64].words[0]), 65u); });
    if (GetParam() == DomainKind::kSync) expect_at_rest();
  }
  expect_at_rest();
}

TEST_P(PageSumsTest, AKillNeverLooksLikeDamage) {
  make();
  std::mt19937_64 random(3);
  for (int life = 0; life < 12; ++life) {
    const std::uint64_t seed = random();
    EXPECT_EQ(testing::in_child([&] {
                std::mt19937_64 mine(seed);
                Pool pool = open();
                for (std::uint64_t i = mine() % 200; i > 0; --i) {
                  put(pool, mine() % kSlots, mine());
                  if (mine() % 64 == 0) pool.checkpoint();
                }
                ::_exit(7);  // as SIGKILL does
                return 0;
              }),
              7);
    expect_no_damage();
    if (life % 3 == 0) {
      {
        const Pool closed = open();
      }
      expect_at_rest();
    }
  }
}

TEST_P(PageSumsTest, AnotherDomainMayWriteThePool) {
  make();
  for (const DomainKind other : {DomainKind::kAdr, DomainKind::kSync, DomainKind::kDram}) {
    ExpertOptions as_other = options();
    as_other.domain = other;
    EXPECT_EQ(testing::in_child([&] {
                Pool pool = Pool::open(path, as_other).value();
                for (std::uint64_t slot = 0; slot < kSlots; slot += 512) put(pool, slot, slot + 2);
                pool.checkpoint();
                ::_exit(7);
                return 0;
              }),
              7);
    expect_no_damage();
    {
      Pool pool = Pool::open(path, as_other).value();
      put(pool, 9, 9);
    }
    expect_at_rest();
  }
}

TEST_P(PageSumsTest, APoolThatGrowsOrRaisesItsLimitsStaysSound) {
  make();
  ExpertOptions larger = options();
  larger.capacity_bytes *= 4;
  larger.log_slots = 9;
  raise_limits(path, larger).value();
  expect_no_damage();
  {
    Pool pool = Pool::open(path, larger).value();
    auto* map = pool.root<hash_map<std::uint64_t, bytes>>("map");
    for (std::uint64_t i = 0; i < 2000; ++i)
      pool.atomically(Durability::kRelaxed,
                      [&](Tx& tx) { map->put(tx, i, std::string(5000, 'x')); });
  }
  expect_at_rest();
  larger.root_entries =
      4000;  // so that the table of roots moves, and later into the space of another
  raise_limits(path, larger).value();
  larger.root_entries = 9000;
  raise_limits(path, larger).value();
  expect_no_damage();
  {
    Pool pool = Pool::open(path, larger).value();
    put(pool, 3, 4);
  }
  expect_at_rest();
}

TEST_P(PageSumsTest, DamageUnderARunningProgramIsTold) {
  make();
  ExpertOptions scrubbing = options();
  scrubbing.scrub = Milliseconds(10);
  Pool pool = Pool::open(path, scrubbing).value();
  const Scrubber* const scrubber = core_of(pool).scrubber();
  if (GetParam() != DomainKind::kSync) {
    EXPECT_EQ(scrubber, nullptr) << "on memory nothing rests while it is open";
    return;
  }
  const auto after_a_look = [&] {
    const std::uint64_t looks = scrubber->looks();
    while (scrubber->looks() < looks + 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return pool.damage();
  };
  EXPECT_EQ(after_a_look(), "");
  put(pool, 0, 5);
  pool.checkpoint();
  EXPECT_EQ(after_a_look(), "");
  const Offset far = Region::read_superblock(path).value().heap_offset + 3 * kAreaBytes;
  flip(far);
  EXPECT_NE(after_a_look().find("byte " + std::to_string(far / kPageBytes * kPageBytes)),
            std::string::npos);
  put(pool, 1, 6);
}

INSTANTIATE_TEST_SUITE_P(Domains, PageSumsTest,
                         ::testing::Values(DomainKind::kSync, DomainKind::kAdr),
                         [](const auto& of) { return std::string(domain_name(of.param)); });

/// A region without a program on it, whose areas are written and rest.
class AreasTest : public ::testing::Test {
 protected:
  AreasTest() {
    Region::CreateOptions options{
        .geometry = {std::uint64_t{64} << 20, std::uint64_t{4} << 20, kPageBytes, 1, 4},
        .initial_segments = 8};
    options.domain = DomainKind::kSync;
    Region::create_file(path, options).value();
    region = Region::open_file(path, DomainKind::kSync, Region::Access::kReadWrite).value();
    device.emplace(*region);
    first = region->superblock().heap_offset / kAreaBytes + 1;
  }
  /// A page of the n-th area that is heap as a whole.
  void write(std::uint64_t area, std::uint64_t page, char with) {
    alignas(kPageBytes) std::array<char, kPageBytes> bytes;
    bytes.fill(with);
    ASSERT_TRUE(
        device->write((first + area) * kAreaBytes + page * kPageBytes, bytes.data(), bytes.size()));
  }
  PageSumsReport report() const { return region->check_sums().value(); }

  testing::TempDir directory;
  const std::string path = directory / "a.pool";
  std::unique_ptr<Region> region;
  std::optional<RegionDevice> device;
  std::uint64_t first = 0;
};

TEST_F(AreasTest, AQuietAreaComesToRest) {
  PageSums& sums = *region->sums();
  sums.rest(~std::uint64_t{0});
  const std::uint64_t all = report().areas_at_rest;
  EXPECT_EQ(all, report().areas);
  write(0, 1, 'a');
  write(2, 1, 'a');
  EXPECT_EQ(report().areas_at_rest, all - 2);
  sums.rest_quiet(64);  // looks
  write(2, 1, 'b');
  sums.rest_quiet(64);
  EXPECT_EQ(report().areas_at_rest, all - 1) << "the other one was written since";
  sums.rest_quiet(64);
  EXPECT_EQ(report().areas_at_rest, all);
  EXPECT_TRUE(report().damage.empty());
}

TEST_F(AreasTest, WhatIsWrittenInAnyOrderIsSummedUp) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 40; ++i) write(random() % 5, random() % 1024, static_cast<char>(random()));
    if (round % 3 == 0) {
      EXPECT_TRUE(region->sums()->rest(~std::uint64_t{0}));
    } else {
      region->sums()->rest_quiet(64);
    }
    EXPECT_TRUE(report().damage.empty());
  }
}

TEST_F(AreasTest, WhatACrashLeftOpenComesToRest) {
  PageSums& sums = *region->sums();
  EXPECT_EQ(report().areas_at_rest, 0u);
  sums.rest_quiet(64);
  EXPECT_EQ(report().areas_at_rest, report().areas);
}

TEST_F(AreasTest, WhereSumsCannotBeWrittenAreasStayOpen) {
  ASSERT_TRUE(region->sums()->rest(~std::uint64_t{0}));
  const std::uint64_t all = report().areas_at_rest;
  write(2, 1, 'a');
  // As on a device that is full: the words have their blocks, the sums have none.
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const ::rlimit narrow{area_words_of(region->superblock()).end(), before.rlim_max};
  const auto as_ever = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &narrow), 0);
  const bool rested = region->sums()->rest(~std::uint64_t{0});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, as_ever);
  EXPECT_FALSE(rested);
  EXPECT_EQ(report().areas_at_rest, all - 1);
  EXPECT_TRUE(report().damage.empty());
  EXPECT_TRUE(region->sums()->rest(~std::uint64_t{0}));
  EXPECT_EQ(report().areas_at_rest, all);
  EXPECT_TRUE(report().damage.empty());
}

TEST_F(AreasTest, RestTakesWhatWasWrittenFirst) {
  write(3, 0, 'a');
  region->sums()->rest(kAreaBytes);
  EXPECT_EQ(report().areas_at_rest, 1u);
  write(3, 0, 'b');
  EXPECT_EQ(report().areas_at_rest, 0u);
}

TEST_F(AreasTest, SeveralPiecesAreExpectedTogether) {
  region->sums()->rest(~std::uint64_t{0});
  const std::vector<PageSums::Range> pieces = {
      {(first + 1) * kAreaBytes, (first + 1) * kAreaBytes + kPageBytes},
      {(first + 4) * kAreaBytes - kPageBytes, (first + 4) * kAreaBytes + kPageBytes}};
  ASSERT_TRUE(device->expect(pieces));
  EXPECT_EQ(report().areas_at_rest, report().areas - 3);
}

TEST_F(AreasTest, WritersAndThoseWhoLookNeverDisagree) {
  region->sums()->rest(~std::uint64_t{0});
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (unsigned t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      RegionDevice mine(*region);
      alignas(kPageBytes) std::array<char, kPageBytes> bytes;
      while (!stop) {
        bytes.fill(static_cast<char>(random()));
        const std::uint64_t area = random() % 3 + 3 * t;
        const Offset at = (first + area) * kAreaBytes + random() % 1000 * kPageBytes;
        ASSERT_TRUE(mine.write(at, bytes.data(), bytes.size()));
        if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  std::thread rester([&] {
    while (!stop) region->sums()->rest_quiet(64);
  });
  for (int i = 0; i < (testing::kSanitized ? 20 : 60); ++i) {
    const PageSumsReport seen = scrub_pool(path).value();
    for (const auto& damage : seen.damage) ADD_FAILURE() << damage.what();
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  rester.join();
  region->sums()->rest(~std::uint64_t{0});
  EXPECT_EQ(report().areas_at_rest, report().areas);
  EXPECT_TRUE(report().damage.empty());
}

TEST(OldPools, HaveNoSums) {
  Superblock old{};
  old.version = kPageSumsSinceVersion - 1;
  EXPECT_EQ(page_sums_of(old).bytes, 0u);
  const PageSumsReport report =
      check_page_sums(old, 0, [](Offset, std::byte*, std::uint64_t) -> Result<void> {
        return Error{Code::kIo, "nothing is to be read"};
      }).value();
  EXPECT_EQ(report.areas, 0u);
}

}  // namespace
}  // namespace perdure
