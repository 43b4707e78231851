// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/tornbit_log.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/dram.h"
#include "perdure/region/layout.h"

namespace perdure {
namespace {

constexpr Word kTornBit = Word{1} << 63;

struct TornbitLogTest : ::testing::Test {
  explicit TornbitLogTest() : words(16) {}
  Ring ring() { return {words.data(), words.size(), &head_word}; }
  std::vector<Word> payload(std::size_t count) {
    std::vector<Word> made(count);
    for (Word& word : made) word = random();
    return made;
  }
  std::size_t readable(const TornbitLog& log) {
    auto reader = log.reader();
    Word word = 0;
    std::size_t count = 0;
    while (reader.next(word)) ++count;
    return count;
  }
  /// The next append is exactly `expected`.
  static void expect_next(TornbitLog::Reader& reader, const std::vector<Word>& expected) {
    for (const Word word : expected) {
      Word got = 0;
      ASSERT_TRUE(reader.next(got));
      ASSERT_EQ(got, word);
    }
    reader.end_of_append();
  }
  std::vector<Word> words;
  Word head_word = 0;
  Dram domain;
  std::mt19937_64 random{5};
};

TEST_F(TornbitLogTest, TakesOneExtraWordIn63) {
  EXPECT_EQ(TornbitLog::log_words(0), 0u);
  EXPECT_EQ(TornbitLog::log_words(1), 2u);
  EXPECT_EQ(TornbitLog::log_words(62), 63u);
  EXPECT_EQ(TornbitLog::log_words(63), 64u);
  EXPECT_EQ(TornbitLog::log_words(64), 66u);
  for (std::uint64_t n = 0; n < 1000; ++n) EXPECT_EQ(TornbitLog::log_words(n), (64 * n + 62) / 63);
}

TEST_F(TornbitLogTest, TheTornBitIsOneOnTheFirstPassAndReversesOnTheNext) {
  TornbitLog log(ring(), 0, 0);
  for (std::uint64_t lap = 0; lap < 5; ++lap) {
    while (log.tail() <
           (lap + 1) * words.size()) {  // two words at a time: appends end at the end of the ring
      log.append(domain, payload(1));
      log.truncate();
    }
    for (const Word word : words) EXPECT_EQ(word >> 63, (lap + 1) % 2) << "lap " << lap;
  }
}

TEST_F(TornbitLogTest, AnEmptyAppendTakesNothingAndHidesNothing) {
  TornbitLog log(ring(), 0, 0);
  log.append(domain, {});
  EXPECT_EQ(log.tail(), 0u);
  const std::vector<Word> words_in = payload(2);
  log.append(domain, words_in);
  auto reader = log.reader();
  Word word = 0;
  ASSERT_TRUE(reader.next(word));
  EXPECT_EQ(word, words_in[0]);
}

TEST_F(TornbitLogTest, SeveralAppendsNeedOneFence) {
  struct CountingDram : Dram {
    bool fence(Site) { return ++fences > 0; }
    int fences = 0;
  } counting;
  TornbitLog log(ring(), 0, 0);
  for (int i = 0; i < 4; ++i) log.append(counting, payload(2));
  EXPECT_EQ(counting.fences, 0);
  EXPECT_TRUE(log.make_durable(counting));
  EXPECT_EQ(counting.fences, 1);
}

TEST_F(TornbitLogTest, AFailedFenceIsReported) {
  struct BrokenDram : Dram {
    bool fence(Site) { return false; }
  } broken;
  TornbitLog log(ring(), 0, 0);
  log.append(broken, payload(2));
  EXPECT_FALSE(log.make_durable(broken));
}

TEST_F(TornbitLogTest, AFlippedTornBitEndsTheLogThere) {
  for (std::uint64_t start = 0; start < 32; ++start) {
    TornbitLog log(ring(), start, start);
    log.erase_from(domain, start);
    log.append(domain, payload(11));
    for (std::uint64_t i = 0; i < 12; ++i) {
      words[(start + i) % 16] ^= kTornBit;
      EXPECT_LE(readable(log), i) << "start " << start << " word " << i;
      words[(start + i) % 16] ^= kTornBit;
    }
    EXPECT_EQ(readable(log), 11u);
  }
}

TEST_F(TornbitLogTest, ErasedReadsEmptyAtEveryHeadWhateverTheRingHeld) {
  for (std::uint64_t head = 0; head < 4 * words.size(); ++head) {
    for (int round = 0; round < 50; ++round) {
      for (Word& word : words) word = random();
      TornbitLog log(ring(), head, head);
      log.erase_from(domain, head);
      EXPECT_EQ(log.tail(), head);
      EXPECT_EQ(log.free_words(), words.size());
      EXPECT_EQ(readable(log), 0u);
      EXPECT_FALSE(log.has_remains(head));
      // And the log goes on from there.
      const std::vector<Word> next = payload(1 + random() % 15);
      log.append(domain, next);
      auto reader = log.reader();
      expect_next(reader, next);
      Word more = 0;
      EXPECT_FALSE(reader.next(more));
    }
  }
}

TEST_F(TornbitLogTest, ErasingTheRemainsKeepsWhatStandsBeforeThem) {
  for (std::uint64_t start = 0; start < 32; ++start) {
    TornbitLog log(ring(), start, start);
    log.erase_from(domain, start);
    const std::vector<Word> kept = payload(4);
    log.append(domain, kept);
    const std::uint64_t end = log.tail();
    log.append(domain, payload(6));
    *ring().at(end) ^= kTornBit;  // the first word of the second append never came
    TornbitLog reopened(ring(), start, start);
    ASSERT_TRUE(reopened.has_remains(end));
    reopened.erase_from(domain, end);
    EXPECT_FALSE(reopened.has_remains(end));
    EXPECT_EQ(reopened.tail(), end);
    const std::vector<Word> next = payload(2);
    reopened.append(domain, next);
    auto reader = reopened.reader();
    expect_next(reader, kept);
    expect_next(reader, next);
    Word more = 0;
    EXPECT_FALSE(reader.next(more)) << "no word of the torn append comes back";
  }
}

// A crash in the middle of erase_from() keeps any subset of its words: what is left reads as a part
// of what was there, from the head on, or as nothing.
TEST_F(TornbitLogTest, AHalfErasedLogReadsAsAPrefixOfWhatItWas) {
  for (std::uint64_t start = 0; start < 32; ++start) {
    TornbitLog log(ring(), start, start);
    log.erase_from(domain, start);
    const std::vector<Word> written = payload(11);
    log.append(domain, written);
    const std::vector<Word> full = words;
    TornbitLog eraser = log;
    eraser.erase_from(domain, start);
    const std::vector<Word> erased = words;
    for (std::uint32_t kept = 0; kept < (1u << 12); ++kept) {
      for (std::uint64_t i = 0; i < 16; ++i) {
        const std::uint64_t at = (start + i) % 16;
        words[at] = i < 12 && (kept >> i & 1) != 0 ? full[at] : erased[at];
      }
      auto reader = log.reader();
      Word word = 0;
      std::size_t count = 0;
      while (reader.next(word)) ASSERT_EQ(word, written[count++]);
      ASSERT_EQ(count == written.size(), kept == (1u << 12) - 1);
    }
  }
}

TEST_F(TornbitLogTest, RemainsAreFoundAnywhereBehindTheEnd) {
  for (std::uint64_t start = 0; start < 32; ++start) {
    TornbitLog log(ring(), start, start);
    log.erase_from(domain, start);
    ASSERT_FALSE(log.has_remains(start));
    for (std::uint64_t i = 0; i < words.size(); ++i) {
      words[(start + i) % 16] ^= kTornBit;
      EXPECT_TRUE(log.has_remains(start)) << i;
      EXPECT_EQ(log.has_remains(start + i + 1), false);
      words[(start + i) % 16] ^= kTornBit;
    }
  }
}

TEST_F(TornbitLogTest, HeadsAreSealedWithTheFormatsSalt) {
  EXPECT_EQ(TornbitLog::kHeadSalt, kSaltHead);
}

}  // namespace
}  // namespace perdure
