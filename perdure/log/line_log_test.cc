// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/line_log.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/dram.h"
#include "perdure/log/record.h"
#include "perdure/region/layout.h"

namespace perdure {
namespace {

/// Notes each store in its order, and which lines are flushed.
struct Watched : Dram {
  struct Store {
    Word* home;
    Word value;
    bool streamed;
  };
  void store(Word* home, Word value) { stores.push_back({home, value, false}); }
  void write_through(Word* home, const Word* words, std::size_t count, Site) {
    for (std::size_t i = 0; i < count; ++i) stores.push_back({home + i, words[i], true});
  }
  void flush(const void* address, std::size_t bytes, Site) {
    ASSERT_EQ(bytes, kLineBytes);
    ++flushes[static_cast<const Word*>(address)];
  }
  bool fence(Site) {
    fenced_at.push_back(stores.size());
    return true;
  }
  std::vector<Store> stores;
  std::map<const Word*, int> flushes;
  std::vector<std::size_t> fenced_at;
};

struct LineLogTest : ::testing::Test {
  static constexpr std::uint64_t kWords = 1024;

  LineLog log_at(std::uint64_t position) {
    return {{words.data(), words.size(), &head_word}, position, position};
  }
  std::vector<Word> payload(std::size_t count) {
    std::vector<Word> made(count);
    for (Word& word : made) word = random();
    return made;
  }
  static std::vector<Word> read(LineLog::Reader& reader, std::size_t count) {
    std::vector<Word> got;
    Word word = 0;
    while (got.size() < count && reader.next(word)) got.push_back(word);
    return got;
  }

  std::vector<Word> words = std::vector<Word>(kWords);
  Word head_word = 0;
  Dram domain;
  std::mt19937_64 random{17};
};

TEST_F(LineLogTest, TakesALineForSevenWords) {
  EXPECT_EQ(LineLog::log_words(1), 8u);
  EXPECT_EQ(LineLog::log_words(7), 8u);
  EXPECT_EQ(LineLog::log_words(8), 16u);
  EXPECT_EQ(LineLog::log_words(512), 592u);
}

TEST_F(LineLogTest, AHeaderIsItsLinesLastStoreAndTheFirstLineComesLast) {
  for (std::size_t length = 1; LineLog::log_words(length) < 512; ++length) {
    LineLog log = log_at(kWords - 64);  // the longer ones go around the end
    Watched watched;
    ASSERT_TRUE(log.append(watched, payload(length)));
    const std::uint64_t lines = LineLog::log_words(length) / 8;
    ASSERT_EQ(log.tail(), log.head() + 8 * lines);
    ASSERT_TRUE(watched.fenced_at.empty()) << "one wait, in make_durable()";
    ASSERT_EQ(watched.flushes.size(), lines);
    std::map<const Word*, std::size_t> last;  // store of each word
    for (std::size_t i = 0; i < watched.stores.size(); ++i)
      ASSERT_TRUE(last.emplace(watched.stores[i].home, i).second) << "each word is stored once";
    ASSERT_EQ(last.size(), length + lines);
    for (std::uint64_t line = 0; line < lines; ++line) {
      const Word* const header = log.ring().at(log.head() + 8 * line);
      ASSERT_EQ(watched.flushes[header], 1);
      for (std::uint64_t i = 1; i < 8; ++i) {
        const auto word = last.find(header + i);
        if (word != last.end()) {
          ASSERT_LT(word->second, last[header]);
        }
      }
    }
    ASSERT_EQ(last[log.ring().at(log.head())], watched.stores.size() - 1);
  }
}

TEST_F(LineLogTest, ALongAppendWaitsForItsStreamedLinesBeforeTheFirst) {
  LineLog log = log_at(kWords - 64);
  Watched watched;
  ASSERT_TRUE(log.append(watched, payload(442)));
  ASSERT_EQ(watched.fenced_at.size(), 1u);
  for (std::size_t i = 0; i < watched.stores.size(); ++i) {
    ASSERT_EQ(watched.stores[i].streamed, i < watched.fenced_at[0]) << i;
  }
  ASSERT_EQ(watched.stores.size() - watched.fenced_at[0], 8u) << "the first line";
  ASSERT_EQ(watched.stores.back().home, log.ring().at(log.head()));
}

// Of each line any number of stores may have come.
TEST_F(LineLogTest, EveryTornAppendIsDetected) {
  const std::vector<Word> acknowledged = payload(3);
  std::uint64_t lap = 0;
  for (const std::size_t length : {1u, 6u, 7u, 8u, 14u, 15u, 20u}) {
    lap += 2;
    LineLog log = log_at(lap * kWords - 16);
    for (LineLog before = log_at(log.head() - kWords); before.tail() < log.head();)
      ASSERT_TRUE(before.append(domain, payload(7)));  // what the lap before left
    ASSERT_TRUE(log.append(domain, acknowledged));
    const std::uint64_t end = log.tail();
    Watched watched;
    LineLog torn = log;
    const std::vector<Word> written = payload(length);
    ASSERT_TRUE(torn.append(watched, written, 77));

    std::map<const Word*, std::vector<Watched::Store>> by_line;
    for (const Watched::Store& store : watched.stores) {
      const auto at = static_cast<std::size_t>(store.home - words.data());
      by_line[words.data() + at / 8 * 8].push_back(store);
    }
    std::uint64_t images = 1;
    for (const auto& [line, stores] : by_line) images *= stores.size() + 1;
    const std::vector<Word> before = words;
    for (std::uint64_t kept = 0; kept < images; ++kept) {
      words = before;
      std::uint64_t rest = kept;
      for (const auto& [line, stores] : by_line) {
        for (std::size_t i = 0; i < rest % (stores.size() + 1); ++i)
          *stores[i].home = stores[i].value;
        rest /= stores.size() + 1;
      }
      auto reader = log.reader();
      ASSERT_EQ(read(reader, 3), acknowledged);
      reader.end_of_append();
      const std::vector<Word> got = read(reader, length);
      if (kept + 1 == images) {
        ASSERT_EQ(got, written);
        ASSERT_EQ(reader.check(), 77u);
        ASSERT_TRUE(log.has_remains(end));
        continue;
      }
      ASSERT_LT(got.size(), length) << length << " words, image " << kept;

      // What is left is gone when it was erased, and never joins what comes next.
      LineLog next = log;
      next.erase_from(domain, end);
      ASSERT_FALSE(next.has_remains(end));
      const std::vector<Word> shorter = payload(1 + kept % 9);
      ASSERT_TRUE(next.append(domain, shorter));
      reader = log.reader();
      (void)read(reader, 3);
      reader.end_of_append();
      ASSERT_EQ(read(reader, shorter.size()), shorter);
      reader.end_of_append();
      ASSERT_TRUE(read(reader, 1).empty());
    }
  }
}

TEST_F(LineLogTest, NoLineOfAnotherLapReadsAsOneOfThis) {
  constexpr std::uint64_t kNumbers = std::uint64_t{8} << 30;  // words after which numbers repeat
  for (const std::uint64_t start : {std::uint64_t{0}, kNumbers - kWords, kNumbers}) {
    LineLog log = log_at(start);
    for (int lap = 0; lap < 4; ++lap) {
      ASSERT_FALSE(log.has_remains(log.tail()));
      ASSERT_EQ(log.next_first_line(log.tail()), log.head() + kWords);
      while (log.free_words() >= 16) ASSERT_TRUE(log.append(domain, payload(9)));
      auto reader = log.reader();
      std::size_t read_words = 0;
      for (; !read(reader, 9).empty(); reader.end_of_append()) read_words += 9;
      ASSERT_EQ(read_words, kWords / 16 * 9);
      log.truncate();
    }
  }
}

TEST_F(LineLogTest, ZeroesAreNeverRead) {
  for (const std::uint64_t start : {std::uint64_t{0}, std::uint64_t{8} << 30, 3 * kWords}) {
    words.assign(kWords, 0);
    LineLog log = log_at(start);
    auto reader = log.reader();
    EXPECT_TRUE(read(reader, 1).empty());
    EXPECT_FALSE(log.has_remains(start));
  }
}

TEST_F(LineLogTest, ARecordThatIsBuiltInTheRingIsTheOneThatIsAppended) {
  if (!has_crc32c_step()) GTEST_SKIP() << "the processor has no instruction for CRC32C";
  std::vector<Word> expected(kWords);
  LineLog log = log_at(0);
  LineLog same({expected.data(), expected.size(), &head_word}, 0, 0);
  for (std::uint64_t timestamp = 1; timestamp < 2000; ++timestamp) {
    std::vector<MaskedWrite> writes(1 + random() % 60);
    Offset at = 0;
    for (MaskedWrite& write : writes) {
      at += random() % 2 == 0 ? kWordBytes : kWordBytes * (2 + random() % 100);
      write = {at, random(), random() % 4 == 0 ? random() | 1 : kWholeWord};
    }
    std::vector<Word> record(1, 0);
    record::encode_entries(writes, record);
    const std::uint32_t crc = record::checksum(timestamp, {record.data() + 1, record.size() - 1});
    record[0] = record::header(timestamp, crc);
    ASSERT_TRUE(same.append(domain, record, crc));
    same.truncate();

    LineLog::Writer<Dram> writer(domain, log, Site::kLogRecord);
    record::for_each_entry_word(writes, [&](Word word) { writer.put(word); });
    writer.finish(record[0], crc);
    auto reader = log.reader();
    std::uint64_t found = 0;
    std::vector<Word> entries;
    ASSERT_EQ(record::read(reader, found, entries), record::Found::kRecord);
    ASSERT_EQ(found, timestamp);
    log.truncate();
    ASSERT_EQ(log.tail(), same.tail());
    if (same.tail() <= kWords) {
      ASSERT_EQ(words, expected);
    }
  }
}

TEST_F(LineLogTest, ADamagedCheckIsCorrupt) {
  std::vector<Word> record(1, 0);
  record::encode_entries(std::vector<MaskedWrite>{{64, 5, kWholeWord}}, record);
  const std::uint32_t crc = record::checksum(9, {record.data() + 1, record.size() - 1});
  record[0] = record::header(9, crc);
  LineLog log = log_at(0);
  ASSERT_TRUE(log.append(domain, record, crc));
  std::uint64_t timestamp = 0;
  std::vector<Word> entries;
  for (int bit = 0; bit < 32; ++bit) {
    words[0] ^= Word{1} << bit;
    auto reader = log.reader();
    EXPECT_EQ(record::read(reader, timestamp, entries), record::Found::kCorrupt) << bit;
    words[0] ^= Word{1} << bit;
  }
}

TEST_F(LineLogTest, TheHeadSaltIsThatOfTheFormat) { EXPECT_EQ(LineLog::kHeadSalt, kSaltLineHead); }

}  // namespace
}  // namespace perdure
