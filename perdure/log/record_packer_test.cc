// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/record_packer.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/dram.h"

namespace perdure {
namespace {

/// Counts the stores to each word, and remembers which words are written back.
struct Watched : Dram {
  void store(Word* home, Word value) {
    Dram::store(home, value);
    ++stores[home];
  }
  void flush(const void* address, std::size_t bytes, Site) {
    const auto* word = static_cast<const Word*>(address);
    for (std::size_t i = 0; i < bytes / kWordBytes; ++i) ++flushes[word + i];
  }
  std::map<const Word*, int> stores;
  std::map<const Word*, int> flushes;
};

struct RecordPackerTest : ::testing::Test {
  static constexpr std::size_t kWords = 1 << 10;

  /// Runs of whole words, and parts of words.
  std::vector<MaskedWrite> some_writes() {
    std::vector<MaskedWrite> writes(1 + random() % 80);
    Offset at = 0;
    for (MaskedWrite& write : writes) {
      at += random() % 2 == 0 ? kWordBytes : kWordBytes * (2 + random() % 100);
      write = {at, random(), random() % 4 == 0 ? random() | 1 : kWholeWord};
    }
    return writes;
  }
  std::vector<Word> ring = std::vector<Word>(kWords);
  std::vector<Word> expected = std::vector<Word>(kWords);
  Word head = 0;
  std::mt19937_64 random{11};
};

TEST_F(RecordPackerTest, MakesTheLogWordsOfAnAppendAndStoresEachOnce) {
  if (!has_crc32c_step()) GTEST_SKIP() << "the processor has no instruction for CRC32C";
  TornbitLog log({ring.data(), ring.size(), &head}, 0, 0);
  TornbitLog same({expected.data(), expected.size(), &head}, 0, 0);
  Dram plain;
  int in_one_piece = 0;
  for (std::uint64_t timestamp = 1; timestamp < 2000; ++timestamp) {
    const std::vector<MaskedWrite> writes = some_writes();
    std::vector<Word> record(1, 0);
    record::encode_entries(writes, record);
    record[0] = record::header(timestamp, {record.data() + 1, record.size() - 1});
    same.append(plain, record);
    same.truncate();

    const TornbitLog::Piece piece =
        log.piece_at_tail(TornbitLog::log_words(1 + record::most_words(writes.size())));
    if (piece.words == nullptr) {  // around the end
      log.append(plain, record);
    } else {
      ++in_one_piece;
      Watched domain;
      RecordPacker<Watched> packer(domain, piece, timestamp);
      record::for_each_entry_word(writes, [&](Word word) { packer.put(word); });
      const std::uint64_t words = packer.finish(Site::kLogRecord);
      log.append_piece(words);
      EXPECT_EQ(domain.stores.size(), words);
      for (const auto& [word, times] : domain.stores) {
        EXPECT_EQ(times, 1) << "a line that is evicted between would show a torn record as whole";
        EXPECT_EQ(domain.flushes[word], 1);
      }
    }
    log.truncate();
    ASSERT_EQ(log.tail(), same.tail());
    ASSERT_EQ(ring, expected);
  }
  EXPECT_GT(in_one_piece, 1000);
}

}  // namespace
}  // namespace perdure
