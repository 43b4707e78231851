// SPDX-License-Identifier: BSD-3-Clause
// The log that all threads share on files: it doubles where that saves writing, keeps its records
// over a kill, and takes its own ring again when the pool is closed.
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/base/crc32c.h"
#include "perdure/domain/sync.h"
#include "perdure/expert.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;
using testing::TempDir;

constexpr std::uint64_t kRing = std::uint64_t{64} << 10;
/// A word in each of so many pages.
constexpr std::uint64_t kPages = 512;
using Table = std::array<std::uint64_t, kPages * kPageBytes / kWordBytes>;

class GrowingLog : public ::testing::Test {
 protected:
  ExpertOptions options() const {
    ExpertOptions options;
    options.domain = DomainKind::kSync;
    options.capacity_bytes = std::uint64_t{64} << 20;
    options.ring_bytes = kRing;
    options.log_slots = 16;
    return options;
  }
  static std::uint64_t length(const Pool& pool) { return core_of(pool).logs().length_bytes(); }
  /// Commits `first` to `last`; each writes its number into 16 pages.
  static void commit(Pool& pool, std::uint64_t first, std::uint64_t last,
                     Durability durability = Durability::kRelaxed) {
    auto* table = pool.root<Table>("table");
    for (std::uint64_t n = first; n <= last; ++n) {
      pool.atomically(durability, [&](Tx& tx) {
        for (std::uint64_t i = 0; i < 16; ++i) tx.store((*table)[place(n, i)], n);
      });
    }
  }
  static std::uint64_t place(std::uint64_t n, std::uint64_t i) {
    return (n * 16 + i) * 37 % kPages * (kPageBytes / kWordBytes) + n % 7;
  }
  static void expect(Pool& pool, std::uint64_t last) {
    std::vector<std::uint64_t> words(std::tuple_size_v<Table>);
    for (std::uint64_t n = 1; n <= last; ++n) {
      for (std::uint64_t i = 0; i < 16; ++i) words[place(n, i)] = n;
    }
    auto* table = pool.root<Table>("table");
    pool.read_only([&](Tx& tx) {
      for (std::uint64_t at = 0; at < words.size(); ++at)
        ASSERT_EQ(tx.load((*table)[at]), words[at]) << at;
    });
  }
  /// `body`, in a process that is killed then.
  template <class Body>
  void in_a_process(Body body) {
    EXPECT_EQ(testing::in_child([&]() -> int {
                Pool pool = Pool::open_or_create(path_, options()).value();
                body(pool);
                pool.sync();
                ::_exit(::testing::Test::HasFailure() ? 1 : 0);  // the pool is not closed
              }),
              0);
  }

  TempDir dir_;
  const std::string path_ = dir_ / "pool";
};

TEST_F(GrowingLog, DoublesAsLongAsPagesTakeMoreWritingThanRecords) {
  {
    Pool pool = Pool::create(path_, options()).value();
    EXPECT_EQ(length(pool), kRing);
    commit(pool, 1, 30000);
    EXPECT_GE(length(pool), 2 * kRing);
    // 512 pages are 2 MiB: with a log of that length records take as much.
    EXPECT_LE(length(pool), 8 * kRing * 4);
    expect(pool, 30000);
  }
  Pool pool = Pool::open(path_, options()).value();
  EXPECT_TRUE(pool.recovery().unchanged);
  EXPECT_EQ(length(pool), kRing) << "a closed pool's log has its own ring";
  expect(pool, 30000);
}

TEST_F(GrowingLog, StaysShortWhereFewPagesAreWritten) {
  Pool pool = Pool::create(path_, options()).value();
  auto* word = pool.root<std::uint64_t>("word");
  for (std::uint64_t n = 1; n <= 20000; ++n)
    pool.atomically(Durability::kRelaxed, [&](Tx& tx) { tx.store(*word, n); });
  EXPECT_EQ(length(pool), kRing);
}

TEST_F(GrowingLog, IsNoLongerThanTheTargetAllows) {
  ExpertOptions bounded = options();
  bounded.recovery_target = Milliseconds(1);
  Pool pool = Pool::create(path_, bounded).value();
  commit(pool, 1, 30000);
  EXPECT_LE(length(pool), kReplayedPerMillisecond);
}

TEST_F(GrowingLog, IsNoLongerThanItsRingInAPoolWithOneSlot) {
  ExpertOptions one = options();
  one.log_slots = 1;
  Pool pool = Pool::create(path_, one).value();
  commit(pool, 1, 10000);
  EXPECT_EQ(length(pool), kRing);
  expect(pool, 10000);
}

TEST_F(GrowingLog, KeepsItsRecordsOverKillAfterKill) {
  std::uint64_t last = 20000;
  const std::string noted = dir_ / "length";
  const auto note_length = [&](const Pool& pool) { std::ofstream(noted) << length(pool); };
  in_a_process([&](Pool& pool) {
    commit(pool, 1, last);
    EXPECT_GE(length(pool), 2 * kRing);
    note_length(pool);
  });
  for (int life = 0; life < 5; ++life) {
    // One of them changes nothing, the others come around the end of the log.
    const std::uint64_t more = life == 1 ? 0 : 37 + 4000 * static_cast<std::uint64_t>(life);
    in_a_process([&](Pool& pool) {
      // The background may have emptied it just before the kill: it then has its own ring again.
      std::uint64_t before = 0;
      ASSERT_TRUE(std::ifstream(noted) >> before);
      EXPECT_GE(length(pool), pool.recovery().records_replayed == 0 ? kRing : before);
      expect(pool, last);
      commit(pool, last + 1, last + more);
      note_length(pool);
    });
    last += more;
  }
  Pool pool = Pool::open(path_, options()).value();
  expect(pool, last);
}

TEST_F(GrowingLog, SeveralThreadsGoOnWhileItDoubles) {
  constexpr std::uint64_t kThreads = 4;
  in_a_process([&](Pool& pool) {
    auto* table = pool.root<Table>("table");
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t n = 1; n <= 10000; ++n) {
          pool.atomically(n % 100 == 0 ? Durability::kStrict : Durability::kRelaxed, [&](Tx& tx) {
            for (std::uint64_t i = 0; i < 16; ++i) tx.store((*table)[place(n, i) / 8 * 8 + t], n);
          });
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_GE(length(pool), 2 * kRing);
  });
  Pool pool = Pool::open(path_, options()).value();
  auto* table = pool.root<Table>("table");
  std::vector<std::uint64_t> words(std::tuple_size_v<Table>);
  for (std::uint64_t n = 1; n <= 10000; ++n) {
    for (std::uint64_t i = 0; i < 16; ++i) words[place(n, i) / 8 * 8] = n;
  }
  pool.read_only([&](Tx& tx) {
    for (std::uint64_t at = 0; at < words.size(); at += 8) {
      for (std::uint64_t t = 0; t < kThreads; ++t) ASSERT_EQ(tx.load((*table)[at + t]), words[at]);
    }
  });
}

/// A file whose log the other domains' engines, and the papers', do not share.
TEST_F(GrowingLog, IsTakenOverByAnEngineWithALogForEachThread) {
  in_a_process([&](Pool& pool) {
    commit(pool, 1, 20000);
    EXPECT_GE(length(pool), 2 * kRing);
  });
  ExpertOptions other = options();
  other.domain = DomainKind::kDram;
  Pool pool = Pool::open(path_, other).value();
  EXPECT_EQ(length(pool), kRing);
  expect(pool, 20000);
  std::thread([&] { commit(pool, 20001, 20100); }).join();
  expect(pool, 20100);
}

TEST_F(GrowingLog, GivesTheDiskBackWhenThePoolIsClosed) {
  struct stat before{};
  struct stat grown{};
  struct stat closed{};
  {
    Pool pool = Pool::create(path_, options()).value();
    commit(pool, 1, 10);
    pool.checkpoint();
    ASSERT_EQ(::stat(path_.c_str(), &before), 0);
    commit(pool, 11, 30000);
    pool.checkpoint();
    ASSERT_GE(length(pool), 4 * kRing);
    ASSERT_EQ(::stat(path_.c_str(), &grown), 0);
  }
  ASSERT_EQ(::stat(path_.c_str(), &closed), 0);
  EXPECT_GE(grown.st_blocks - closed.st_blocks, static_cast<blkcnt_t>(3 * kRing / 512));
}

// ---- storage that fails ---------------------------------------------------------------------------

constexpr Geometry kFourLogs = {std::uint64_t{1} << 20, std::uint64_t{128} << 10, kPageBytes, 4, 4};

/// A pool whose file has no space, or no working sectors, behind the first log's ring.
class PoolOnBadStorage : private Backing {
 public:
  struct Device {
    PoolOnBadStorage* storage;
    bool write(Offset offset, const void*, std::size_t) {
      return storage->sound_ || offset < storage->behind_ring_ ||
             offset >= storage->behind_ring_ + 3 * kPageBytes;
    }
    bool write_durable(Offset offset, const void* data, std::size_t bytes) {
      return write(offset, data, bytes);
    }
    bool sync() { return true; }
  };

  PoolOnBadStorage(bool has_space, bool is_sound) : has_space_(has_space), sound_(is_sound) {
    auto region =
        Region::open_memory(image_.base(), image_.bytes(), image_.bytes(), DomainKind::kSync, *this)
            .value();
    pool = adopt_region(std::move(region), {[&](EngineParts parts) {
                          parts.tuning.log_limit_bytes = 4 * kPageBytes;
                          return std::make_unique<Redo<Sync<Device>>>(parts, Sync<Device>(group_));
                        }},
                        10)
               .value();
  }
  /// A commit that writes a word in each of 16 pages.
  void commit(std::uint64_t n) {
    using Words = std::array<std::uint64_t, 16 * kPageBytes / kWordBytes>;
    auto* words = pool->root<Words>("words");
    pool->atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < 16; ++i) tx.store((*words)[i * kPageBytes / kWordBytes], n);
    });
    EXPECT_EQ((*words)[0], n);
  }
  std::uint64_t length() const { return core_of(*pool).logs().length_bytes(); }

  unsigned asked = 0;  // for space behind the ring

 private:
  const bool has_space_;
  const bool sound_;
  Result<void> extend(std::uint64_t, std::uint64_t) override { return {}; }
  Result<void> allocate(Offset offset, std::uint64_t) override {
    if (offset < behind_ring_ || offset >= behind_ring_ + 3 * kPageBytes) return {};
    ++asked;
    if (has_space_) return {};
    return Error{Code::kNoSpace, "the disk is full"};
  }
  bool tell(Offset, Word) override { return true; }

  Image image_ = Image::formatted(kFourLogs);
  const Offset behind_ring_ = image_.super().ring_offset + kPageBytes;
  SyncGroup<Device> group_{Device{this}, image_.base()};

 public:
  std::optional<Pool> pool;  // last: it uses the rest
};

TEST(GrowingLogOnBadStorage, GrowsWhereThereIsSpace) {
  PoolOnBadStorage storage(true, true);
  for (std::uint64_t n = 1; n <= 100; ++n) storage.commit(n);
  EXPECT_EQ(storage.length(), 4 * kPageBytes);
}

TEST(GrowingLogOnBadStorage, StaysAsItIsWhereThereIsNone) {
  PoolOnBadStorage storage(false, true);
  for (std::uint64_t n = 1; n <= 100; ++n) storage.commit(n);
  EXPECT_EQ(storage.length(), kPageBytes);
  EXPECT_EQ(storage.asked, 1u) << "once is enough";
}

TEST(GrowingLogOnBadStorage, PoisonsWhereItFails) {
  PoolOnBadStorage storage(true, false);
  const auto until_it_fails = [&] {
    for (std::uint64_t n = 1; n <= 100; ++n) storage.commit(n);
  };
  EXPECT_EQ(testing::code_thrown_by(until_it_fails), code_name(Code::kPoisoned));
  EXPECT_EQ(storage.length(), kPageBytes);
  EXPECT_EQ(testing::code_thrown_by([&] { storage.commit(1); }), code_name(Code::kPoisoned));
}

// ---- damage -------------------------------------------------------------------------------------

std::string refusal(Image& image) {
  auto region = image.region(DomainKind::kSync).value();
  LogArea logs(*region);
  auto opened = logs.open();
  return opened ? "" : opened.error().message;
}
void set_head(Image& image, std::uint64_t slot, Word sealed) {
  image.word(image.super().head_offset + slot * kLineBytes) = sealed;
}

TEST(LongLogHead, IsBelievedWhereItsRingsAre) {
  Image image = Image::formatted(kFourLogs);
  const std::uint64_t words = kPageBytes / kWordBytes;
  for (const unsigned times : {1u, 2u}) {
    set_head(image, 0, seal(2 * (words << times), salt_of_long_head(times)));
    EXPECT_EQ(refusal(image), "");
  }
  set_head(image, 0, seal(16 * words, salt_of_long_head(3)));
  EXPECT_NE(refusal(image).find("log 0's head"), std::string::npos) << "eight rings of four";
  set_head(image, 0, seal(4 * words, salt_of_long_head(1)));
  set_head(image, 1, seal(2 * words, kSaltHead));
  EXPECT_NE(refusal(image).find("log 1 (head at byte"), std::string::npos);
  EXPECT_NE(refusal(image).find("a part of log 0"), std::string::npos);
  set_head(image, 1, seal(0, kSaltHead));
  set_head(image, 2, seal(2 * words, salt_of_long_head(1)));
  EXPECT_NE(refusal(image).find("log 2's head"), std::string::npos) << "only the first grows";
}

TEST(LongLogHead, IsNoneBeforeVersion4) {
  Image image = Image::formatted(kFourLogs);
  Superblock super = image.super();
  super.version = kLongLogSinceVersion - 1;
  lay_out(super);
  image.word(kStateOffset) = seal(super.heap_offset + super.geometry.segment_bytes, kSaltGrown);
  super.crc = crc32c(&super, offsetof(Superblock, crc));
  std::memcpy(image.base(), &super, sizeof(super));
  EXPECT_EQ(refusal(image), "");
  set_head(image, 0, seal(2 * 2 * kPageBytes / kWordBytes, salt_of_long_head(1)));
  EXPECT_NE(refusal(image).find("log 0's head"), std::string::npos);
}

}  // namespace
}  // namespace perdure
