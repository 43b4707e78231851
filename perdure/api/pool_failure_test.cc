// SPDX-License-Identifier: BSD-3-Clause
// Storage that fails: whatever call fails, in whatever way, the pool stops, and what it had
// acknowledged is there when it is opened again. The device behaves as the kernel does after a
// failed sync: the data is dropped, and later calls succeed as if nothing had happened.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/domain/sync.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::code_thrown_by;
using testing::Image;

enum class Failure { kNothingArrives, kHalfArrives, kAllArrives };

/// What stands on the platter, and the call that will fail.
struct Disk {
  explicit Disk(const Image& image) : durable(image) {}
  Image durable;
  std::vector<std::pair<Offset, std::vector<std::byte>>> cache;  // written, not yet synced
  std::uint64_t calls = 0;
  std::uint64_t fails_at = ~std::uint64_t{0};
  Failure how = Failure::kNothingArrives;
  bool failed = false;
};

class FailingDevice {
 public:
  explicit FailingDevice(Disk& disk) : disk_(&disk) {}
  bool write(Offset offset, const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    if (!fails()) {
      disk_->cache.push_back({offset, {from, from + bytes}});
      return true;
    }
    const std::size_t arrives = arriving(bytes);
    std::memcpy(disk_->durable.base() + offset, from, arrives);
    return false;
  }
  bool write_durable(Offset offset, const void* data, std::size_t bytes) {
    return write(offset, data, bytes) && sync();
  }
  bool sync() {
    const bool failing = fails();
    const std::size_t arrives =
        failing ? arriving(disk_->cache.size() * kSectorBytes) / kSectorBytes : disk_->cache.size();
    for (std::size_t i = 0; i < arrives; ++i) {
      const auto& [offset, bytes] = disk_->cache[i];
      std::memcpy(disk_->durable.base() + offset, bytes.data(), bytes.size());
    }
    disk_->cache.clear();
    return !failing;
  }

 private:
  bool fails() {
    const bool now = ++disk_->calls == disk_->fails_at;
    disk_->failed = disk_->failed || now;
    return now;
  }
  std::size_t arriving(std::size_t bytes) const {
    if (disk_->how == Failure::kNothingArrives) return 0;
    return disk_->how == Failure::kAllArrives ? bytes : round_down(bytes / 2, kSectorBytes);
  }
  Disk* disk_;
};

struct Pair {
  std::array<std::uint64_t, 8> first;
  std::array<std::uint64_t, 8> second;
  std::array<std::uint64_t, 600> large;
};

/// A pool on a disk: the memory is the private mapping of a file.
class PoolOnDisk {
 public:
  explicit PoolOnDisk(Disk& disk)
      : memory_(disk.durable), group_(FailingDevice(disk), memory_.base()) {
    opened_.emplace(adopt_region(
        memory_.region(DomainKind::kSync).value(), {[this](const EngineParts& parts) {
          return std::make_unique<Redo<Sync<FailingDevice>>>(parts, Sync<FailingDevice>(group_));
        }},
        10));
  }
  Result<Pool>& result() { return *opened_; }
  Pool& pool() { return opened_->value(); }

 private:
  Image memory_;
  SyncGroup<FailingDevice> group_;
  std::optional<Result<Pool>> opened_;
};

constexpr std::uint64_t kSteps = 60;

/// Step `i`: small transactions, now and then one that spills, one that makes the pool grow, one
/// that empties the logs.
void step(Pool& pool, Pair* pair, std::uint64_t i) {
  pool.atomically([&](Tx& tx) {
    for (auto& word : pair->first) tx.store(word, i);
    for (auto& word : pair->second) tx.store(word, i);
    if (i % 8 == 3) {
      for (auto& word : pair->large) tx.store(word, i);
    }
    if (i % 5 == 0) tx.allocate(i % 10 == 0 ? 30000 : 500);
  });
  if (i % 20 == 19) pool.checkpoint();
}

TEST(PoolFailure, WhicheverCallFailsNothingAcknowledgedIsLostAndNothingMoreIsAccepted) {
  const Image fresh = [] {
    Image image =
        Image::formatted({std::uint64_t{1} << 20, std::uint64_t{128} << 10, kPageBytes, 2, 4});
    image.pool().value().root<Pair>("pair");
    return image;
  }();
  for (const Failure how :
       {Failure::kNothingArrives, Failure::kHalfArrives, Failure::kAllArrives}) {
    std::uint64_t fails_at = 1;
    for (bool failed = true; failed; ++fails_at) {
      SCOPED_TRACE("call " + std::to_string(fails_at));
      Disk disk(fresh);
      disk.fails_at = fails_at;
      disk.how = how;
      std::uint64_t acknowledged = 0;
      std::uint64_t attempted = 0;
      {
        PoolOnDisk on(disk);
        if (!on.result().ok()) {
          ASSERT_TRUE(disk.failed);
          ASSERT_EQ(on.result().error().code, Code::kIo);
        } else {
          Pool& pool = on.pool();
          std::string thrown = "nothing";
          Pair* pair = nullptr;
          thrown = code_thrown_by([&] {
            pair = pool.root<Pair>("pair");
            while (attempted < kSteps) {
              step(pool, pair, ++attempted);
              acknowledged = attempted;
            }
          });
          ASSERT_EQ(thrown, disk.failed ? "poisoned" : "nothing");
          if (disk.failed && pair != nullptr) {
            for (int again = 0; again < 3; ++again) {
              ASSERT_EQ(code_thrown_by([&] { step(pool, pair, 1000000); }), "poisoned");
              ASSERT_EQ(code_thrown_by([&] { pool.checkpoint(); }), "poisoned");
            }
            const std::uint64_t seen =
                pool.read_only([&](Tx& tx) { return tx.load(pair->first[0]); });
            ASSERT_TRUE(seen == acknowledged || seen == attempted)
                << "readers still see a committed state";
          }
        }
      }
      failed = disk.failed;
      disk.fails_at = ~std::uint64_t{0};
      disk.cache.clear();  // a power cut
      PoolOnDisk after(disk);
      ASSERT_TRUE(after.result().ok()) << after.result().error().message;
      const auto* pair = after.pool().find_root<Pair>("pair");
      ASSERT_NE(pair, nullptr);
      const std::uint64_t found = pair->first[0];
      ASSERT_GE(found, acknowledged);
      ASSERT_LE(found, attempted);
      for (const std::uint64_t word : pair->first) ASSERT_EQ(word, found);
      for (const std::uint64_t word : pair->second) ASSERT_EQ(word, found);
      for (const std::uint64_t word : pair->large) ASSERT_EQ(word, pair->large[0]);
      ASSERT_EQ(
          code_thrown_by([&] { step(after.pool(), after.pool().root<Pair>("pair"), found + 1); }),
          "nothing");
    }
    EXPECT_GT(fails_at, kSteps) << "every call of the run failed once";
  }
}

// The next pool of the thread may stand where the failed one stood.
TEST(PoolFailure, WhatAFailedPoolStillHadToWriteNeverReachesTheNext) {
  Disk failing(Image::formatted());
  Disk healthy(Image::formatted());
  std::optional<SyncGroup<FailingDevice>> group;
  group.emplace(FailingDevice(failing), failing.durable.base());
  {
    Sync<FailingDevice> domain(*group);
    domain.flush(failing.durable.base(), 8, Site::kUserFlush);
    failing.fails_at = failing.calls + 1;
    EXPECT_FALSE(domain.fence(Site::kUserFence));
    domain.flush(failing.durable.base() + failing.durable.bytes() - kPageBytes, 8,
                 Site::kUserFlush);
    EXPECT_FALSE(domain.fence(Site::kUserFence));
  }
  group.emplace(FailingDevice(healthy), healthy.durable.base());  // at the same address
  Sync<FailingDevice> domain(*group);
  domain.flush(healthy.durable.base(), 8, Site::kUserFlush);
  EXPECT_TRUE(domain.fence(Site::kUserFence));
  EXPECT_EQ(healthy.calls, 2u) << "one page, one sync";
}

}  // namespace
}  // namespace perdure
