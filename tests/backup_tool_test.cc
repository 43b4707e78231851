// SPDX-License-Identifier: BSD-3-Clause
// Commands on a store that a program has open: what looks at it sees a state of it, a backup is one, and what
// would put a copy in its place is refused.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
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

TEST_F(BackupTest, ChangesSinceACopyMakeThePoolAgain) {
  const std::string changes = dir_ / "changes";
  const std::string restored = dir_ / "restored.pool";
  EXPECT_EQ(run({"backup", pool_, copy_}).code, 0);
  std::optional<Pool> pool = Pool::open(pool_).value();
  pool->atomically([&](Tx& tx) { tx.store((*pool->root<std::uint64_t[2]>("pair"))[1], 7); });
  const Json made = json_of({"backup", pool_, changes, "--since", copy_, "--json"});
  EXPECT_LT(made["changes_bytes"], made["pool_bytes"]);
  pool->atomically([&](Tx& tx) { tx.store((*pool->root<std::uint64_t[2]>("pair"))[1], 8); });
  EXPECT_EQ(json_of({"restore", copy_, changes, restored, "--json"})["pool_bytes"],
            made["pool_bytes"]);
  EXPECT_EQ((*Pool::inspect(restored).value().root<std::uint64_t[2]>("pair"))[1], 7u);
  EXPECT_EQ(json_of({"kv", "count", restored, "--json"})["records"], kRecords);
  EXPECT_EQ(run({"restore", copy_, changes, restored}).code, 3) << "nothing is overwritten";
}

TEST_F(BackupTest, ChangesThatDoNotFitAreRefused) {
  const std::string changes = dir_ / "changes";
  const std::string restored = dir_ / "restored.pool";
  const auto expect_refused = [&](const ToolRun& refused, const std::string& why) {
    EXPECT_GE(refused.code, 2);
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(restored));
  };
  EXPECT_EQ(run({"backup", pool_, copy_}).code, 0);
  EXPECT_EQ(run({"kv", "put", pool_, "key", "value"}).code, 0);
  EXPECT_EQ(run({"backup", pool_, changes, "--since", copy_}).code, 0);
  const std::string whole = read(changes);
  expect_refused(run({"restore", copy_, pool_, restored}), "not an increment");
  for (std::size_t at = 0; at < whole.size(); at += at < 72 ? 3 : 397) {
    // Behind the header, and of a page its padding, nothing means anything.
    if ((at >= 72 && at < 4096) || (at >= 4096 && (at - 4096) % 4112 - 12 < 4)) continue;
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    std::ofstream(changes, std::ios::binary) << damaged;
    expect_refused(run({"restore", copy_, changes, restored}), changes);
  }
  std::ofstream(changes, std::ios::binary) << whole.substr(0, whole.size() - 1);
  expect_refused(run({"restore", copy_, changes, restored}), "bytes, but its pages take");
  std::ofstream(changes, std::ios::binary) << whole;

  const std::string other = dir_ / "other.pool";
  EXPECT_EQ(run({"create", other}).code, 0);
  expect_refused(run({"restore", other, changes, restored}), "is not, or no longer, the copy");
  expect_refused(run({"backup", other, restored, "--since", copy_}), "a copy of another pool");
  EXPECT_EQ(run({"kv", "put", copy_, "key", "value"}).code, 0);
  expect_refused(run({"restore", copy_, changes, restored}), "is not, or no longer, the copy");
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
