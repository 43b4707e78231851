// SPDX-License-Identifier: BSD-3-Clause
// On files a commit is seen before it is durable, and whoever has seen it waits: for a COMMIT, a ROLLBACK, a row.
#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "apps/sqlite/sql_fixture.h"
#include "apps/sqlite/test_device.h"

namespace perdure::sqlite::testing {
namespace {

constexpr char kName[] = "/perdure-test/x.db";
constexpr char kOther[] = "/perdure-test/y.db";
/// Rows that have a page each: 1 to 9.
constexpr char kRows[] =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, n, filler);"
    "WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < 9)"
    "INSERT INTO t SELECT x, 0, zeroblob(3000) FROM i;";

std::string increment(int row) {
  return "UPDATE t SET n=n+1 WHERE id=" + std::to_string(row) + ";";
}
std::string value(int row) { return "SELECT n FROM t WHERE id=" + std::to_string(row); }

/// Opens with more patience than any test needs.
struct Patient : Sql {
  explicit Patient(const std::string& parameters = "", const char* name = kName)
      : Sql(uri(name, parameters)) {
    sqlite3_busy_timeout(db(), 60000);
  }
};

struct EarlyRelease : ::testing::Test {
  EarlyRelease() {
    Sql sql(uri(kName));
    sql.must(kRows);
  }
  /// A COMMIT, or another statement, that waits at the closed device.
  std::future<int> begin(Sql& sql, const std::string& statements) {
    machine.device.close();
    auto first = std::async(std::launch::async, [&sql, statements] { return sql.run(statements); });
    machine.device.await_visitor();
    return first;
  }
  static std::future<int> run(Sql& sql, const std::string& statements) {
    return std::async(std::launch::async, [&sql, statements] { return sql.run(statements); });
  }
  static std::future<std::string> ask(Sql& sql, const std::string& question) {
    return std::async(std::launch::async, [&sql, question] { return sql.ask(question); });
  }
  template <class T>
  static bool has_returned(std::future<T>& call) {
    return call.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
  }

  TestMachine machine;
  TestMachine other_machine;
  OnTestMachines on{{{kName, &machine}, {kOther, &other_machine}}};
};

TEST_F(EarlyRelease, OthersCommitWhileACommitWaits) {
  Patient a;
  Patient b;
  Patient c;
  auto first = begin(a, increment(1));
  EXPECT_EQ(b.run("BEGIN IMMEDIATE; " + increment(2)), SQLITE_OK) << "the lock is free";
  auto second = run(b, "COMMIT");
  EXPECT_FALSE(has_returned(second));
  EXPECT_EQ(c.run("BEGIN IMMEDIATE; " + increment(3)), SQLITE_OK);
  auto third = run(c, "COMMIT");
  EXPECT_FALSE(has_returned(third));
  EXPECT_FALSE(has_returned(first));
  machine.device.open();
  EXPECT_EQ(first.get(), SQLITE_OK);
  EXPECT_EQ(second.get(), SQLITE_OK);
  EXPECT_EQ(third.get(), SQLITE_OK);
  EXPECT_EQ(a.ask("SELECT sum(n) FROM t; PRAGMA integrity_check"), "3;ok");
}

TEST_F(EarlyRelease, EveryJournalModeReleasesTheLock) {
  Patient b;
  int expected = 0;
  for (const std::string mode : {"delete", "truncate", "persist", "memory", "off"}) {
    SCOPED_TRACE(mode);
    Patient a;
    a.must("PRAGMA journal_mode=" + mode);
    auto first = begin(a, increment(1));
    EXPECT_EQ(b.run("BEGIN IMMEDIATE; " + increment(2)), SQLITE_OK);
    EXPECT_FALSE(has_returned(first));
    machine.device.open();
    EXPECT_EQ(first.get(), SQLITE_OK);
    b.must("COMMIT");
    EXPECT_EQ(b.ask("SELECT n FROM t WHERE id < 3"),
              std::to_string(expected + 1) + ";" + std::to_string(expected + 1));
    ++expected;
  }
}

TEST_F(EarlyRelease, AReaderWaitsForThePagesThatACommitHasChanged) {
  Patient a;
  Patient b;
  Patient c;
  b.must(value(1));  // knows the schema
  c.must(value(1));
  auto first = begin(a, increment(1));
  auto changed = ask(b, value(1));
  EXPECT_EQ(ask(c, value(2)).get(), "0") << "it waits for nothing";
  EXPECT_FALSE(has_returned(changed));
  machine.device.open();
  EXPECT_EQ(changed.get(), "1");
  EXPECT_EQ(first.get(), SQLITE_OK);
}

TEST_F(EarlyRelease, WhatTheFirstPageTellsIsWaitedFor) {
  for (const std::string question : {"PRAGMA user_version", "PRAGMA page_count",
                                     "PRAGMA freelist_count", "SELECT count(*) FROM u"}) {
    SCOPED_TRACE(question);
    Patient a;
    Patient b;
    a.must("DROP TABLE IF EXISTS u");
    b.must(value(1));
    b.ask("PRAGMA user_version");
    auto first = begin(a,
                       "BEGIN; PRAGMA user_version=7; CREATE TABLE u AS SELECT zeroblob(9000) "
                       "AS v; DELETE FROM t WHERE id > 8; COMMIT");
    auto answer = ask(b, question);
    EXPECT_FALSE(has_returned(answer));
    machine.device.open();
    EXPECT_EQ(answer.get().find("error"), std::string::npos);
    EXPECT_EQ(first.get(), SQLITE_OK);
  }
}

TEST_F(EarlyRelease, AWriterWaitsForWhatItReads) {
  Patient a;
  Patient b;
  auto first = begin(a, increment(1));
  EXPECT_EQ(b.run("BEGIN IMMEDIATE"), SQLITE_OK);
  auto row = ask(b, value(1));
  EXPECT_FALSE(has_returned(row));
  machine.device.open();
  EXPECT_EQ(row.get(), "1");
  EXPECT_EQ(first.get(), SQLITE_OK);
  b.must("COMMIT");
}

TEST_F(EarlyRelease, WithEarlyReadsAWriterWaitsWhenItsTransactionEnds) {
  for (const std::string end : {"COMMIT", "ROLLBACK"}) {
    for (const std::string& work : {value(1), increment(1)}) {
      SCOPED_TRACE(end + ", " + work);
      Patient a;
      Patient b("early_reads=1");
      b.must(value(2));
      auto first = begin(a, increment(1));
      EXPECT_EQ(b.run("BEGIN IMMEDIATE"), SQLITE_OK);
      EXPECT_NE(ask(b, value(1)).get(), "0");
      b.must(work);
      auto second = run(b, end);
      EXPECT_FALSE(has_returned(second));
      machine.device.open();
      EXPECT_EQ(first.get(), SQLITE_OK);
      EXPECT_EQ(second.get(), SQLITE_OK);
    }
  }
  Patient a;
  Patient b("early_reads=1");
  auto first = begin(a, increment(1));
  auto row = ask(b, value(1));
  EXPECT_FALSE(has_returned(row)) << "outside a write transaction rows are final";
  machine.device.open();
  row.get();
  first.get();
}

TEST_F(EarlyRelease, AnOpenStatementGoesOnReadingWhatItBegan) {
  Patient a;
  Patient b;
  sqlite3_stmt* rows = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(a.db(), "SELECT n FROM t ORDER BY id", -1, &rows, nullptr),
            SQLITE_OK);
  ASSERT_EQ(sqlite3_step(rows), SQLITE_ROW);
  auto first = begin(a, increment(9));
  EXPECT_EQ(b.run("BEGIN IMMEDIATE; " + increment(8)), SQLITE_OK);
  auto second = run(b, "COMMIT");
  EXPECT_FALSE(has_returned(first));
  machine.device.open();
  EXPECT_EQ(first.get(), SQLITE_OK);
  EXPECT_FALSE(has_returned(second)) << "a still reads";
  int count = 1;
  int sum = 0;
  while (sqlite3_step(rows) == SQLITE_ROW) {
    sum += sqlite3_column_int(rows, 0);
    ++count;
  }
  EXPECT_EQ(count, 9);
  EXPECT_EQ(sum, 1);
  sqlite3_finalize(rows);
  EXPECT_EQ(second.get(), SQLITE_OK);
}

TEST_F(EarlyRelease, ASharedCacheGoesOnReading) {
  Patient a("cache=shared");
  Patient b("cache=shared");
  Patient c;
  a.must("CREATE TABLE u AS SELECT id, filler FROM t");
  b.must("BEGIN; SELECT 1 FROM u WHERE rowid=1");
  auto first = begin(a, increment(2));
  auto other = run(c, increment(3));
  EXPECT_FALSE(has_returned(other));
  machine.device.open();
  EXPECT_EQ(first.get(), SQLITE_OK);
  EXPECT_FALSE(has_returned(other)) << "b still reads";
  EXPECT_EQ(b.ask("SELECT count(*) FROM u"), "9");
  b.must("COMMIT");
  EXPECT_EQ(other.get(), SQLITE_OK);
}

/// SQLite does not tell the VFS of this flag.
TEST_F(EarlyRelease, ACacheThatIsSharedUnseenReadsNothingThatDoesNotFit) {
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_SHAREDCACHE;
  Sql a(uri(kName), kFlags);
  Sql b(uri(kName), kFlags);
  Patient c;
  a.must("CREATE TABLE u AS SELECT id, filler FROM t");
  b.must("BEGIN; SELECT 1 FROM u WHERE rowid=1");
  auto first = begin(a, increment(2));
  auto other = run(c, increment(3) + "DELETE FROM u WHERE id > 5");
  EXPECT_FALSE(has_returned(first));
  machine.device.open();
  EXPECT_EQ(first.get(), SQLITE_OK);
  EXPECT_EQ(other.get(), SQLITE_OK);
  sqlite3_db_release_memory(b.db());
  EXPECT_EQ(b.ask("SELECT count(*) FROM u"), "error: database is locked");
  b.run("ROLLBACK");
  EXPECT_EQ(b.ask("SELECT count(*) FROM u"), "5");
}

TEST_F(EarlyRelease, ExclusiveLockingWaitsWithItsLock) {
  for (const std::string mode : {"delete", "persist", "memory"}) {
    SCOPED_TRACE(mode);
    {
      Patient a;
      a.must("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=" + mode);
      auto first = begin(a, increment(1));
      EXPECT_FALSE(has_returned(first));
      machine.device.open();
      EXPECT_EQ(first.get(), SQLITE_OK);
      EXPECT_EQ(Sql(uri(kName)).run(value(1)), SQLITE_BUSY);
      a.must("PRAGMA locking_mode=NORMAL; SELECT n FROM t");
      auto second = begin(a, increment(1));
      Patient b;
      EXPECT_EQ(b.run("BEGIN IMMEDIATE; ROLLBACK"), SQLITE_OK) << "as before";
      machine.device.open();
      EXPECT_EQ(second.get(), SQLITE_OK);
    }
  }
}

TEST_F(EarlyRelease, AttachedDatabasesWaitEach) {
  Patient a;
  a.must(std::string("ATTACH '") + uri(kOther) + "' AS y; CREATE TABLE y.u(v)");
  for (const std::string mode : {"delete", "memory"}) {
    SCOPED_TRACE(mode);
    a.must("PRAGMA journal_mode=" + mode);
    auto first = begin(a, "BEGIN; " + increment(1) + " INSERT INTO y.u VALUES(1); COMMIT");
    EXPECT_FALSE(has_returned(first));
    machine.device.open();
    EXPECT_EQ(first.get(), SQLITE_OK);
    other_machine.device.close();
    auto second = run(a, "BEGIN; " + increment(1) + " INSERT INTO y.u VALUES(1); COMMIT");
    EXPECT_FALSE(has_returned(second));
    other_machine.device.open();
    EXPECT_EQ(second.get(), SQLITE_OK);
  }
  auto failing = begin(a, "BEGIN; " + increment(1) + " INSERT INTO y.u VALUES(1); COMMIT");
  machine.device.fail();
  EXPECT_EQ(failing.get(), SQLITE_IOERR);
}

TEST_F(EarlyRelease, ARollbackHasNothingToWaitFor) {
  Patient a;
  Patient b;
  b.must(value(2));
  auto first = begin(a, increment(1));
  EXPECT_EQ(run(b, "BEGIN IMMEDIATE; " + increment(2) + " ROLLBACK").get(), SQLITE_OK);
  EXPECT_EQ(ask(b, value(2)).get(), "0");
  machine.device.open();
  EXPECT_EQ(first.get(), SQLITE_OK);
}

TEST_F(EarlyRelease, WithoutSynchronousNobodyWaits) {
  Patient a;
  Patient b;
  a.must("PRAGMA synchronous=OFF");
  machine.device.close();
  EXPECT_EQ(run(a, increment(1)).get(), SQLITE_OK);
  EXPECT_EQ(ask(b, value(1)).get(), "1");
  machine.device.open();
}

TEST_F(EarlyRelease, WhenTheDeviceFailsNothingIsAcknowledgedAndNothingLostIsShown) {
  std::optional<Patient> a(std::in_place);
  std::optional<Patient> b(std::in_place);
  std::optional<Patient> c(std::in_place);
  std::optional<Patient> d(std::in_place, "early_reads=1");
  c->must(value(5));
  auto first = begin(*a, increment(1));
  EXPECT_EQ(b->run("BEGIN IMMEDIATE; " + increment(2)), SQLITE_OK);
  auto second = run(*b, "COMMIT");
  EXPECT_FALSE(has_returned(second));
  auto row = ask(*c, value(2));
  EXPECT_FALSE(has_returned(row));
  machine.device.fail();
  EXPECT_EQ(first.get(), SQLITE_IOERR);
  EXPECT_EQ(second.get(), SQLITE_IOERR);
  EXPECT_EQ(row.get(), "error: disk I/O error");
  machine.device.open();  // it says that all is well again, and has lost what it had
  for (const int lost : {1, 2}) EXPECT_EQ(c->ask(value(lost)), "error: disk I/O error");
  EXPECT_EQ(c->ask(value(3)), "0");
  EXPECT_EQ(d->run("BEGIN IMMEDIATE; " + value(2)), SQLITE_OK);
  EXPECT_EQ(d->run("ROLLBACK"), SQLITE_OK) << "which SQLite always says";
  EXPECT_EQ(d->ask(value(2)), "error: disk I/O error") << "its cache has forgotten it";
  for (auto* sql : {&*a, &*b, &*c, &*d}) EXPECT_EQ(sql->run(increment(3)), SQLITE_IOERR);
  a.reset();
  b.reset();
  c.reset();
  d.reset();
  TestMachine after(machine.device.lose_power(1));
  const OnTestMachines there({{kName, &after}});
  Patient e;
  EXPECT_EQ(e.ask("SELECT sum(n) FROM t WHERE id > 2; PRAGMA integrity_check"), "0;ok");
  EXPECT_EQ(e.run(increment(1)), SQLITE_OK);
}

TEST_F(EarlyRelease, ThereMayBeMoreThreadsThanLogs) {
  Sql sql(uri(kName));
  std::vector<std::thread> holders;
  std::promise<void> done;
  const std::shared_future<void> end = done.get_future().share();
  constexpr unsigned kThreads = 2 * TestMachine::kGeometry.log_slots + 1;
  std::atomic<unsigned> there = 0;
  for (unsigned i = 0; i < kThreads; ++i) {
    holders.emplace_back([&, end] {
      Patient holder;
      holder.must(increment(1));
      holder.must(value(1));
      ++there;
      end.wait();
    });
  }
  while (there < kThreads) std::this_thread::yield();
  std::thread([&] {
    EXPECT_EQ(sql.run(increment(1)), SQLITE_OK);
    EXPECT_EQ(sql.ask(value(1)), std::to_string(kThreads + 1));
  }).join();
  done.set_value();
  for (std::thread& holder : holders) holder.join();
}

// ---- power cuts -----------------------------------------------------------------------------------

/// Threads count up rows of their own and one of all, and tell what was acknowledged, and what rows they were shown.
struct Told {
  static constexpr int kRowCount = 9;
  static constexpr int kAll = 9;  // the row that every writer counts up
  std::atomic<long> least[kRowCount + 1] = {};
  void tell(int row, long n) {
    long before = least[row];
    while (before < n && !least[row].compare_exchange_weak(before, n)) {
    }
  }
};

enum class Reads { kFinal, kEarly, kEarlyAndTold };

void count_up(int row, Reads reads, unsigned seed, Told& told) {
  Patient sql(reads == Reads::kFinal ? "" : "early_reads=1");
  std::mt19937 random(seed);
  if (random() % 2 == 0) sql.run("PRAGMA journal_mode=memory");
  for (;;) {
    const bool both = random() % 2 == 0;
    if (sql.run("BEGIN IMMEDIATE; " + increment(row) + (both ? increment(Told::kAll) : "")) !=
        SQLITE_OK)
      return;
    const std::string mine = sql.ask(value(row));
    const std::string all = sql.ask(value(Told::kAll));
    if (mine.starts_with("error") || all.starts_with("error")) return;
    if (reads == Reads::kEarlyAndTold) told.tell(Told::kAll, std::stol(all) - (both ? 1 : 0));
    if (random() % 4 == 0) {
      if (sql.run("ROLLBACK") != SQLITE_OK) return;
      // Of what others have done it tells.
      const std::string now = sql.ask(value(Told::kAll));
      if (now.starts_with("error")) return;
      told.tell(Told::kAll, std::stol(now));
      continue;
    }
    if (sql.run("COMMIT") != SQLITE_OK) return;
    told.tell(row, std::stol(mine));
    told.tell(Told::kAll, std::stol(all));
  }
}

void look_on(unsigned seed, Told& told) {
  Patient sql;
  std::mt19937 random(seed);
  for (;;) {
    const int row = static_cast<int>(random() % Told::kRowCount) + 1;
    const std::string n = sql.ask(value(row));
    if (n.starts_with("error")) return;
    told.tell(row, std::stol(n));
  }
}

/// Returns how often something was lost that had been told. Each round goes on with what the last one left.
int cut_power(int rounds, Reads reads) {
  int lost = 0;
  std::mt19937 random(reads == Reads::kFinal ? 1 : 2);
  std::vector<std::byte> left;
  {
    TestMachine machine;
    const OnTestMachines there({{kName, &machine}});
    Sql(uri(kName)).must(kRows);
    left = machine.device.lose_power(0);
  }
  long commits = 0;
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    Told told;
    {
      TestMachine machine(left, std::chrono::microseconds(300));
      const OnTestMachines there({{kName, &machine}});
      std::vector<std::thread> threads;
      for (int row = 1; row <= 4; ++row)
        threads.emplace_back(count_up, row, reads, static_cast<unsigned>(random()), std::ref(told));
      for (int reader = 0; reader < 2; ++reader)
        threads.emplace_back(look_on, static_cast<unsigned>(random()), std::ref(told));
      std::this_thread::sleep_for(std::chrono::microseconds(5000 + random() % 30000));
      left = machine.device.lose_power(static_cast<unsigned>(random()));
      for (std::thread& thread : threads) thread.join();
    }
    TestMachine machine(left);
    const OnTestMachines there({{kName, &machine}});
    Sql sql(uri(kName));
    EXPECT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
    for (int row = 1; row <= Told::kRowCount; ++row) {
      const long there_now = std::stol(sql.ask(value(row)));
      if (there_now < told.least[row]) ++lost;
      if (row == Told::kAll) commits = there_now;
    }
  }
  std::printf("%d power cuts, %ld commits, %d lost\n", rounds, commits, lost);
  return lost;
}

TEST(PowerCuts, NothingThatWasAcknowledgedOrShownIsLost) {
  EXPECT_EQ(cut_power(kSanitized ? 10 : 40, Reads::kFinal), 0);
}
TEST(PowerCuts, WithEarlyReadsNothingIsLostThatATransactionEndedWith) {
  EXPECT_EQ(cut_power(kSanitized ? 10 : 40, Reads::kEarly), 0);
}
/// A canary: rows that were read early are told before the transaction ends.
TEST(PowerCuts, ARowThatIsToldEarlyIsLostSometimes) {
  int lost = 0;
  for (int trial = 0; trial < 10 && lost == 0; ++trial) lost = cut_power(20, Reads::kEarlyAndTold);
  EXPECT_GT(lost, 0);
}

}  // namespace
}  // namespace perdure::sqlite::testing
