// SPDX-License-Identifier: BSD-3-Clause
// Transactions on a file that write much more than its log holds.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/expert.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::in_child;
using testing::kSanitized;
using testing::TempDir;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBytes = (kSanitized ? 36 : 48) * kMiB;  // more than is settled at once
struct Root {
  pptr<char> bytes;
  std::uint64_t count = 0;
};

class LargeTransactions : public ::testing::Test {
 protected:
  static ExpertOptions options() {
    ExpertOptions options;
    options.domain = DomainKind::kSync;
    options.capacity_bytes = 4 * kBytes;
    return options;
  }
  /// What is to be at `at` after the transaction of this number.
  static char value(std::uint64_t number, std::size_t at) {
    return static_cast<char>(number * 31 + at / 5 + at / 4096);
  }
  static std::vector<char> piece_of(std::uint64_t number, std::size_t at, std::size_t bytes) {
    std::vector<char> piece(bytes);
    for (std::size_t i = 0; i < bytes; ++i) piece[i] = value(number, at + i);
    return piece;
  }
  static char* begin(Pool& pool) {
    auto* root = pool.root<Root>("root");
    return pool.read_only([&](Tx& tx) { return tx.at(tx.load(root->bytes)); });
  }
  void create() {
    Pool pool = Pool::create(path_, options()).value();
    auto* root = pool.root<Root>("root");
    pool.atomically([&](Tx& tx) {
      auto* bytes = static_cast<char*>(tx.allocate(kBytes));
      tx.store(root->bytes, tx.link_to(bytes));
    });
  }
  /// One transaction over [from, end).
  static void overwrite(Pool& pool, std::uint64_t number, std::size_t from, std::size_t end,
                        std::size_t piece, Durability durability = Durability::kStrict) {
    char* const bytes = begin(pool);
    pool.atomically(durability, [&](Tx& tx) {
      for (std::size_t at = from; at < end; at += piece) {
        const std::vector<char> data = piece_of(number, at, std::min(piece, end - at));
        tx.write(bytes + at, data.data(), data.size());
      }
    });
  }
  static void expect(Pool& pool, std::uint64_t number, std::size_t from, std::size_t end) {
    char* const bytes = begin(pool);
    std::vector<char> found(end - from);
    pool.read_only([&](Tx& tx) { tx.read(found.data(), bytes + from, found.size()); });
    EXPECT_EQ(found, piece_of(number, from, end - from));
  }

  TempDir dir_;
  const std::string path_ = dir_ / "pool";
};

TEST_F(LargeTransactions, AreThereAfterAKill) {
  create();
  const std::uint64_t rounds = kSanitized ? 1 : 3;  // a slow one takes a minute
  for (std::uint64_t number = 1; number <= rounds; ++number) {
    const std::size_t piece = number == 1 ? kPageBytes : number == 2 ? kMiB : 100001;
    EXPECT_EQ(in_child([&]() -> int {
                Pool pool = Pool::open(path_, options()).value();
                if (number > 1) expect(pool, number - 1, 0, kBytes);
                overwrite(pool, number, 0, kBytes, piece,
                          number == 2 ? Durability::kRelaxed : Durability::kStrict);
                expect(pool, number, 0, kBytes);
                if (number == 2) pool.sync();
                ::_exit(::testing::Test::HasFailure() ? 1 : 0);  // the pool is not closed
              }),
              0);
  }
  Pool pool = Pool::open(path_, options()).value();
  expect(pool, rounds, 0, kBytes);
}

TEST_F(LargeTransactions, ThatFailLeaveNothing) {
  create();
  {
    Pool pool = Pool::open(path_, options()).value();
    overwrite(pool, 1, 0, kBytes, kMiB);
    char* const bytes = begin(pool);
    EXPECT_THROW(pool.atomically([&](Tx& tx) {
      const std::vector<char> data = piece_of(2, 0, kBytes);
      tx.write(bytes, data.data(), data.size());
      throw std::runtime_error("no");
    }),
                 std::runtime_error);
    expect(pool, 1, 0, kBytes);
    // Its record finds no space: the pool holds four times that much, and two are taken.
    void* const other = pool.atomically([&](Tx& tx) { return tx.allocate(2 * kBytes); });
    EXPECT_EQ(testing::code_thrown_by([&] { overwrite(pool, 2, 0, kBytes, kMiB); }), "no-space");
    expect(pool, 1, 0, kBytes);
    pool.atomically([&](Tx& tx) { tx.free(other); });
    overwrite(pool, 3, 0, kBytes, kMiB);
  }
  Pool pool = Pool::open(path_, options()).value();
  expect(pool, 3, 0, kBytes);
}

TEST_F(LargeTransactions, OfTwoThreadsAndSmallOnesBesideThem) {
  create();
  constexpr std::uint64_t kRounds = kSanitized ? 2 : 4;
  constexpr std::size_t kHalf = kBytes / 2;
  std::uint64_t counted = 0;
  {
    Pool pool = Pool::open(path_, options()).value();
    auto* root = pool.root<Root>("root");
    std::atomic<int> busy{2};
    std::vector<std::thread> threads;
    for (std::size_t half = 0; half < 2; ++half) {
      threads.emplace_back([&, half] {
        for (std::uint64_t number = 1; number <= kRounds; ++number)
          overwrite(pool, number, half * kHalf, (half + 1) * kHalf, 65536);
        --busy;
      });
    }
    threads.emplace_back([&] {
      while (busy > 0) {
        pool.atomically([&](Tx& tx) { tx.store(root->count, tx.load(root->count) + 1); });
        ++counted;
      }
    });
    for (auto& thread : threads) thread.join();
    expect(pool, kRounds, 0, kBytes);
  }
  Pool pool = Pool::open(path_, options()).value();
  expect(pool, kRounds, 0, kBytes);
  EXPECT_EQ(pool.root<Root>("root")->count, counted);
  EXPECT_GT(counted, 0U);
}

/// Of this process, in bytes, since clear_peak().
std::size_t peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}
void clear_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

TEST_F(LargeTransactions, TakeLittleMoreThanTwiceTheirSizeInMemory) {
  if (kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
  create();
  const auto measured = [&](auto write) {
    return in_child([&]() -> int {
      Pool pool = Pool::open(path_, options()).value();
      clear_peak();
      const std::size_t before = peak();
      write(pool);
      return static_cast<int>((peak() - before) / kMiB);
    });
  };
  const int mib = kBytes / kMiB;
  EXPECT_LE(measured([](Pool& pool) { overwrite(pool, 1, 0, kBytes, kPageBytes); }), mib * 5 / 2);
  // One that is as long as it, and read by the caller.
  EXPECT_LE(measured([](Pool& pool) { overwrite(pool, 2, 0, kBytes, kBytes); }), mib * 7 / 2);
}

}  // namespace
}  // namespace perdure
