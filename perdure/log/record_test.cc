// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/record.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace perdure {
namespace {

/// A log that holds exactly these words; reading one too many is an error of the decoder that the
/// sanitizers see.
struct VectorReader {
  explicit VectorReader(std::vector<Word> of) : words(std::move(of)) {}
  bool next(Word& out) {
    if (at == words.size()) return false;
    out = words.data()[at++];
    return true;
  }
  void end_of_append() { ++appends; }
  std::vector<Word> words;
  std::size_t at = 0;
  int appends = 0;
};

std::vector<Word> encode(std::uint64_t timestamp, const std::vector<MaskedWrite>& writes) {
  std::vector<Word> words(1, 0);
  record::encode_entries(writes, words);
  words[0] = record::header(timestamp, {words.data() + 1, words.size() - 1});
  return words;
}

std::vector<MaskedWrite> decode(std::span<const Word> entries) {
  std::vector<MaskedWrite> writes;
  const bool whole = record::for_each(
      entries,
      [&](const MaskedWrite& write) {
        writes.push_back(write);
        return true;
      },
      [](Offset, Word, Word) { return false; });
  EXPECT_TRUE(whole);
  return writes;
}

void expect_equal(const std::vector<MaskedWrite>& got, const std::vector<MaskedWrite>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].offset, expected[i].offset) << i;
    ASSERT_EQ(got[i].value, expected[i].value) << i;
    ASSERT_EQ(got[i].mask, expected[i].mask) << i;
  }
}

std::vector<MaskedWrite> random_writes(std::mt19937_64& random, std::size_t count) {
  std::vector<MaskedWrite> writes;
  Offset offset = 0;
  for (std::size_t i = 0; i < count; ++i) {
    offset =
        random() % 3 != 0 ? offset + kWordBytes : (random() & ((Word{1} << 44) - 1)) * kWordBytes;
    offset &= ((Word{1} << 47) - 1) & ~Word{7};
    const Word mask = random() % 4 == 0 ? random() | 1 : kWholeWord;
    writes.push_back({offset, random(), mask});
  }
  return writes;
}

TEST(Record, RandomWritesRoundTripInOrder) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 5000; ++round) {
    const std::uint64_t timestamp = random() & ((Word{1} << 48) - 1);
    const std::vector<MaskedWrite> writes = random_writes(random, 1 + random() % 60);
    VectorReader reader(encode(timestamp, writes));
    std::uint64_t got_timestamp = 0;
    std::vector<Word> entries;
    ASSERT_EQ(record::read(reader, got_timestamp, entries), record::Found::kRecord);
    ASSERT_EQ(got_timestamp, timestamp);
    ASSERT_EQ(reader.appends, 1);
    ASSERT_EQ(reader.at, reader.words.size());
    expect_equal(decode(entries), writes);
  }
}

TEST(Record, NeighbouringWordsBecomeOneRun) {
  const std::vector<MaskedWrite> writes = {
      {800, 1, kWholeWord}, {808, 2, kWholeWord}, {816, 3, kWholeWord}, {832, 4, kWholeWord}};
  const std::vector<Word> words = encode(1, writes);
  EXPECT_EQ(words.size(), 1u + (1 + 3) + (1 + 1));
  EXPECT_EQ(record::entry_count(words[1]), 3u);
  EXPECT_EQ(record::entry_kind(words[1]), record::Kind::kRun);
}

TEST(Record, AMaskedWordEndsARun) {
  const std::vector<MaskedWrite> writes = {
      {800, 1, kWholeWord}, {808, 2, 0xff}, {816, 3, kWholeWord}};
  const std::vector<Word> words = encode(1, writes);
  EXPECT_EQ(words.size(), 1u + 2 + 3 + 2);
  EXPECT_EQ(record::entry_kind(words[3]), record::Kind::kMasked);
  expect_equal(decode({words.data() + 1, words.size() - 1}), writes);
}

TEST(Record, ARunLongerThanItsCountFieldIsSplit) {
  std::vector<MaskedWrite> writes;
  for (std::uint64_t i = 0; i < record::kMaxRun + 10; ++i)
    writes.push_back({8 * (i + 100), i, kWholeWord});
  const std::vector<Word> words = encode(9, writes);
  EXPECT_EQ(words.size(), writes.size() + 3);
  expect_equal(decode({words.data() + 1, words.size() - 1}), writes);
}

TEST(Record, OffsetsUpToTheLargestPoolSurvive) {
  const std::vector<MaskedWrite> writes = {{(Word{1} << 47) - 8, 7, kWholeWord},
                                           {(Word{1} << 40) - 8, 7, 1}};
  const std::vector<Word> words = encode(1, writes);
  expect_equal(decode({words.data() + 1, words.size() - 1}), writes);
}

TEST(Record, EveryIncompleteRecordReadsAsNothing) {
  std::mt19937_64 random(7);
  const std::vector<Word> whole = encode(77, random_writes(random, 40));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    VectorReader reader({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)});
    std::uint64_t timestamp = 0;
    std::vector<Word> entries;
    EXPECT_EQ(record::read(reader, timestamp, entries), record::Found::kNothing) << length;
  }
}

TEST(Record, NoFlippedBitIsAccepted) {
  std::mt19937_64 random(8);
  std::uint64_t corrupt = 0;
  std::uint64_t nothing = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<Word> words = encode(random() & 0xffffff, random_writes(random, 1 + random() % 12));
    const std::size_t length = words.size();
    for (int i = 0; i < 8; ++i) words.push_back(random());  // what stands behind it in the ring
    for (std::size_t bit = 0; bit < length * 64; ++bit) {
      words[bit / 64] ^= Word{1} << (bit % 64);
      VectorReader reader(words);
      std::uint64_t timestamp = 0;
      std::vector<Word> entries;
      const record::Found found = record::read(reader, timestamp, entries);
      ASSERT_NE(found, record::Found::kRecord) << "bit " << bit;
      (found == record::Found::kCorrupt ? corrupt : nothing) += 1;
      words[bit / 64] ^= Word{1} << (bit % 64);
    }
  }
  // Flips of a length look like a record that was cut off; all others are named corrupt.
  EXPECT_GT(corrupt, 9 * nothing);
}

TEST(Record, TheTimestampIsPartOfTheChecksum) {
  const std::vector<Word> words = encode(5, {{800, 1, kWholeWord}});
  std::vector<Word> other = words;
  other[0] = (words[0] & ~((Word{1} << 48) - 1)) | 6;
  VectorReader reader(other);
  std::uint64_t timestamp = 0;
  std::vector<Word> entries;
  EXPECT_EQ(record::read(reader, timestamp, entries), record::Found::kCorrupt);
}

TEST(Record, DecodersStayInsideGarbage) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 200000; ++round) {
    std::vector<Word> words(random() % 12);
    for (Word& word : words) {
      word = random();
      if (random() % 2 == 0)
        word = record::entry_head(word & 0xffff8, random() % 6,
                                  static_cast<record::Kind>(random() % 4));
      if (random() % 3 == 0) word |= record::kLast;
    }
    std::uint64_t applied = 0;
    (void)record::for_each(
        std::vector<Word>(words), [&](const MaskedWrite&) { return ++applied < 1000; },
        [](Offset, Word, Word) { return true; });
    ASSERT_LE(applied, words.size());
    VectorReader reader(words);
    std::uint64_t timestamp = 0;
    std::vector<Word> entries;
    while (record::read(reader, timestamp, entries) != record::Found::kNothing &&
           reader.at < reader.words.size()) {
    }
    ASSERT_LE(reader.at, words.size());
  }
}

TEST(Record, AnOverrunningOrUnfinishedEntryListIsRefused) {
  const auto accepts = [](const std::vector<Word>& entries) {
    return record::for_each(
        entries, [](const MaskedWrite&) { return true; }, [](Offset, Word, Word) { return true; });
  };
  using record::entry_head;
  using record::Kind;
  using record::kLast;
  EXPECT_FALSE(accepts({}));
  EXPECT_FALSE(accepts({entry_head(8, 1, Kind::kRun) | kLast})) << "the value is missing";
  EXPECT_FALSE(accepts({entry_head(8, 0, Kind::kRun) | kLast})) << "a run of nothing";
  EXPECT_FALSE(accepts({entry_head(8, 1, Kind::kMasked) | kLast, 1})) << "the mask is missing";
  EXPECT_FALSE(accepts({entry_head(8, 1, Kind::kRun), 1})) << "no entry is the last";
  EXPECT_FALSE(accepts({entry_head(8, 1, Kind::kRun) | kLast, 1, 2}))
      << "something follows the last";
  EXPECT_FALSE(accepts({entry_head(8, 1, static_cast<Kind>(3)) | kLast, 1, 2})) << "no such kind";
  EXPECT_TRUE(accepts({entry_head(8, 1, Kind::kRun) | kLast, 1}));
}

}  // namespace
}  // namespace perdure
