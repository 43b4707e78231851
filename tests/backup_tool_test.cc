// SPDX-License-Identifier: BSD-3-Clause
// Commands on a store that a program has open: what looks at it sees a state of it, a backup is one, and what
// would put a copy in its place is refused.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "perdure/pool.h"
#include "tests/cli_fixture.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

class BackupTest : public CliTest {
 protected:
  static constexpr int kRecords = 300;

  void SetUp() override {
    CliTest::SetUp();
    // Commands choose the domain by themselves, and only on files can others look on.
    pool_ = dir_ / "store.pool";
    copy_ = dir_ / "copy.pool";
    create();
    fill(kRecords);
    if (domain() != "sync") GTEST_SKIP() << pool_ << " is in memory";
  }
  std::string domain() { return json_of({"info", pool_, "--json"})["domain"]; }

  testing::TempDir dir_{"/var/tmp/"};
  std::string copy_;
};

TEST_F(BackupTest, CommandsLookAtAStoreThatIsInUse) {
  EXPECT_EQ(json_of({"info", pool_, "--json"})["in_use"], false);
  const Pool pool = Pool::open(pool_).value();
  EXPECT_EQ(json_of({"info", pool_, "--json"})["in_use"], true);
  EXPECT_EQ(run({"kv", "get", pool_, "key 7"}).out, "value 7\n");
  EXPECT_EQ(json_of({"kv", "count", pool_, "--json"})["records"], kRecords);
  EXPECT_EQ(run({"check", pool_}).code, 0);
  EXPECT_EQ(run({"dump", pool_}).code, 0);
  const ToolRun put = run({"kv", "put", pool_, "key", "value"});
  EXPECT_EQ(put.code, 3);
  EXPECT_NE(put.err.find("in use by process " + std::to_string(::getpid())), std::string::npos)
      << put.err;
}

TEST_F(BackupTest, WhatWouldTakeItsPlaceIsRefused) {
  const Pool pool = Pool::open(pool_).value();
  for (const std::string command : {"compact", "salvage"}) {
    const ToolRun refused = run({command, pool_, copy_});
    EXPECT_EQ(refused.code, 3);
    EXPECT_NE(refused.err.find("in use by process"), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(copy_));
  }
}

TEST_F(BackupTest, ABackupIsAPool) {
  ASSERT_EQ(::chmod(pool_.c_str(), 0640), 0);
  for (const bool in_use : {false, true}) {
    std::optional<Pool> pool;
    if (in_use) pool = Pool::open(pool_).value();
    const Json made = json_of({"backup", pool_, copy_, "--json"});
    EXPECT_EQ(made["to"], copy_);
    EXPECT_GT(made["objects"], kRecords);
    EXPECT_EQ(run({"check", copy_}).code, 0);
    EXPECT_EQ(json_of({"kv", "count", copy_, "--json"})["records"], kRecords);
    EXPECT_EQ(run({"kv", "put", copy_, "key", "value"}).code, 0);
    struct stat status{};
    ASSERT_EQ(::stat(copy_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
    EXPECT_EQ(run({"backup", pool_, copy_}).code, 3) << "nothing is overwritten";
    std::filesystem::remove(copy_);
  }
}

TEST_F(BackupTest, DamageIsNotBackedUpUnseen) {
  damage_a_link(kRecords);
  const ToolRun refused = run({"backup", pool_, copy_});
  EXPECT_EQ(refused.code, 3) << refused.err;
  EXPECT_NE(refused.err.find("perdure check"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(copy_));
}

TEST_F(BackupTest, BackupsUnderLoadAreStatesOfTheStore) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    Pool pool = Pool::open(pool_).value();
    auto& pair = *pool.root<std::uint64_t[2]>("pair");
    while (!stop) {
      pool.atomically([&](Tx& tx) {
        const std::uint64_t next = tx.load(pair[0]) + 1;
        tx.store(pair[0], next);
        tx.store(pair[1], next);
      });
    }
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(run({"backup", pool_, copy_}).code, 0);
    Pool copy = Pool::open(copy_).value();
    const auto& pair = *copy.root<std::uint64_t[2]>("pair");
    EXPECT_EQ(pair[0], pair[1]);
    EXPECT_GE(pair[0], last);
    last = pair[0];
    std::filesystem::remove(copy_);
  }
  stop = true;
  writer.join();
  EXPECT_GT(last, 0u);
}

}  // namespace
}  // namespace perdure
