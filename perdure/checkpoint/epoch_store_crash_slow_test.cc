// SPDX-License-Identifier: BSD-3-Clause
// Every crash during a run of epochs, and of the recovery after it, leaves exactly one epoch: the
// last that was acknowledged, or the next. And without any one of the barriers and rules it does
// not.
#include <malloc.h>

#include <optional>

#include <gtest/gtest.h>

#include "perdure/checkpoint/epoch_store.h"
#include "perdure/checkpoint/recorded_storage_test.h"

namespace perdure::checkpoint {
namespace {

constexpr std::uint64_t kCapacity = std::uint64_t{64} << 10;
constexpr std::uint64_t kLogBytes = 16 << 10;
constexpr std::uint64_t kPages = kCapacity / kPageBytes;

struct Plan {
  std::uint64_t seed = 1;
  bool power = true;
  int epochs = 12;
  int reopen_every = 5;  // as after a kill: what is on its way stays so
  int torn_per_crash = 2;
  bool crash_in_recovery = true;
  EpochStore::Rules rules{};
  std::optional<Barrier> dropped{};
};

struct Outcome {
  std::uint64_t images = 0;
  std::uint64_t failures = 0;
  std::string first;
};

class Run {
 public:
  explicit Run(const Plan& plan)
      : plan_(plan), random_(plan.seed), image_(kCapacity), file_(Bytes{}) {
    super_ = EpochStore::plan("test", kCapacity, kLogBytes, 0x200000000000).value();
    file_ = RecordedStorage(Bytes(file_bytes(super_)));
    EpochStore::format(file_, super_);
    file_.sync(Barrier::kCommit);
    golden_.push_back(image_);
    if (plan.dropped) file_.dropped = &*plan.dropped;
  }

  Outcome run() {
    file_.before_change = [this](Offset offset) {
      bring_home_at(offset);
      look();
      look_at_penultimate();
    };
    open();
    for (int turn = 1; turn <= plan_.epochs; ++turn) {
      countdown_ = static_cast<int>(random_() % 2);
      const auto changes = change();
      golden_.push_back(image_);
      store_->commit(changes, image_.data()).value();
      countdown_ = -1;
      // Commits that do not sync vouch for nothing that a crash takes.
      if (plan_.power) acknowledged_ = store_->epoch();
      look();
      look_at_penultimate();
      if (random_() % 3 == 0) store_->bring_home().value();
      if (turn % plan_.reopen_every == 0) open();
    }
    return outcome_;
  }

 private:
  EpochStore::Options options() {
    return {plan_.power, kLogBytes, plan_.rules, [this] { return salts_(); }};
  }
  void open() {
    store_.reset();
    store_ = EpochStore::open(file_, file_, "test", options()).value();
    check_epoch(*store_, file_, store_->epoch(), "reopened");
    // Recovery vouches for what it found.
    acknowledged_ = store_->epoch();
  }

  std::vector<Change> change() {
    std::map<std::uint32_t, std::uint64_t> masks;
    std::vector<Change> changes;
    const int count = 1 + static_cast<int>(random_() % 5);
    for (int i = 0; i < count; ++i) {
      const auto page = static_cast<std::uint32_t>(random_() % kPages);
      masks[page] |= random_() % 8 == 0 ? ~std::uint64_t{0} : std::uint64_t{1} << (random_() % 64);
    }
    for (const auto& [page, mask] : masks) {
      const bool zeros = mask == ~std::uint64_t{0} && random_() % 2 == 0;
      for (std::uint32_t block = 0; block < 64; ++block) {
        if ((mask >> block & 1) == 0) continue;
        std::byte* at = image_.data() + page * kPageBytes + block * kLineBytes;
        for (std::size_t byte = 0; byte < kLineBytes; ++byte)
          at[byte] = zeros ? std::byte{0} : static_cast<std::byte>(random_());
      }
      changes.push_back({page, zeros ? 1u : 0u, mask});
    }
    return changes;
  }

  /// The thread that brings home runs at any moment of a commit that appends.
  void bring_home_at(Offset offset) {
    if (offset <= super_.segment_offset[0] || offset == super_.segment_offset[1] ||
        offset == ~Offset{0} || countdown_ < 0 || countdown_-- != 0)
      return;
    store_->bring_home().value();
  }

  /// The file as a crash at this moment may leave it, in several ways.
  void look() {
    if (looking_) return;
    looking_ = true;
    recover(file_.durable, "nothing of what was on its way");
    recover(file_.visible, "all of it");
    for (int i = 0; i < plan_.torn_per_crash; ++i) recover(file_.torn(random_), "torn");
    looking_ = false;
  }

  void recover(const Bytes& image, const std::string& how) {
    ++outcome_.images;
    RecordedStorage file(image);
    std::vector<Bytes> crashes;  // of this recovery
    if (plan_.crash_in_recovery) {
      file.before_change = [&](Offset) {
        crashes.push_back(file.durable);
        crashes.push_back(file.visible);
        crashes.push_back(file.torn(random_));
      };
    }
    if (plan_.dropped) file.dropped = &*plan_.dropped;
    auto store = EpochStore::open(file, file, "crash", options());
    if (!store) return fail(how + ": " + store.error().message);
    const std::uint64_t epoch = store.value()->epoch();
    check_epoch(*store.value(), file, epoch, how);
    if (plan_.crash_in_recovery && random_() % 4 == 0) {
      crashes.push_back(file.durable);
      file.before_change = nullptr;
      for (const Bytes& left : crashes) recover_again(left, epoch, how);
      // And the log goes on.
      Bytes next = golden_[std::min<std::size_t>(epoch, golden_.size() - 1)];
      next[0] ^= std::byte{1};
      const Change change{0, 0, 1};
      store.value()->commit({&change, 1}, next.data()).value();
      recover_again(plan_.power ? file.durable : file.visible, epoch + 1, "a commit later", &next);
    }
  }

  void recover_again(const Bytes& image, std::uint64_t epoch, const std::string& how,
                     const Bytes* expected = nullptr) {
    ++outcome_.images;
    RecordedStorage file(image);
    auto store = EpochStore::open(file, file, "second crash", options());
    if (!store) return fail(how + ", crash in recovery: " + store.error().message);
    if (store.value()->epoch() != epoch)
      return fail(how + ", crash in recovery: epoch " + std::to_string(store.value()->epoch()) +
                  " instead of " + std::to_string(epoch));
    if (expected == nullptr) return check_epoch(*store.value(), file, epoch, how + ", again");
    if (memory(*store.value(), file) != *expected) fail(how + ": another image");
  }

  /// With the last commit spoilt, the epoch before it is there.
  void look_at_penultimate() {
    if (looking_ || !store_ || store_->epoch() < 2) return;
    const std::uint64_t epoch = store_->epoch();
    Bytes image = file_.visible;
    for (std::size_t at = image.size() - sizeof(Record) + 1; at-- > kHomeOffset + kCapacity;) {
      Record record{};
      if (at % 32 != 0) continue;
      std::memcpy(&record, image.data() + at, sizeof(record));
      if (record.kind != RecordKind::kCommit) continue;
      if (record.epoch == epoch + 1) return;  // the last one is that already
      if (record.epoch == epoch) image[at] ^= std::byte{1};
    }
    ++outcome_.images;
    RecordedStorage file(image);
    // It may have been durable, and the next segment begun behind it.
    auto accepting = options();
    accepting.accept_older = true;
    auto store = EpochStore::open(file, file, "spoilt", accepting);
    if (!store) return fail("the last epoch spoilt: " + store.error().message);
    if (store.value()->epoch() != epoch - 1) {
      return fail("the last epoch spoilt: epoch " + std::to_string(store.value()->epoch()) +
                  " instead of " + std::to_string(epoch - 1));
    }
    if (memory(*store.value(), file) != golden_[epoch - 1]) fail("the last epoch spoilt: a mix");
  }

  static Bytes memory(EpochStore& store, RecordedStorage& file) {
    Bytes memory(kCapacity);
    file.read(memory.data(), kCapacity, kHomeOffset);
    store
        .for_each_piece_of_last([&](const Piece& piece) {
          std::byte* to = memory.data() + piece.page * kPageBytes + piece.at;
          if (piece.data == nullptr) {
            std::memset(to, 0, piece.bytes);
          } else {
            std::memcpy(to, piece.data, piece.bytes);
          }
        })
        .value();
    return memory;
  }

  void check_epoch(EpochStore& store, RecordedStorage& file, std::uint64_t epoch,
                   const std::string& how) {
    if (epoch < acknowledged_ || epoch >= golden_.size())
      return fail(how + ": epoch " + std::to_string(epoch) + ", acknowledged is " +
                  std::to_string(acknowledged_));
    if (memory(store, file) != golden_[epoch]) fail(how + ": not the image of its epoch");
  }
  void fail(const std::string& what) {
    if (outcome_.failures++ == 0)
      outcome_.first = "seed " + std::to_string(plan_.seed) + ", epoch " +
                       std::to_string(golden_.size() - 1) + ": " + what;
  }

  Plan plan_;
  std::mt19937_64 random_;
  ArenaSuperblock super_{};
  int countdown_ = -1;
  std::mt19937_64 salts_{99};
  Bytes image_;
  RecordedStorage file_;
  std::vector<Bytes> golden_;
  std::unique_ptr<EpochStore> store_;
  std::uint64_t acknowledged_ = 0;
  bool looking_ = false;
  Outcome outcome_;
};

Outcome runs(Plan plan, int count) {
  ::mallopt(M_MMAP_THRESHOLD, 64 << 20);  // images come and go: not a mapping for each
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
  Outcome all;
  for (int i = 0; i < count; ++i) {
    plan.seed = static_cast<std::uint64_t>(i) + 1;
    Outcome one;
    try {
      one = Run(plan).run();
    } catch (const std::exception& error) {
      one.failures = 1;
      one.first = "seed " + std::to_string(plan.seed) + ": " + error.what();
    }
    all.images += one.images;
    if (all.failures == 0) all.first = one.first;
    all.failures += one.failures;
    if (all.failures > 0) break;
  }
  return all;
}

TEST(EpochStoreCrash, EveryCrashLeavesTheLastAcknowledgedEpochOrTheNext) {
  Plan plan;
  plan.epochs = 16;
  const Outcome outcome = runs(plan, 2);
  EXPECT_EQ(outcome.failures, 0u) << outcome.first;
  EXPECT_GT(outcome.images, 2500u);
  RecordProperty("images", static_cast<int>(outcome.images));
}

TEST(EpochStoreCrash, CommitsThatDoNotSyncLoseTheNewestEpochsOnly) {
  Plan plan;
  plan.power = false;
  plan.epochs = 16;
  const Outcome outcome = runs(plan, 2);
  EXPECT_EQ(outcome.failures, 0u) << outcome.first;
  EXPECT_GT(outcome.images, 2500u);
}

struct Mutant {
  const char* name;
  bool power;
  std::optional<Barrier> dropped;
  EpochStore::Rules rules;
};
class EpochStoreMutants : public testing::TestWithParam<Mutant> {};

// The runs in which mutants are looked for: all is well without them.
TEST(EpochStoreCrash, WithoutAMutantTheSameRunsPass) {
  for (const bool power : {true, false}) {
    Plan plan;
    plan.power = power;
    plan.epochs = 30;
    plan.torn_per_crash = 6;
    plan.crash_in_recovery = false;
    const Outcome outcome = runs(plan, 2);
    EXPECT_EQ(outcome.failures, 0u) << outcome.first;
  }
}

TEST_P(EpochStoreMutants, AreNoticed) {
  Plan plan;
  plan.power = GetParam().power;
  plan.dropped = GetParam().dropped;
  plan.rules = GetParam().rules;
  plan.epochs = 30;
  plan.torn_per_crash = 6;
  plan.crash_in_recovery = false;
  const Outcome outcome = runs(plan, 20);
  EXPECT_GT(outcome.failures, 0u) << outcome.images << " images, and no failure";
  SCOPED_TRACE(outcome.first);
}

INSTANTIATE_TEST_SUITE_P(
    All, EpochStoreMutants,
    testing::Values(Mutant{"CommitSync", true, Barrier::kCommit, {}},
                    Mutant{"SegmentSync", false, Barrier::kSegment, {}},
                    Mutant{"HomeSync", true, Barrier::kHome, {}},
                    Mutant{"StateSync", true, Barrier::kState, {}},
                    Mutant{"AcceptSync", false, Barrier::kAccept, {}},
                    Mutant{"SegmentReusedTooEarly", true, {}, {false, true, true}},
                    Mutant{"HomeBeforeANewerCommit", true, {}, {true, false, true}},
                    Mutant{"UncheckedRecords", true, {}, {true, true, false}}),
    [](const auto& mutant) { return std::string(mutant.param.name); });

}  // namespace
}  // namespace perdure::checkpoint
