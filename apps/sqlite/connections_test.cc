// SPDX-License-Identifier: BSD-3-Clause
// Several connections and threads of one process, and its locks.
#include <atomic>
#include <thread>
#include <vector>

#include "apps/sqlite/locks.h"
#include "apps/sqlite/sql_fixture.h"

namespace perdure::sqlite::testing {
namespace {

using enum LockLevel;

TEST(Locks, FollowSQLitesTable) {
  Locks locks;
  LockLevel a = kNone;
  LockLevel b = kNone;
  LockLevel c = kNone;
  EXPECT_TRUE(locks.lock(a, kShared));
  EXPECT_TRUE(locks.lock(b, kShared));
  EXPECT_FALSE(locks.reserved());
  EXPECT_TRUE(locks.lock(a, kReserved));
  EXPECT_TRUE(locks.reserved());
  EXPECT_FALSE(locks.lock(b, kReserved)) << "one writer";
  EXPECT_FALSE(locks.lock(b, kExclusive));
  EXPECT_EQ(b, kShared);
  EXPECT_TRUE(locks.lock(c, kShared)) << "beside readers";
  EXPECT_FALSE(locks.lock(a, kExclusive));
  EXPECT_EQ(a, kPending) << "which it keeps";
  locks.unlock(c, kNone);
  EXPECT_FALSE(locks.lock(c, kShared)) << "no new readers";
  EXPECT_FALSE(locks.lock(a, kExclusive));
  locks.unlock(b, kNone);
  EXPECT_TRUE(locks.lock(a, kExclusive));
  EXPECT_EQ(a, kExclusive);
  EXPECT_FALSE(locks.lock(b, kShared));
  locks.unlock(a, kShared);
  EXPECT_FALSE(locks.reserved());
  EXPECT_TRUE(locks.lock(b, kShared));
  EXPECT_TRUE(locks.lock(b, kReserved));
  EXPECT_FALSE(locks.lock(a, kExclusive)) << "from shared, as to play back a journal";
  locks.unlock(b, kNone);
  EXPECT_TRUE(locks.lock(a, kExclusive));
  locks.unlock(a, kNone);
  EXPECT_TRUE(locks.lock(c, kShared));
  locks.unlock(c, kNone);
  locks.unlock(c, kNone);
  EXPECT_TRUE(locks.lock(a, kShared) && locks.lock(a, kExclusive));
}

TEST(Locks, AreGivenToWhoWaitsAsSoonAsTheyAreFree) {
  const auto much_later = Locks::Clock::now() + std::chrono::minutes(10);
  Locks locks;
  LockLevel a = kNone;
  ASSERT_TRUE(locks.lock(a, kShared) && locks.lock(a, kReserved) && locks.lock(a, kExclusive));
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      LockLevel mine = kNone;
      const LockLevel wanted = i < 4 ? kExclusive : kShared;
      while (mine < wanted) {
        const LockLevel next = mine == kNone ? kShared : mine == kShared ? kReserved : kExclusive;
        if (locks.lock(mine, next)) continue;
        if (next == kReserved) locks.unlock(mine, kNone);
        locks.await(&mine, next, much_later);
      }
      ++done;
      locks.unlock(mine, kNone);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(done, 0);
  locks.unlock(a, kNone);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 6);
}

TEST(Locks, ATurnThatNobodyTakesUpEnds) {
  const auto much_later = Locks::Clock::now() + std::chrono::minutes(10);
  Locks locks;
  LockLevel a = kNone;
  LockLevel b = kNone;
  LockLevel c = kNone;
  ASSERT_TRUE(locks.lock(a, kShared) && locks.lock(a, kReserved));
  std::thread gives_up([&] { locks.await(&b, kReserved, much_later); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  locks.unlock(a, kNone);
  gives_up.join();
  ASSERT_TRUE(locks.lock(c, kShared));
  while (!locks.lock(c, kReserved)) locks.await(&c, kReserved, much_later);
}

TEST(Locks, AreWaitedForNoLongerThanIsAsked) {
  Locks locks;
  LockLevel a = kNone;
  LockLevel b = kNone;
  ASSERT_TRUE(locks.lock(a, kShared) && locks.lock(a, kReserved) && locks.lock(a, kExclusive));
  for (const LockLevel wanted : {kShared, kReserved, kExclusive}) {
    const auto until = Locks::Clock::now() + std::chrono::milliseconds(10);
    locks.await(&b, wanted, until);
    EXPECT_GE(Locks::Clock::now(), until);
  }
  EXPECT_FALSE(locks.lock(b, kShared, Locks::Clock::now() + std::chrono::milliseconds(10)));
}

using Connections = OnBoth;
INSTANTIATE_TEST_SUITE_P(, Connections, ::testing::Values(kOnMemory, kOnDisk), place_name);

TEST_P(Connections, SeeEachOthersCommitsAndNothingElse) {
  Sql a(uri(path));
  Sql b(uri(path));
  a.must("CREATE TABLE t(v)");
  a.must("BEGIN IMMEDIATE; INSERT INTO t VALUES(1)");
  EXPECT_EQ(b.ask("SELECT count(*) FROM t"), "0");
  EXPECT_EQ(b.run("BEGIN IMMEDIATE"), SQLITE_BUSY);
  a.must("COMMIT");
  EXPECT_EQ(b.ask("SELECT count(*) FROM t"), "1");
  b.must("BEGIN; SELECT * FROM t");
  a.must("BEGIN; INSERT INTO t VALUES(2)");
  EXPECT_EQ(a.run("COMMIT"), SQLITE_BUSY) << "b reads";
  EXPECT_EQ(Sql(uri(path)).run("SELECT * FROM t"), SQLITE_BUSY) << "a waits";
  EXPECT_EQ(b.ask("SELECT count(*) FROM t"), "1");
  b.must("COMMIT");
  a.must("COMMIT");
  EXPECT_EQ(b.ask("SELECT count(*) FROM t"), "2");
}

TEST_P(Connections, LoseNoUpdate) {
  constexpr int kThreads = 4;
  constexpr int kUpdates = 60;
  {
    Sql sql(uri(path));
    sql.must("CREATE TABLE t(id INTEGER PRIMARY KEY, n); INSERT INTO t VALUES(1, 0), (2, 1000)");
  }
  std::atomic<int> wrong = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Sql sql(uri(path));
      sqlite3_busy_timeout(sql.db(), 60000);
      if (i % 2 == 0) sql.run("PRAGMA cache_size=2; PRAGMA journal_mode=persist");
      for (int update = 0; update < kUpdates; ++update) {
        if (sql.run(
                "BEGIN IMMEDIATE; UPDATE t SET n=n+1 WHERE id=1; UPDATE t SET n=n-1 WHERE id=2; "
                "CREATE TABLE IF NOT EXISTS u AS SELECT randomblob(9000); COMMIT") != SQLITE_OK)
          ++wrong;
      }
      ++done;
    });
  }
  threads.emplace_back([&] {
    Sql sql(uri(path));
    sqlite3_busy_timeout(sql.db(), 60000);
    while (done < kThreads) {
      if (sql.ask("SELECT sum(n) FROM t") != "1000") ++wrong;
    }
  });
  threads.emplace_back([&] {
    while (done < kThreads) {  // connections that come and go
      Sql sql(uri(path));
      sqlite3_busy_timeout(sql.db(), 60000);
      if (sql.ask("SELECT sum(n) FROM t") != "1000") ++wrong;
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  Sql sql(uri(path));
  EXPECT_EQ(sql.ask("SELECT n FROM t; PRAGMA integrity_check"),
            std::to_string(kThreads * kUpdates) + ";" + std::to_string(1000 - kThreads * kUpdates) +
                ";ok");
}

TEST_P(Connections, OpenAndCloseAPoolTogether) {
  {
    Sql(uri(path)).must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int opening = 0; opening < 20; ++opening) {
        Sql sql(uri(path));
        if (sql.code() != SQLITE_OK || sql.ask("SELECT v FROM t") != "1") ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Connections, ShareACacheIfAsked) {
  Sql a(uri(path, "cache=shared"));
  Sql b(uri(path, "cache=shared"));
  a.must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  EXPECT_EQ(b.ask("SELECT v FROM t"), "1");
}

}  // namespace
}  // namespace perdure::sqlite::testing
