// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/log/log_area.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;

/// In both layouts that the library's engine uses.
struct LogAreaTest : ::testing::TestWithParam<RingLayout> {
  /// Appends a record to log `slot` as a committing thread would.
  void append(std::size_t slot, std::uint64_t timestamp, const std::vector<MaskedWrite>& writes) {
    std::vector<Word> words(1, 0);
    record::encode_entries(writes, words);
    append_words(slot, timestamp, std::move(words));
  }
  void append_words(std::size_t slot, std::uint64_t timestamp, std::vector<Word> words) {
    const std::uint32_t crc = record::checksum(timestamp, {words.data() + 1, words.size() - 1});
    words[0] = record::header(timestamp, crc);
    ASSERT_TRUE(logs->lay_out(domain, GetParam()));
    ASSERT_TRUE(logs->prepare(domain, slot));
    ASSERT_TRUE(logs->slot(slot).log.append(domain, words, crc));
    ASSERT_TRUE(logs->slot(slot).log->make_durable(domain));
  }
  /// The process dies; the next one finds the image.
  void restart() {
    region = image.region().value();
    logs = std::make_unique<LogArea>(*region);
    logs->open().value();
  }
  Code recovery_error() {
    restart();
    auto report = logs->recover(domain);
    EXPECT_FALSE(report.ok());
    return report.ok() ? Code::kIo : report.error().code;
  }
  Offset heap(std::uint64_t index = 0) const {
    return region->superblock().heap_offset + index * kWordBytes;
  }

  Image image = Image::formatted();
  std::unique_ptr<Region> region = image.region().value();
  std::unique_ptr<LogArea> logs = [this] {
    auto made = std::make_unique<LogArea>(*region);
    made->open().value();
    return made;
  }();
  Dram dram;
  PrimitivesOf<Dram> domain{dram};
};

TEST_P(LogAreaTest, AnEmptyPoolHasNothingToReplay) {
  const RecoveryReport report = logs->recover(domain).value();
  EXPECT_EQ(report.records_replayed, 0u);
  EXPECT_EQ(report.logs_erased, 0u);
  EXPECT_EQ(report.last_stamp, 0u);
}

TEST_P(LogAreaTest, LogsAreMergedByStamp) {
  append(0, 2, {{heap(), 2, kWholeWord}});
  append(1, 1, {{heap(), 1, kWholeWord}, {heap(1), 1, kWholeWord}});
  append(1, 4, {{heap(2), 4, kWholeWord}});
  append(0, 3, {{heap(2), 3, kWholeWord}});
  restart();
  const RecoveryReport report = logs->recover(domain).value();
  EXPECT_EQ(report.records_replayed, 4u);
  EXPECT_EQ(report.last_stamp, 4u);
  EXPECT_EQ(image.word(heap()), 2u);
  EXPECT_EQ(image.word(heap(1)), 1u);
  EXPECT_EQ(image.word(heap(2)), 4u);
}

TEST_P(LogAreaTest, MaskedWritesTouchTheirBitsOnly) {
  image.word(heap()) = 0xff00ff00;
  append(0, 1, {{heap(), 0x00ab0000, 0x00ff0000}});
  restart();
  logs->recover(domain).value();
  EXPECT_EQ(image.word(heap()), 0xffabff00u);
}

TEST_P(LogAreaTest, WhatIsRetiredIsNotReplayed) {
  append(0, 1, {{heap(), 1, kWholeWord}});
  ASSERT_TRUE(logs->store_retired_timestamp(domain, 1));
  append(1, 2, {{heap(1), 2, kWholeWord}});
  restart();
  const RecoveryReport report = logs->recover(domain).value();
  EXPECT_EQ(report.records_replayed, 1u);
  EXPECT_EQ(image.word(heap()), 0u);
  EXPECT_EQ(image.word(heap(1)), 2u);
}

TEST_P(LogAreaTest, RecoveringTwiceChangesNothing) {
  append(0, 7, {{heap(), 1, kWholeWord}});
  restart();
  EXPECT_EQ(logs->recover(domain).value().records_replayed, 1u);
  image.word(heap()) = 5;  // what a later transaction wrote
  restart();
  const RecoveryReport second = logs->recover(domain).value();
  EXPECT_EQ(second.records_replayed, 0u);
  EXPECT_EQ(second.last_stamp, 7u) << "timestamps go on where they were";
  EXPECT_EQ(image.word(heap()), 5u);
}

TEST_P(LogAreaTest, ARingThatNobodyUsedYetMayHoldAnything) {
  const Ring ring = logs->slot(1).log->ring();
  std::fill_n(ring.words, ring.count, 0x5a5a5a5a5a5a5a5a);
  restart();
  EXPECT_EQ(logs->recover(domain).value().records_replayed, 0u);
  append(1, 1, {{heap(), 1, kWholeWord}});
  restart();
  EXPECT_EQ(logs->recover(domain).value().records_replayed, 1u);
}

TEST_P(LogAreaTest, TimestampsThatWouldSoonOverflowAreRefused) {
  const Image before = image;
  image.word(kStateOffset + offsetof(StatePage, retired_stamp)) = seal(kMax48 - 1, kSaltRetired);
  EXPECT_EQ(recovery_error(), Code::kCorrupt);
  image = before;
  restart();
  append(0, kMax48 - 1, {{heap(), 1, kWholeWord}});
  EXPECT_EQ(recovery_error(), Code::kCorrupt);
}

TEST_P(LogAreaTest, TruncationEmptiesAllLogs) {
  append(0, 1, {{heap(), 1, kWholeWord}});
  append(1, 2, {{heap(1), 1, kWholeWord}});
  ASSERT_TRUE(logs->truncate(domain, 2, Site::kHomeBulk));
  restart();
  const RecoveryReport report = logs->recover(domain).value();
  EXPECT_EQ(report.records_replayed, 0u);
  EXPECT_EQ(report.last_stamp, 2u);
}

// A power cut may keep any words of the first append that a ring ever saw; of a line log, any number
// of the stores to each line. Whatever it kept, the next record must not be followed by them.
TEST_P(LogAreaTest, TheRemainsOfATornFirstAppendNeverJoinALaterRecord) {
  std::vector<MaskedWrite> writes;
  // All ones: whatever is left of them reads as the end of an entry.
  for (std::uint64_t i = 0; i < 11; ++i) writes.push_back({heap(i), ~Word{0}, kWholeWord});
  append(0, 1, writes);
  const Ring ring = logs->slot(0).log->ring();
  const std::uint64_t head = logs->slot(0).log->head();
  const std::uint64_t count = logs->slot(0).log->tail() - head;
  const Word sealed_head = *ring.head_word;
  const std::vector<Word> whole(ring.words, ring.words + count);
  ASSERT_GE(count, 12u);
  const bool lines = GetParam() == RingLayout::kLines;
  const std::uint64_t states = lines ? 9 : 2;  // of a line, or of a word
  const std::uint64_t unit = lines ? 8 : 1;    // words
  const auto kept_of_unit = [&](std::uint64_t stores, std::uint64_t word) {
    return lines ? stores > (word + 7) % 8 : stores == 1;  // the header is stored last
  };
  std::uint64_t all = 1;
  for (std::uint64_t i = 0; i < count / unit; ++i) all *= states;
  for (std::uint64_t kept = 0; kept + 1 < all; kept += lines ? 1 : 1 + kept % 3) {
    std::uint64_t rest = kept;
    for (std::uint64_t i = 0; i < count; ++i) {
      ring.words[i] = kept_of_unit(rest % states, i % unit) ? whole[i] : 0;
      if (i % unit == unit - 1) rest /= states;
    }
    *ring.head_word = sealed_head;
    image.word(kStateOffset + offsetof(StatePage, retired_stamp)) = seal(0, kSaltRetired);
    restart();
    auto before = logs->recover(domain);
    ASSERT_TRUE(before.ok()) << "kept " << kept << ": " << before.error().message;
    ASSERT_EQ(before->records_replayed, 0u);
    append(0, 1, {{heap(), 42, kWholeWord}});
    restart();
    auto after = logs->recover(domain);
    ASSERT_TRUE(after.ok()) << "kept " << kept << ": " << after.error().message;
    ASSERT_EQ(after->records_replayed, 1u) << "kept " << kept;
  }
}

/// A power cut takes the end of a log, never its middle.
TEST_P(LogAreaTest, AMissingRecordBeforeAnotherIsDamage) {
  if (GetParam() != RingLayout::kLines) return;  // torn bits do not tell
  for (std::uint64_t i = 0; i < 3; ++i) append(0, 1 + i, {{heap(i), 1, kWholeWord}});
  const Ring ring = logs->slot(0).log->ring();
  const Image before = image;
  for (std::uint64_t line = 0; line < 3; ++line) {
    for (std::uint64_t zeroed = 1; line + zeroed <= 3; ++zeroed) {
      image = before;
      std::fill_n(ring.words + line * 8, zeroed * 8, 0);
      restart();
      auto report = logs->recover(domain);
      ASSERT_EQ(report.ok(), line + zeroed == 3) << line << ' ' << zeroed;
      if (report.ok()) {
        ASSERT_EQ(report->records_replayed, line);
      } else {
        ASSERT_NE(report.error().message.find("is missing, but one at word"), std::string::npos);
      }
    }
  }
}

TEST_P(LogAreaTest, TheOtherLayoutIsReadAndThenReplaced) {
  const RingLayout other =
      GetParam() == RingLayout::kLines ? RingLayout::kTornbit : RingLayout::kLines;
  append(0, 1, {{heap(), 1, kWholeWord}});
  append(1, 2, {{heap(1), 2, kWholeWord}});
  restart();
  EXPECT_EQ(logs->recover(domain).value().records_replayed, 2u);
  ASSERT_TRUE(logs->lay_out(domain, other));
  restart();
  EXPECT_TRUE(logs->is_virgin(0)) << "durably";
  EXPECT_EQ(logs->recover(domain).value().last_stamp, 2u);
  append(0, 3, {{heap(2), 3, kWholeWord}});
  restart();
  EXPECT_EQ(logs->recover(domain).value().records_replayed, 1u);
  EXPECT_EQ(image.word(heap(2)), 3u);
}

TEST_P(LogAreaTest, ADamagedRecordIsRefusedAndNothingIsWritten) {
  append(0, 1, {{heap(), 1, kWholeWord}});
  append(1, 2, {{heap(1), 2, kWholeWord}, {heap(9), 3, 0xff}});
  image.word(region->superblock().ring_offset + kPageBytes + 2 * kWordBytes) ^= 16;
  const Image before = image;
  EXPECT_EQ(recovery_error(), Code::kCorrupt);
  EXPECT_TRUE(image == before);
}

TEST_P(LogAreaTest, EveryFlippedBitOfAStampIsFound) {
  std::vector<Word> words(1, 0);
  record::encode_entries(std::vector<MaskedWrite>{{heap(), 1, kWholeWord}}, words);
  const std::span<const Word> entries(words.data() + 1, words.size() - 1);
  for (const std::uint64_t timestamp : {std::uint64_t{5}, std::uint64_t{0x123456789a}}) {
    const Word header = record::header(timestamp, entries);
    int missed = 0;
    for (int bit = 0; bit < 64; ++bit) {
      const Word flipped = header ^ (Word{1} << bit);
      missed += record::header(flipped & kMax48, entries) == flipped ? 1 : 0;
    }
    EXPECT_EQ(missed, 0) << "timestamp " << timestamp;
  }
}

TEST_P(LogAreaTest, TwoRecordsWithOneTimestampAreRefused) {
  append(0, 3, {{heap(), 1, kWholeWord}});
  append(1, 3, {{heap(1), 1, kWholeWord}});
  EXPECT_EQ(recovery_error(), Code::kCorrupt);
}

TEST_P(LogAreaTest, RecordsMayWriteDataOnly) {
  const Superblock super = region->superblock();
  const std::vector<Offset> forbidden = {
      0,
      kStateOffset,
      super.head_offset,
      super.segment_table_offset + region->segments() * kWordBytes,
      super.ring_offset,
      super.heap_offset - kWordBytes,
      region->grown_bytes(),
      (Word{1} << 47) - kWordBytes};
  for (const Offset offset : forbidden) {
    image = Image::formatted();
    restart();
    append(0, 1, {{heap(), 1, kWholeWord}, {offset, 1, kWholeWord}});
    const Image before = image;
    EXPECT_EQ(recovery_error(), Code::kCorrupt) << offset;
    EXPECT_TRUE(image == before) << offset;
  }
  for (const Offset offset : {super.root_offset, super.segment_table_offset, heap(),
                              region->grown_bytes() - kWordBytes}) {
    image = Image::formatted();
    restart();
    append(0, 1, {{offset, image.word(offset), kWholeWord}});
    restart();
    EXPECT_TRUE(logs->recover(domain).ok()) << offset;
  }
}

TEST_P(LogAreaTest, SpilledEntriesAreReadBeforeReplayOverwritesThem) {
  std::vector<Word> spilled;
  record::encode_entries(
      std::vector<MaskedWrite>{{heap(8), 88, kWholeWord}, {heap(100), 77, kWholeWord}}, spilled);
  for (std::size_t i = 0; i < spilled.size(); ++i) image.word(heap(100 + i)) = spilled[i];
  append_words(0, 1,
               {0, record::entry_head(heap(100), 1, record::Kind::kSpill) | record::kLast,
                spilled.size(), crc32c(spilled.data(), spilled.size() * kWordBytes)});
  restart();
  EXPECT_EQ(logs->recover(domain).value().words_replayed, 2u);
  EXPECT_EQ(image.word(heap(8)), 88u);
  EXPECT_EQ(image.word(heap(100)), 77u);
}

TEST_P(LogAreaTest, WhatWasInitialisedInPlaceIsNotReplacedByWhatOlderRecordsSay) {
  append(0, 1, {{heap(1), 11, kWholeWord}, {heap(2), 12, kWholeWord}, {heap(5), 15, 0xff}});
  append(0, 2, {{heap(3), 23, kWholeWord}});
  // Words 2 to 5, and of a later change of one of them.
  image.word(heap(2)) = 102;
  image.word(heap(3)) = 103;
  image.word(heap(5)) = 105;
  append_words(1, 3,
               {0, record::entry_head(heap(2), 4, record::Kind::kInPlace),
                record::entry_head(heap(9), 1, record::Kind::kRun) | record::kLast, 39});
  append(0, 4, {{heap(3), 43, kWholeWord}});
  restart();
  EXPECT_EQ(logs->recover(domain).value().words_replayed, 3u);
  EXPECT_EQ(image.word(heap(1)), 11u);
  EXPECT_EQ(image.word(heap(2)), 102u);
  EXPECT_EQ(image.word(heap(3)), 43u);
  EXPECT_EQ(image.word(heap(5)), 105u);
  EXPECT_EQ(image.word(heap(9)), 39u);
}

TEST_P(LogAreaTest, OnlyTheHeapIsInitialisedInPlace) {
  for (const Offset begin : {region->superblock().root_offset, region->grown_bytes() - kWordBytes,
                             region->superblock().heap_offset - kWordBytes}) {
    image = Image::formatted();
    restart();
    append_words(0, 1,
                 {0, record::entry_head(begin, 2, record::Kind::kInPlace),
                  record::entry_head(heap(9), 1, record::Kind::kRun) | record::kLast, 39});
    EXPECT_EQ(recovery_error(), Code::kCorrupt) << begin;
  }
}

TEST_P(LogAreaTest, DamagedOrForeignSpillsAreRefused) {
  std::vector<Word> spilled;
  record::encode_entries(std::vector<MaskedWrite>{{heap(8), 88, kWholeWord}}, spilled);
  const Word crc = crc32c(spilled.data(), spilled.size() * kWordBytes);
  const auto try_spill = [&](Offset at, Word count, Word check) {
    image = Image::formatted();
    restart();
    for (std::size_t i = 0; i < spilled.size(); ++i) image.word(heap(100 + i)) = spilled[i];
    append_words(
        0, 1, {0, record::entry_head(at, 1, record::Kind::kSpill) | record::kLast, count, check});
    return recovery_error();
  };
  EXPECT_EQ(try_spill(heap(100), spilled.size(), crc ^ 1), Code::kCorrupt);
  EXPECT_EQ(try_spill(heap(101), spilled.size(), crc), Code::kCorrupt);
  EXPECT_EQ(try_spill(heap(100), 0, 0), Code::kCorrupt);
  EXPECT_EQ(try_spill(heap(100), Word{1} << 61, crc), Code::kCorrupt)
      << "a count whose bytes overflow";
  EXPECT_EQ(try_spill(0, spilled.size(), crc), Code::kCorrupt);
  EXPECT_EQ(try_spill(region->grown_bytes() - kWordBytes, spilled.size(), crc), Code::kCorrupt);
}

TEST_P(LogAreaTest, EveryFlippedBitOfAHeadOrOfTheRetiredTimestampIsNamedWithItsByte) {
  const Offset head = region->superblock().head_offset + kLineBytes;
  const Offset retired = kStateOffset + offsetof(StatePage, retired_stamp);
  for (int bit = 0; bit < 64; ++bit) {
    image.word(head) ^= Word{1} << bit;
    region = image.region().value();
    auto opened = LogArea(*region).open();
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, Code::kCorrupt);
    EXPECT_NE(opened.error().message.find(std::to_string(head)), std::string::npos)
        << opened.error().message;
    image.word(head) ^= Word{1} << bit;

    image.word(retired) ^= Word{1} << bit;
    EXPECT_EQ(recovery_error(), Code::kCorrupt);
    image.word(retired) ^= Word{1} << bit;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LogAreaTest,
                         ::testing::Values(RingLayout::kLines, RingLayout::kTornbit),
                         [](const auto& layout) {
                           return layout.param == RingLayout::kLines ? "Lines" : "Tornbit";
                         });

}  // namespace
}  // namespace perdure
