// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/epoch_store.h"

#include <gtest/gtest.h>

#include "perdure/checkpoint/granularity.h"
#include "perdure/checkpoint/recorded_storage_test.h"

namespace perdure::checkpoint {
namespace {

constexpr std::uint64_t kCapacity = std::uint64_t{64} << 10;

class EpochStoreTest : public testing::Test {
 protected:
  EpochStoreTest()
      : super(EpochStore::plan("test", kCapacity, kLogBytes, 0x200000000000).value()),
        file(Bytes(file_bytes(super))),
        image(kCapacity) {
    EpochStore::format(file, super);
    file.sync(Barrier::kCommit);
  }
  static constexpr std::uint64_t kLogBytes = 16 << 10;
  static auto open(RecordedStorage& storage) {
    EpochStore::Options options;
    options.log_bytes = kLogBytes;
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

TEST_F(EpochStoreTest, AFlippedBitIsRefusedOrTakesBackTheEndOfTheLogAndNeverCrashes) {
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
  const auto look = [&](Offset at, std::byte flip) {
    Bytes damaged = file.durable;
    damaged[at] ^= flip;
    RecordedStorage storage(damaged);
    auto store = open(storage);
    if (!store) {
      ++refused;
      return;
    }
    ASSERT_LE(store.value()->epoch(), 7u);
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
    for (Offset at = begin; at < begin + 16'000; at += 13) look(at, std::byte{128});
  }
  EXPECT_GT(taken_back, 100);
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
