// SPDX-License-Identifier: BSD-3-Clause
// Files from anywhere: every single damaged bit, every truncation, every version. Whatever is done
// to a pool, opening and using it gives either the data or a clean error, and damage of the
// metadata is always noticed.
#include <fstream>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "perdure/base/crc32c.h"
#include "perdure/expert.h"
#include "perdure/heap/layout.h"
#include "tests/small_pool.h"
#include "tests/specimen.h"

namespace perdure {
namespace {

using testing::Image;
using testing::kLastNumber;
using testing::make_specimen;
using testing::TempDir;

enum class Outcome {
  kIntact,   // everything is there
  kOlder,    // a consistent state, without the last transactions
  kRefused,  // an Error or an Exception
  kWrong,    // something else was shown as if it were the data
};

struct HostileTest : ::testing::Test {
  /// Opens what `scratch` holds now and uses it; then restores it.
  Outcome outcome(std::string* message = nullptr) {
    const Outcome found = [&] {
      try {
        auto pool = scratch.pool(6);
        if (!pool) throw Exception(pool.error());
        const auto number = testing::walk(pool.value());
        if (!number) return Outcome::kWrong;
        if (*number == kLastNumber) return Outcome::kIntact;
        return *number >= 100 && *number < kLastNumber ? Outcome::kOlder : Outcome::kWrong;
      } catch (const Exception& refused) {
        last_code = refused.code();
        if (message != nullptr) *message = refused.what();
        EXPECT_GT(std::strlen(refused.what()), 20u) << "an error says what is wrong and where";
        return Outcome::kRefused;
      }
    }();
    scratch = specimen;
    return found;
  }
  /// Flips every bit of the word at each offset, one at a time, and counts what comes of it.
  std::map<Outcome, int> flip_every_bit(const std::set<Offset>& words) {
    std::map<Outcome, int> outcomes;
    for (const Offset at : words) {
      for (int bit = 0; bit < 64; ++bit) {
        scratch.word(at) ^= Word{1} << bit;
        const Outcome found = outcome();
        ++outcomes[found];
        if (found == Outcome::kWrong)
          ADD_FAILURE() << "byte " << at << ", bit " << bit << " goes unnoticed";
        if (HasFailure()) return outcomes;
      }
    }
    return outcomes;
  }
  std::set<Offset> range(Offset from, std::uint64_t bytes) const {
    std::set<Offset> words;
    for (Offset at = from; at < from + bytes; at += kWordBytes) words.insert(at);
    return words;
  }
  /// Class words and used bitmap words of all segments of blocks, and the segment table.
  std::set<Offset> heap_metadata() {
    std::set<Offset> words;
    const std::uint64_t blocks = heap_layout::blocks_per_segment(super.geometry);
    const std::uint64_t segments =
        (*unseal(specimen.word(kStateOffset), kSaltGrown) - super.heap_offset) /
        super.geometry.segment_bytes;
    for (std::uint64_t s = 0; s < segments; ++s) {
      const Offset table_word = super.segment_table_offset + s * kWordBytes;
      words.insert(table_word);
      if (specimen.word(table_word) != heap_layout::segment_word(heap_layout::SegmentKind::kBlocks))
        continue;
      const Offset base = super.heap_offset + s * super.geometry.segment_bytes;
      for (std::uint64_t b = 0; b < blocks; ++b) {
        const Offset class_word = base + b * kWordBytes;
        words.insert(class_word);
        const std::uint64_t payload = *unseal(specimen.word(class_word), kSaltBlock);
        if (heap_layout::kind_of(payload) !=
            static_cast<std::uint8_t>(heap_layout::BlockKind::kSmall))
          continue;
        const std::size_t objects =
            heap_layout::objects_in_block(heap_layout::argument_of(payload));
        for (std::size_t w = 0; w * heap_layout::kBitsPerWord < objects; ++w) {
          words.insert(base + (blocks + b * heap_layout::kBitmapWords + w) * kWordBytes);
        }
      }
    }
    return words;
  }

  Image specimen = make_specimen();
  Image scratch = specimen;
  Superblock super = specimen.super();
  Code last_code{};
};

TEST_F(HostileTest, TheSpecimenItselfIsIntactAndHasRecordsToReplay) {
  EXPECT_EQ(outcome(), Outcome::kIntact);
  EXPECT_EQ(scratch.pool().value().recovery().records_replayed, testing::kLoggedCommits);
}

TEST_F(HostileTest, EveryFlippedBitOfOneSuperblockIsHealedByTheOther) {
  for (const Offset copy : {Offset{0}, kSecondSuperblockOffset}) {
    const auto outcomes = flip_every_bit(range(copy, sizeof(Superblock)));
    EXPECT_EQ(outcomes.at(Outcome::kIntact), static_cast<int>(sizeof(Superblock) * 8));
  }
}

TEST_F(HostileTest, EveryFlippedBitOfSizesTimestampsAndLogHeadsIsRefused) {
  std::set<Offset> words = {kStateOffset + offsetof(StatePage, grown_bytes),
                            kStateOffset + offsetof(StatePage, retired_stamp)};
  for (std::uint32_t slot = 0; slot < super.geometry.log_slots; ++slot)
    words.insert(super.head_offset + slot * kLineBytes);
  const auto outcomes = flip_every_bit(words);
  EXPECT_EQ(outcomes.at(Outcome::kRefused), static_cast<int>(words.size() * 64));
}

TEST_F(HostileTest, EveryFlippedBitOfTheHeapsMetadataIsRefusedOrHealedByReplay) {
  const std::set<Offset> words = heap_metadata();
  auto outcomes = flip_every_bit(words);
  EXPECT_EQ(outcomes[Outcome::kRefused] + outcomes[Outcome::kIntact],
            static_cast<int>(words.size() * 64));
  EXPECT_LT(outcomes[Outcome::kIntact], 64) << "only bits that a logged transaction writes anyway";
  std::printf("heap metadata: %zu words, %d flips refused, %d healed\n", words.size(),
              outcomes[Outcome::kRefused], outcomes[Outcome::kIntact]);
}

TEST_F(HostileTest, EveryZeroedWordOfTheMetadataIsRefused) {
  std::set<Offset> words = heap_metadata();
  words.insert(kStateOffset);
  for (const Offset at : words) {
    scratch.word(at) = 0;
    const Outcome found = outcome();
    EXPECT_TRUE(found == Outcome::kRefused) << "byte " << at;
  }
}

TEST_F(HostileTest, EveryFlippedBitOfTheRootTableIsReportedWhenTheRootIsUsed) {
  const std::set<Offset> words = range(super.root_offset, 2 * sizeof(RootEntry));
  auto outcomes = flip_every_bit(words);
  EXPECT_EQ(outcomes[Outcome::kRefused], static_cast<int>(words.size() * 64))
      << "a damaged name must not make its root look absent";
}

TEST_F(HostileTest, EveryFlippedBitOfTheLogIsRefusedOrLosesTheLastTransactionsOnly) {
  const Image before = specimen;
  auto region = scratch.region().value();
  LogArea logs(*region);
  logs.open().value();
  std::set<Offset> words;
  for (std::uint32_t slot = 0; slot < super.geometry.log_slots; ++slot) {
    const std::uint64_t head = logs.slot(slot).log->head();
    auto reader = logs.slot(slot).log.reader();
    std::uint64_t timestamp = 0;
    std::vector<Word> entries;
    while (reader.read(timestamp, entries) == record::Found::kRecord) {
    }
    for (std::uint64_t p = head; p < reader.position(); ++p) {
      words.insert(super.ring_offset + slot * super.geometry.ring_bytes +
                   p % (super.geometry.ring_bytes / kWordBytes) * kWordBytes);
    }
  }
  auto outcomes = flip_every_bit(words);
  EXPECT_GT(outcomes[Outcome::kRefused], 8 * outcomes[Outcome::kOlder])
      << "only flips of torn bits and lengths look like the end of the log";
  std::printf("log: %zu words, %d flips refused, %d look like a torn end, %d harmless\n",
              words.size(), outcomes[Outcome::kRefused], outcomes[Outcome::kOlder],
              outcomes[Outcome::kIntact]);
}

TEST_F(HostileTest, EveryTruncationIsRefused) {
  const std::uint64_t grown = *unseal(specimen.word(kStateOffset), kSaltGrown);
  const auto opens = [&](std::uint64_t file_bytes) {
    testing::RoomyBacking backing;
    auto region = Region::open_memory(scratch.base(), scratch.bytes(), file_bytes,
                                      DomainKind::kDram, backing);
    EXPECT_TRUE(region.ok() || region.error().code == Code::kTruncated) << file_bytes;
    return region.ok();
  };
  for (std::uint64_t size = 0; size < grown; size += size < 8192 ? 1 : kSectorBytes) {
    ASSERT_FALSE(opens(size)) << size;
  }
  ASSERT_FALSE(opens(grown - 1));
  EXPECT_TRUE(opens(grown));
}

TEST_F(HostileTest, EveryTruncatedFileIsRefused) {
  const TempDir dir;
  const std::string path = dir / "pool";
  const std::uint64_t grown = *unseal(specimen.word(kStateOffset), kSaltGrown);
  const auto open_with = [&](std::uint64_t bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(specimen.base()), static_cast<std::streamsize>(bytes));
    ExpertOptions options;
    options.lock_bits = 6;
    return Pool::open(path, options);
  };
  for (std::uint64_t size : {0u, 1u, 7u, 8u, 100u, 143u, 144u, 145u, 4095u, 4096u, 4104u, 8192u,
                             20000u, 40000u, 100000u}) {
    auto opened = open_with(size);
    ASSERT_FALSE(opened.ok()) << size;
    EXPECT_EQ(opened.error().code, size < 8 ? Code::kForeign : Code::kTruncated) << size;
  }
  EXPECT_EQ(open_with(grown - 1).error().code, Code::kTruncated);
  auto whole = open_with(grown);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  EXPECT_EQ(testing::walk(whole.value()), kLastNumber);
}

TEST_F(HostileTest, EveryOtherVersionIsRefusedAsSuch) {
  std::set<std::uint32_t> versions;
  for (std::uint32_t v = 0; v < 5000; ++v) versions.insert(v);
  for (int bit = 0; bit < 32; ++bit) versions.insert({1u << bit, (1u << bit) - 1, ~(1u << bit)});
  for (std::uint32_t known = kOldestFormatVersion; known <= kFormatVersion; ++known)
    versions.erase(known);
  for (const std::uint32_t version : versions) {
    Superblock other = super;
    other.version = version;
    other.crc = crc32c(&other, offsetof(Superblock, crc));
    std::memcpy(scratch.base(), &other, sizeof(other));
    auto opened = scratch.region();
    ASSERT_FALSE(opened.ok()) << version;
    ASSERT_EQ(opened.error().code, Code::kVersion) << version;
  }
}

TEST_F(HostileTest, APoolWithADamagedLogIsNotChangedByTheAttemptToOpenIt) {
  const std::uint64_t head = *unseal(specimen.word(super.head_offset), kSaltLineHead);
  const std::uint64_t ring_words = super.geometry.ring_bytes / kWordBytes;
  int refused = 0;
  for (std::uint64_t i = 4; i < 60; i += 7) {
    scratch.word(super.ring_offset + (head + i) % ring_words * kWordBytes) ^= 0x123400;
    const Image damaged = scratch;
    if (scratch.pool(6)) {
      EXPECT_EQ(i % 8, 7u) << "only what fills a record's last line means nothing";
    } else {
      ++refused;
      EXPECT_TRUE(scratch == damaged) << i;
    }
    scratch = specimen;
  }
  EXPECT_GE(refused, 7);
}

TEST_F(HostileTest, RandomDamageIsNeverWorseThanAnError) {
  std::mt19937_64 random(31);
  std::map<Outcome, int> outcomes;
  const std::uint64_t used = *unseal(specimen.word(kStateOffset), kSaltGrown);
  for (int round = 0; round < (testing::kSanitized ? 2000 : 20000); ++round) {
    for (std::uint64_t damage = 1 + random() % 4; damage > 0; --damage) {
      const Offset at =
          random() % (random() % 2 == 0 ? super.heap_offset + 4096 : used) & ~Offset{7};
      switch (random() % 4) {
        case 0: scratch.word(at) = random(); break;
        case 1: scratch.word(at) = 0; break;
        case 2: scratch.word(at) = scratch.word(random() % used & ~Offset{7}); break;
        default: scratch.word(at) ^= Word{1} << (random() % 64); break;
      }
    }
    ++outcomes[outcome()];
  }
  std::printf("random damage: %d intact, %d older, %d refused, %d user data changed\n",
              outcomes[Outcome::kIntact], outcomes[Outcome::kOlder], outcomes[Outcome::kRefused],
              outcomes[Outcome::kWrong]);
}

}  // namespace
}  // namespace perdure
