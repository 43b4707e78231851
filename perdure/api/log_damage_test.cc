// SPDX-License-Identifier: BSD-3-Clause
// Sectors of a live log on a file that are damaged between a kill and the next open: the records that
// stood there are missed, wherever in the log it was, and whatever it read like.
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/api/pool_core.h"
#include "perdure/expert.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

constexpr std::uint64_t kSector = 512;
constexpr std::uint64_t kRing = std::uint64_t{64} << 10;
struct Numbers {
  std::array<std::uint64_t, 4> of;  // the last commit of each thread
};

/// How often the log has come around its end before, and how many threads commit.
struct Case {
  std::uint64_t laps;
  std::size_t threads;
};

class LogDamage : public ::testing::TestWithParam<Case> {
 protected:
  static ExpertOptions options() {
    ExpertOptions options;
    options.domain = DomainKind::kSync;
    options.truncation = Truncation::kWhenFull;
    options.capacity_bytes = std::uint64_t{4} << 20;
    options.segment_bytes = std::uint64_t{128} << 10;
    options.ring_bytes = kRing;
    options.log_slots = 4;
    return options;
  }
  /// Leaves a log that is more than half full, in the lap that the case asks for.
  void make() {
    Pool::create(path_, options()).value().root<Numbers>("numbers");
    EXPECT_EQ(testing::in_child([&]() -> int {
                Pool pool = Pool::open(path_, options()).value();
                auto* numbers = pool.root<Numbers>("numbers");
                const auto& log = core_of(pool).logs().slot(0).log;
                const std::uint64_t words = kRing / kWordBytes;
                const std::uint64_t start = log->tail();
                std::vector<std::thread> threads;
                for (std::size_t t = 0; t < GetParam().threads; ++t) {
                  threads.emplace_back([&, t] {
                    for (std::uint64_t n = 1;
                         log->tail() - start < GetParam().laps * words + words * 6 / 10; ++n)
                      pool.atomically([&](Tx& tx) { tx.store(numbers->of[t], n); });
                  });
                }
                for (auto& thread : threads) thread.join();
                ::_exit(0);
              }),
              0);
    Pool pool = Pool::inspect(path_).value();
    ring_ = core_of(pool).region().superblock().ring_offset;
    whole_ = pool.find_root<Numbers>("numbers")->of;
    records_ = pool.recovery().records_replayed;
  }
  /// What is there if `bytes` stand at `at`; nothing: the pool is refused.
  std::optional<Numbers> with(Offset at, const std::string& bytes) {
    const std::string before = testing::contents_of(path_).substr(at, bytes.size());
    put(at, bytes);
    std::optional<Numbers> found;
    auto pool = Pool::inspect(path_);
    if (pool) {
      found = *pool->find_root<Numbers>("numbers");
    } else {
      EXPECT_EQ(pool.error().code, Code::kCorrupt) << pool.error().message;
    }
    put(at, before);
    return found;
  }
  void put(Offset at, const std::string& bytes) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "pool";
  Offset ring_ = 0;
  std::array<std::uint64_t, 4> whole_{};
  std::uint64_t records_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Laps, LogDamage,
                         ::testing::Values(Case{0, 1}, Case{1, 1}, Case{2, 1}, Case{3, 1},
                                           Case{0, 4}, Case{1, 4}),
                         [](const auto& of) {
                           return "Lap" + std::to_string(of.param.laps) + "Of" +
                                  std::to_string(of.param.threads);
                         });

TEST_P(LogDamage, NoSectorIsMissedButWhereTheLogEnds) {
  make();
  ASSERT_GT(records_, 100U);
  const std::string file = testing::contents_of(path_);
  int refused = 0;
  int silent = 0;
  std::string flipped(kSector, '\0');
  for (Offset at = ring_; at < ring_ + kRing; at += kSector) {
    for (std::size_t i = 0; i < kSector; ++i) flipped[i] = static_cast<char>(~file[at + i]);
    for (const std::string& bytes :
         {std::string(kSector, '\0'), std::string(kSector, '\xff'), flipped}) {
      const auto found = with(at, bytes);
      if (!found) {
        ++refused;
      } else if (found->of != whole_) {
        ++silent;
      }
    }
  }
  EXPECT_GT(refused, 40);
  // The sectors of the last write that the device acknowledged: nothing behind it tells of it.
  EXPECT_LE(silent, GetParam().threads == 1 ? 3 : 6) << refused << " refused";
}

}  // namespace
}  // namespace perdure
