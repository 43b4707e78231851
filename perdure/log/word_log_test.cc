// SPDX-License-Identifier: BSD-3-Clause
// What all logs promise: TornbitLog, LineLog and CommitLog have one interface.
#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/dram.h"
#include "perdure/log/commit_log.h"
#include "perdure/log/line_log.h"
#include "perdure/log/tornbit_log.h"

namespace perdure {
namespace {

/// A ring with its head word, in ordinary memory.
struct RingMemory {
  explicit RingMemory(std::uint64_t count) : words(count) {}
  Ring ring() { return {words.data(), words.size(), &head_word}; }
  std::vector<Word> words;
  Word head_word = 0;
};

std::vector<Word> random_words(std::mt19937_64& random, std::size_t count) {
  std::vector<Word> words(count);
  for (Word& word : words) word = random();
  return words;
}

/// Reads `count` words as one append; fewer when the log ends before.
template <class Reader>
std::vector<Word> read_append(Reader& reader, std::size_t count) {
  std::vector<Word> got;
  Word word = 0;
  while (got.size() < count && reader.next(word)) got.push_back(word);
  if (got.size() == count) reader.end_of_append();
  return got;
}

template <class Log, class D>
void append(Log& log, D& domain, const std::vector<Word>& payload) {
  if constexpr (std::is_same_v<Log, LineLog>) {
    ASSERT_TRUE(log.append(domain, payload));
  } else {
    log.append(domain, payload);
  }
}

template <class Log>
class WordLog : public ::testing::Test {
 protected:
  /// Where appends may begin.
  static constexpr std::uint64_t kUnit = std::is_same_v<Log, LineLog> ? LineLog::kLineWords : 1;

  /// A log at `position` whose ring holds what the lap before left there.
  Log at_position(RingMemory& memory, std::uint64_t position) {
    const Ring ring = memory.ring();
    if constexpr (std::is_same_v<Log, LineLog>) {
      Log before(ring, position - std::min(position, ring.count),
                 position - std::min(position, ring.count));
      while (before.tail() < position) append(before, domain_, random_words(random_, 5));
      return Log(ring, position, position);
    }
    for (std::uint64_t p = position - std::min(position, ring.count); p < position; ++p) {
      *ring.at(p) = (random_() >> 1) | ring.torn(p);
    }
    return Log(ring, position, position);
  }

  Dram domain_;
  std::mt19937_64 random_{4};
};

using Logs = ::testing::Types<TornbitLog, LineLog, CommitLog>;
class LogNames {
 public:
  template <class Log>
  static std::string GetName(int) {
    if (std::is_same_v<Log, LineLog>) return "Line";
    return std::is_same_v<Log, TornbitLog> ? "Tornbit" : "Commit";
  }
};
TYPED_TEST_SUITE(WordLog, Logs, LogNames);

TYPED_TEST(WordLog, EveryLengthRoundTripsFromEveryStart) {
  const std::size_t count = TypeParam::log_words(200) + 2 * this->kUnit;
  RingMemory memory(count);
  for (std::uint64_t start = 0; start < 2 * count; start += this->kUnit) {
    TypeParam log = this->at_position(memory, start % memory.words.size());
    for (std::size_t length = 1; length <= 200; ++length) {
      const std::vector<Word> payload = random_words(this->random_, length);
      ASSERT_LE(TypeParam::log_words(length), log.free_words());
      const std::uint64_t before = log.tail();
      append(log, this->domain_, payload);
      ASSERT_TRUE(log.make_durable(this->domain_));
      ASSERT_EQ(log.tail() - before, TypeParam::log_words(length));
      auto reader = log.reader();
      ASSERT_EQ(read_append(reader, length), payload) << "length " << length << " at " << before;
      ASSERT_EQ(reader.position(), log.tail());
      Word more = 0;
      ASSERT_FALSE(reader.next(more));
      log.truncate();
    }
    memory = RingMemory(count);
  }
}

TYPED_TEST(WordLog, RecoveryReadsWhatWasAppendedSinceTheHeadOverManyLaps) {
  RingMemory memory(64);
  TypeParam log(memory.ring(), 0, 0);
  log.persist_head(this->domain_);
  std::deque<std::vector<Word>> model;
  for (int step = 0; step < 20000; ++step) {
    const std::vector<Word> payload = random_words(this->random_, 1 + this->random_() % 12);
    if (TypeParam::log_words(payload.size()) > log.free_words() || this->random_() % 16 == 0) {
      log.truncate();
      log.persist_head(this->domain_);
      model.clear();
      ASSERT_EQ(log.free_words(), log.capacity_words());
    }
    append(log, this->domain_, payload);
    ASSERT_TRUE(log.make_durable(this->domain_));
    model.push_back(payload);

    const auto head = unseal(memory.head_word, TypeParam::kHeadSalt);
    ASSERT_TRUE(head);
    TypeParam reopened(memory.ring(), *head, *head);
    auto reader = reopened.reader();
    for (const std::vector<Word>& expected : model)
      ASSERT_EQ(read_append(reader, expected.size()), expected);
    ASSERT_EQ(reader.position(), log.tail());
    Word more = 0;
    ASSERT_FALSE(reader.next(more)) << "step " << step;
  }
  EXPECT_GT(log.tail(), 100 * memory.words.size()) << "many laps";
}

TYPED_TEST(WordLog, AFullRingIsReadToItsLastWord) {
  for (std::uint64_t start = 0; start < 32; start += this->kUnit) {
    RingMemory memory(16);
    TypeParam log = this->at_position(memory, start);
    std::vector<std::vector<Word>> model;
    for (std::size_t length = 3; length > 0; --length) {
      while (TypeParam::log_words(length) <= log.free_words()) {
        model.push_back(random_words(this->random_, length));
        append(log, this->domain_, model.back());
        ASSERT_TRUE(log.make_durable(this->domain_));
      }
    }
    auto reader = log.reader();
    for (const auto& expected : model) ASSERT_EQ(read_append(reader, expected.size()), expected);
    Word more = 0;
    ASSERT_FALSE(reader.next(more)) << "a reader must not run into the next lap";
  }
}

TYPED_TEST(WordLog, AnUnpersistedTruncationShowsTheAppendsAgain) {
  RingMemory memory(64);
  TypeParam log(memory.ring(), 0, 0);
  log.persist_head(this->domain_);
  const std::vector<Word> payload = random_words(this->random_, 5);
  append(log, this->domain_, payload);
  ASSERT_TRUE(log.make_durable(this->domain_));
  log.truncate();
  const auto head = unseal(memory.head_word, TypeParam::kHeadSalt);
  TypeParam reopened(memory.ring(), *head, *head);
  auto reader = reopened.reader();
  EXPECT_EQ(read_append(reader, 5), payload);
}

/// A memory that notes which words an append wrote, in order, so that a test can take any of them
/// away.
struct Capture : Dram {
  explicit Capture(std::vector<std::pair<Word*, Word>>& into) : written(&into) {}
  void write_through(Word* home, const Word* words, std::size_t count, Site) {
    for (std::size_t i = 0; i < count; ++i) written->push_back({home + i, words[i]});
  }
  std::vector<std::pair<Word*, Word>>* written;
};

/// The logs that trust in no order of words, not even in one line.
template <class Log>
class WordsInAnyOrder : public WordLog<Log> {};
using LogsInAnyOrder = ::testing::Types<TornbitLog, CommitLog>;
TYPED_TEST_SUITE(WordsInAnyOrder, LogsInAnyOrder, LogNames);

// A power cut before the fence keeps any subset of the words of an append.
TYPED_TEST(WordsInAnyOrder, EverySubsetOfMissingWordsIsDetected) {
  constexpr bool kTornbit = std::is_same_v<TypeParam, TornbitLog>;
  for (std::uint64_t start = 0; start < 32; ++start) {
    for (std::size_t length = 1; length <= (kTornbit ? 11u : 10u); ++length) {
      RingMemory memory(16);
      TypeParam log = this->at_position(memory, start);
      const std::vector<Word> first = random_words(this->random_, 1);
      append(log, this->domain_, first);
      ASSERT_TRUE(log.make_durable(this->domain_));
      const std::uint64_t end_of_first = log.tail();

      const std::vector<Word> payload = random_words(this->random_, length);
      std::vector<std::pair<Word*, Word>> written;
      Capture capture(written);
      TypeParam torn = log;
      torn.append(capture, payload);
      const std::size_t body = written.size();
      ASSERT_LE(body, 12u);
      const std::vector<Word> before = memory.words;
      for (std::uint32_t kept = 0; kept < (1u << body); ++kept) {
        memory.words = before;
        for (std::size_t i = 0; i < body; ++i) {
          if ((kept >> i & 1) != 0) *written[i].first = written[i].second;
        }
        auto reader = log.reader();
        ASSERT_EQ(read_append(reader, 1), first) << "an acknowledged append is not touched";
        const std::vector<Word> got = read_append(reader, length);
        if (kTornbit && kept == (1u << body) - 1) {
          ASSERT_EQ(got, payload);
          continue;
        }
        ASSERT_LT(got.size(), length)
            << "start " << start << " length " << length << " kept " << kept;
        if constexpr (kTornbit) {
          ASSERT_TRUE(std::equal(got.begin(), got.end(), payload.begin()));
          ASSERT_EQ(log.has_remains(end_of_first), kept != 0);
        } else {
          ASSERT_TRUE(got.empty()) << "without its commit record nothing is seen";
        }
      }
      if constexpr (!kTornbit) {
        // The body is complete when the commit record goes out.
        memory.words = before;
        torn = log;
        torn.append(this->domain_, payload);
        ASSERT_TRUE(torn.make_durable(this->domain_));
        auto reader = log.reader();
        ASSERT_EQ(read_append(reader, 1), first);
        ASSERT_EQ(read_append(reader, length), payload);
      }
    }
  }
}

TYPED_TEST(WordLog, EveryFlippedBitOfTheHeadWordIsDetected) {
  RingMemory memory(16);
  TypeParam log(memory.ring(), 12345, 12345);
  log.persist_head(this->domain_);
  ASSERT_EQ(unseal(memory.head_word, TypeParam::kHeadSalt), 12345u);
  for (int bit = 0; bit < 64; ++bit) {
    EXPECT_FALSE(unseal(memory.head_word ^ (Word{1} << bit), TypeParam::kHeadSalt)) << bit;
  }
}

TYPED_TEST(WordLog, ReaderStaysInsideAnyGarbage) {
  for (int round = 0; round < 2000; ++round) {
    RingMemory memory(16);
    for (Word& word : memory.words)
      word = this->random_() % 3 == 0 ? this->random_() % 20 : this->random_();
    const std::uint64_t head = round_down(this->random_() & kMax48, this->kUnit);
    const TypeParam log(memory.ring(), head, head);
    auto reader = log.reader();
    Word word = 0;
    std::size_t count = 0;
    while (reader.next(word)) ++count;
    ASSERT_LE(count, memory.words.size());
  }
}

TEST(HeadSalts, DifferFromEachOther) {
  // A ring opened as another kind must be refused.
  EXPECT_NE(CommitLog::kHeadSalt, TornbitLog::kHeadSalt);
  EXPECT_NE(CommitLog::kHeadSalt, LineLog::kHeadSalt);
  EXPECT_NE(LineLog::kHeadSalt, TornbitLog::kHeadSalt);
}

}  // namespace
}  // namespace perdure
