// SPDX-License-Identifier: BSD-3-Clause
// A hundred backups each of a pool on files and on memory that a thread changes all the time, whole ones and
// changes since the last whole one: each is restored, and is a state of the pool's history, not older than
// what was acknowledged when it was asked for.
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "perdure/api/backup.h"
#include "perdure/expert.h"
#include "tests/pool_history.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::History;

class BackupUnderLoad : public ::testing::TestWithParam<DomainKind> {};

TEST_P(BackupUnderLoad, AHundredAreStatesOfThePool) {
  testing::TempDir dir;
  const std::string path = dir / "pool", base = dir / "base", changes = dir / "changes",
                    restored = dir / "restored";
  ExpertOptions options;
  options.domain = GetParam();
  options.let_others_look = true;
  options.capacity_bytes = std::uint64_t{256} << 20;
  Pool pool = Pool::create(path, options).value();
  History(pool).step();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> told{1};
  std::thread writer([&] {
    History history(pool);
    for (std::uint64_t i = 2; !stop; ++i) {
      history.step(i % 3 == 0 ? Durability::kStrict : Durability::kRelaxed);
      if (i % 3 == 0) told = i;
      if (i % 1000 == 0) pool.checkpoint();
    }
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t acknowledged = told;
    const std::string* backup = &base;
    if (i % 4 == 0) {
      std::filesystem::remove(base);
      back_up_pool(path, base).value();
    } else {
      back_up_changes(path, base, changes).value();
      restore_pool(base, changes, restored).value();
      backup = &restored;
    }
    {
      Pool copy = Pool::inspect(*backup).value();
      const auto state = History(copy).state();
      ASSERT_TRUE(state.has_value()) << "backup " << i << " is no state of the pool";
      EXPECT_GE(*state, acknowledged);
      EXPECT_GE(*state, last);
      last = *state;
    }
    std::filesystem::remove(changes);
    std::filesystem::remove(restored);
  }
  stop = true;
  writer.join();
  EXPECT_GT(last, 100u);
}
INSTANTIATE_TEST_SUITE_P(, BackupUnderLoad, ::testing::Values(DomainKind::kSync, DomainKind::kAdr),
                         [](const auto& of) {
                           return of.param == DomainKind::kSync ? "OnFiles" : "OnMemory";
                         });

}  // namespace
}  // namespace perdure
