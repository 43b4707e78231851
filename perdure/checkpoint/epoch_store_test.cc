// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/epoch_store.h"

#include <gtest/gtest.h>

#include "perdure/checkpoint/granularity.h"
#include "perdure/checkpoint/recorded_storage_test.h"
#include "tests/small_pool.h"

namespace perdure::checkpoint {
namespace {

using perdure::testing::kSanitized;

constexpr std::uint64_t kCapacity = std::uint64_t{64} << 10;

class EpochStoreTest : public ::testing::Test {
 protected:
  EpochStoreTest()
      : super(EpochStore::plan("test", kCapacity, kLogBytes, 0x200000000000).value()),
        file(Bytes(file_bytes(super))),
        image(kCapacity) {
    EpochStore::format(file, super);
    file.sync(Barrier::kCommit);
  }
  static constexpr std::uint64_t kLogBytes = 16 << 10;
  auto open(RecordedStorage& storage, bool accept_older = false) const {
    EpochStore::Options options;
    options.log_bytes = log_bytes;
    options.accept_older = accept_older;
    return EpochStore::open(storage, storage, "test", options);
  }
  /// Fills page `page` with `value`, in one epoch.
  Result<void> commit(EpochStore& store, std::uint32_t page, int value) {
    std::fill_n(image.begin() + page * std::ptrdiff_t{kPageBytes}, kPageBytes,
                static_cast<std::byte>(value));
    const Change change{page, 0, ~std::uint64_t{0}};
    return store.commit({&change, 1}, image.data());
  }
  static Bytes memory(EpochStore& store, RecordedStorage& storage) {
    Bytes bytes(kCapacity);
    storage.read(bytes.data(), kCapacity, kHomeOffset);
    store
        .for_each_piece_of_last([&](const Piece& piece) {
          std::byte* to = bytes.data() + piece.page * kPageBytes + piece.at;
          if (piece.data != nullptr) std::memcpy(to, piece.data, piece.bytes);
        })
        .value();
    return bytes;
  }

  ArenaSuperblock super;
  RecordedStorage file;
  Bytes image;
  std::uint64_t log_bytes = kLogBytes;  // of a segment; three epochs
};

TEST_F(EpochStoreTest, AFailedSyncIsFinalAndTheEpochsBeforeItSurvive) {
  for (const Barrier failing : {Barrier::kCommit, Barrier::kHome, Barrier::kState}) {
    file = RecordedStorage(Bytes(file_bytes(super)));
    EpochStore::format(file, super);
    file.sync(Barrier::kCommit);
    image.assign(kCapacity, std::byte{0});
    auto store = open(file).value();
    std::vector<Bytes> golden{image};
    Result<void> result;
    for (int epoch = 1; epoch < 20 && result.ok(); ++epoch) {
      if (epoch == 9) file.fail_sync = &failing;
      result = commit(*store, static_cast<std::uint32_t>(epoch) % 16, epoch);
      if (result.ok()) {
        golden.push_back(image);
        result = store->bring_home();
      }
    }
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, Code::kPoisoned);
    const std::uint64_t acknowledged = store->epoch();
    golden.push_back(image);
    // The device works again; the store goes on refusing.
    file.fail_sync = nullptr;
    EXPECT_EQ(commit(*store, 1, 99).error().code, Code::kPoisoned);

    // A power cut now; or a reopening that reads what the device never got, and then the power cut.
    RecordedStorage after_cut(file.durable);
    auto recovered = open(after_cut).value();
    ASSERT_EQ(recovered->epoch(), acknowledged);
    EXPECT_EQ(memory(*recovered, after_cut), golden[acknowledged]);

    auto reopened = open(file).value();
    const std::uint64_t epoch = reopened->epoch();
    ASSERT_GE(epoch, acknowledged);
    RecordedStorage later(file.durable);
    auto again = open(later).value();
    ASSERT_EQ(again->epoch(), epoch) << "what a reopening vouched for is lost";
    EXPECT_EQ(memory(*again, later), golden[epoch]);
  }
}

/// With epochs in both segments, or all in one.
class DamagedEpochStore : public EpochStoreTest,
                          public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  DamagedEpochStore() { log_bytes = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(SegmentsOf, DamagedEpochStore, ::testing::Values(16 << 10, 64 << 10),
                         [](const auto& of) { return std::to_string(of.param >> 10) + "KiB"; });

TEST_P(DamagedEpochStore, AFlippedBitIsRefusedOrTakesBackTheLastEpochOnlyAndNeverCrashes) {
  std::vector<Bytes> golden{image};
  {
    auto store = open(file).value();
    for (int epoch = 1; epoch <= 7; ++epoch) {
      commit(*store, static_cast<std::uint32_t>(epoch) % 16, epoch).value();
      golden.push_back(image);
      if (epoch == 5) store->bring_home().value();
    }
  }
  int refused = 0;
  int taken_back = 0;
  int accepted = 0;
  const auto look = [&](Offset at, std::byte flip) {
    Bytes damaged = file.durable;
    damaged[at] ^= flip;
    RecordedStorage storage(damaged);
    auto store = open(storage);
    if (!store) {
      ++refused;
      ASSERT_EQ(storage.visible, damaged) << "byte " << at << ": refused and changed";
      store = open(storage, true);
      if (!store) return;
      ++accepted;
      const std::uint64_t epoch = store.value()->epoch();
      ASSERT_LT(epoch, 7u);
      ASSERT_GT(store.value()->lost().newest, epoch) << "byte " << at;
      ASSERT_EQ(memory(*store.value(), storage), golden[epoch]) << "byte " << at;
      // It goes on from there, and what was lost is not missed any more.
      const Bytes before = std::exchange(image, golden[epoch]);
      commit(*store.value(), 15, 77).value();
      auto again = open(storage);
      ASSERT_TRUE(again.ok()) << "byte " << at << ": " << again.error().message;
      ASSERT_EQ(again.value()->epoch(), epoch + 1) << "byte " << at;
      ASSERT_EQ(memory(*again.value(), storage), image) << "byte " << at;
      image = before;
      return;
    }
    ASSERT_LE(store.value()->epoch(), 7u);
    ASSERT_GE(store.value()->epoch(), 6u) << "byte " << at;
    if (store.value()->epoch() < 7) ++taken_back;
    ASSERT_EQ(memory(*store.value(), storage), golden[store.value()->epoch()]) << "byte " << at;
  };
  for (Offset at = 0; at < sizeof(super); ++at) look(at, std::byte{4});
  EXPECT_EQ(refused, static_cast<int>(sizeof(super)));
  for (const Offset begin :
       {kStateOffset[0], kStateOffset[1], super.segment_offset[0], super.segment_offset[1]}) {
    for (Offset at = begin; at < begin + 48; ++at) look(at, std::byte{1});
  }
  for (int i = 0; i < 2; ++i) {
    const Offset begin = super.segment_offset[i] + kSegmentHeadBytes;
    for (Offset at = begin; at < begin + 30'000; at += kSanitized ? 101 : 13)
      look(at, std::byte{128});
  }
  EXPECT_GT(taken_back, 30);
  EXPECT_GT(accepted, log_bytes == kLogBytes ? 10 : 100);
}

TEST_P(DamagedEpochStore, ASectorOfZerosIsRefusedOrTakesBackTheLastEpochOnly) {
  std::vector<Bytes> golden{image};
  {
    auto store = open(file).value();
    for (int epoch = 1; epoch <= 7; ++epoch) {
      commit(*store, static_cast<std::uint32_t>(epoch) % 16, epoch).value();
      golden.push_back(image);
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (Offset at = super.segment_offset[i]; at < super.segment_offset[i] + 40'000;
         at += kSectorBytes) {
      RecordedStorage storage(file.durable);
      storage.write(Bytes(kSectorBytes).data(), kSectorBytes, at);
      auto store = open(storage);
      if (!store) continue;
      ASSERT_GE(store.value()->epoch(), 6u) << "byte " << at;
      ASSERT_EQ(memory(*store.value(), storage), golden[store.value()->epoch()]) << "byte " << at;
    }
  }
}

TEST_F(EpochStoreTest, WithoutSyncsAHoleIsToldAndNotRefused) {
  EpochStore::Options options;
  options.power = false;
  {
    auto store = EpochStore::open(file, file, "test", options).value();
    for (int epoch = 1; epoch <= 4; ++epoch) commit(*store, 1, epoch).value();
    EXPECT_EQ(store->lost().newest, 0u);
  }
  file.visible[super.segment_offset[0] + kSegmentHeadBytes + kPageRecordBytes + 100] ^=
      std::byte{1};
  auto store = EpochStore::open(file, file, "test", options).value();
  EXPECT_EQ(store->epoch(), 1u);
  EXPECT_EQ(store->lost().newest, 4u);
  EXPECT_FALSE(store->lost().was_durable);
}

TEST_F(EpochStoreTest, RecordsWithWrongNumbersAndRightChecksumsEndTheLog) {
  const SegmentHead plain{kSegmentMagic, 1, 1, 5, 0, 0};
  SegmentHead head = plain;
  head.crc = crc_of(head);
  const auto opens_with = [&](Record record) {
    RecordedStorage storage(file.durable);
    const Bytes payload(kPageBytes, std::byte{1});
    record.crc = crc_of_record(record, payload.data(), seed_of(head));
    Record commit{0, RecordKind::kCommit, 1, crc32c(&record.crc, 4), 1};
    commit.crc = crc_of_record(commit, nullptr, seed_of(head));
    const Offset at = super.segment_offset[0];
    storage.write(&head, sizeof(head), at);
    storage.write(&record, sizeof(record), at + kSegmentHeadBytes);
    const Offset after = at + kSegmentHeadBytes + sizeof(record);
    storage.write(payload.data(), payload_bytes(record), after);
    storage.write(&commit, sizeof(commit), after + payload_bytes(record));
    return open(storage).value()->epoch();
  };
  constexpr std::uint64_t kPages = kCapacity / kPageBytes;
  EXPECT_EQ(opens_with({0, RecordKind::kPage, 1, kPages - 1, 0}), 1u);
  EXPECT_EQ(opens_with({0, RecordKind::kZeros, 1, 1, kPages - 1}), 1u);
  EXPECT_EQ(opens_with({0, RecordKind::kPage, 1, kPages, 0}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind::kPage, 2, 0, 0}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind::kPage, 1, 0, 1}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind::kBlocks, 1, 0, 0}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind::kBlocks, 1, ~std::uint64_t{0}, 1}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind::kZeros, 1, 1, kPages}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind::kZeros, 1, 1, ~std::uint64_t{0}}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind::kZeros, 1, 0, 0}), 0u);
  EXPECT_EQ(opens_with({0, RecordKind{9}, 1, 0, 0}), 0u);
}

TEST(Granularity, StaysWhatItIsBetweenTheThresholds) {
  Granularity granularity(2);
  EXPECT_FALSE(granularity.whole(1, 22));
  EXPECT_TRUE(granularity.whole(1, 23));
  EXPECT_TRUE(granularity.whole(1, 16));
  EXPECT_FALSE(granularity.whole(1, 15));
  EXPECT_FALSE(granularity.whole(1, 22));
  EXPECT_TRUE(granularity.whole(0, 64));
  EXPECT_FALSE(granularity.whole(1, 1));
}

}  // namespace
}  // namespace perdure::checkpoint
