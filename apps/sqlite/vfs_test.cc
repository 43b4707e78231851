// SPDX-License-Identifier: BSD-3-Clause
// The VFS through SQLite's C API: one connection at a time. What a crash leaves is judged on copies of the file.
#include <chrono>
#include <thread>

#include "apps/sqlite/sql_fixture.h"

namespace perdure::sqlite::testing {
namespace {

using Vfs = OnBoth;
INSTANTIATE_TEST_SUITE_P(, Vfs, ::testing::Values(kOnMemory, kOnDisk), place_name);

int spills(Sql& sql) {
  int now = 0;
  int highest = 0;
  sqlite3_db_status(sql.db(), SQLITE_DBSTATUS_CACHE_SPILL, &now, &highest, 0);
  return now;
}

/// What a killed process leaves, as soon as it is `expected`, or after ten seconds: what was not synced is on its way.
std::string soon_left(const std::string& path, const std::string& sql,
                      const std::string& expected) {
  std::string left;
  for (int wait = 0; wait < 200; ++wait) {
    const std::string copy = as_if_killed(path);
    left = Sql(uri(copy)).ask(sql);
    std::filesystem::remove(copy);
    if (left == expected) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return left;
}

TEST_P(Vfs, EveryJournalModeKeepsWhatWasCommitted) {
  for (const std::string mode : {"delete", "truncate", "persist", "memory", "off"}) {
    for (const std::string synchronous : {"FULL", "EXTRA", "NORMAL", "OFF"}) {
      SCOPED_TRACE(mode + ", synchronous " + synchronous);
      const std::string file = dir / (mode + synchronous);
      for (int opening = 0; opening < 2; ++opening) {
        Sql sql(uri(file));
        ASSERT_EQ(sql.code(), SQLITE_OK);
        EXPECT_EQ(sql.ask("PRAGMA journal_mode=" + mode), mode);
        sql.must("PRAGMA synchronous=" + synchronous);
        if (opening == 0) sql.must("CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)");
        for (int i = 0; i < 20; ++i) {
          sql.must("BEGIN; INSERT INTO t(v) VALUES('a'); INSERT INTO t(v) VALUES('b'); COMMIT");
          sql.must("UPDATE t SET v='c' WHERE id=1");
        }
        EXPECT_EQ(sql.ask("SELECT count(*) FROM t"), opening == 0 ? "40" : "80");
        EXPECT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
      }
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir / "."))
    EXPECT_EQ(entry.path().string().find("journal"), std::string::npos) << entry.path();
}

TEST_P(Vfs, ACommitSurvivesAKillAtOnce) {
  Sql sql(uri(path));
  sql.must("CREATE TABLE t(v)");
  for (int i = 1; i <= 5; ++i) {
    sql.must("INSERT INTO t VALUES(1)");
    EXPECT_EQ(Sql(uri(as_if_killed(path))).ask("SELECT count(*) FROM t; PRAGMA integrity_check"),
              std::to_string(i) + ";ok");
  }
}

TEST_P(Vfs, WithoutSynchronousACommitIsDurableSoon) {
  Sql sql(uri(path));
  sql.must("PRAGMA synchronous=OFF; CREATE TABLE t(v)");
  for (int i = 1; i <= 3; ++i) {
    sql.must("INSERT INTO t VALUES(1)");
    const std::string rows = std::to_string(i);
    EXPECT_EQ(soon_left(path, "SELECT count(*) FROM t", rows), rows);
  }
  sql.must("INSERT INTO t VALUES(1); PRAGMA synchronous=FULL; INSERT INTO t VALUES(1)");
  EXPECT_EQ(Sql(uri(as_if_killed(path))).ask("SELECT count(*) FROM t"), "5")
      << "a strict commit makes those before it durable";
}

TEST_P(Vfs, SavepointsAndRollbacksTakeBack) {
  Sql sql(uri(path));
  sql.must("CREATE TABLE t(v UNIQUE); INSERT INTO t VALUES(1)");
  sql.must("BEGIN; INSERT INTO t VALUES(2); SAVEPOINT a; INSERT INTO t VALUES(3); ROLLBACK TO a");
  EXPECT_EQ(sql.run("INSERT INTO t VALUES(1)"), SQLITE_CONSTRAINT);
  sql.must("INSERT INTO t VALUES(4); RELEASE a; COMMIT");
  EXPECT_EQ(sql.ask("SELECT v FROM t"), "1;2;4");
  sql.must("BEGIN; DELETE FROM t; ROLLBACK");
  EXPECT_EQ(sql.ask("SELECT v FROM t"), "1;2;4");
}

TEST_P(Vfs, PagesThatSpillAreNobodysBeforeTheCommit) {
  for (const std::string mode : {"delete", "truncate", "persist", "memory", "off"}) {
    for (const std::string synchronous : {"FULL", "OFF"}) {
      SCOPED_TRACE(mode + ", synchronous " + synchronous);
      const std::string file = dir / (mode + synchronous);
      Sql sql(uri(file));
      sql.must(kManyRows);
      sql.must("PRAGMA cache_size=10; PRAGMA cache_spill=10; PRAGMA journal_mode=" + mode +
               "; PRAGMA synchronous=" + synchronous);
      for (const bool commit : {false, true}) {
        const int before = spills(sql);
        sql.must(
            "BEGIN; UPDATE t SET v=randomblob(500); INSERT INTO t SELECT id+2000, v FROM t;"
            "CREATE TABLE other(v)");
        EXPECT_GT(spills(sql), before + 200);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(Sql(uri(as_if_killed(file))).ask(kAllRows), "2000|2000")
            << "neither spills nor syncs of the journal commit";
        sql.must(commit ? "COMMIT" : "ROLLBACK");
        EXPECT_EQ(sql.ask(kAllRows), commit ? "4000|0" : "2000|2000");
        EXPECT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
      }
      EXPECT_EQ(soon_left(file, kAllRows, "4000|0"), "4000|0");
    }
  }
}

TEST_P(Vfs, AConnectionThatIsClosedInATransactionRollsBack) {
  {
    Sql(uri(path)).must(kManyRows);
  }
  {
    Sql sql(uri(path));
    sql.must("PRAGMA cache_size=10; BEGIN; UPDATE t SET v=randomblob(500)");
    EXPECT_GT(spills(sql), 100);
  }
  Sql sql(uri(path));
  EXPECT_EQ(sql.ask(kAllRows), "2000|2000");
  EXPECT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
}

TEST_P(Vfs, ExclusiveLockingCommitsWithoutGivingTheLockUp) {
  for (const std::string mode : {"delete", "truncate", "persist", "memory", "off"}) {
    for (const std::string synchronous : {"FULL", "OFF"}) {
      SCOPED_TRACE(mode + ", synchronous " + synchronous);
      const std::string file = dir / (mode + synchronous);
      Sql sql(uri(file));
      sql.must("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=" + mode +
               "; PRAGMA synchronous=" + synchronous + "; CREATE TABLE t(v)");
      sql.must("INSERT INTO t VALUES(1)");
      sql.must("BEGIN; INSERT INTO t VALUES(2); INSERT INTO t VALUES(3); COMMIT");
      EXPECT_EQ(soon_left(file, "SELECT v FROM t", "1;2;3"), "1;2;3");
    }
  }
}

TEST_P(Vfs, EveryPageSizeAndVacuumWork) {
  for (int page = 512; page <= 65536; page *= 2) {
    SCOPED_TRACE(page);
    const std::string file = dir / std::to_string(page);
    {
      Sql sql(uri(file));
      sql.must("PRAGMA page_size=" + std::to_string(page));
      sql.must(kManyRows);
      EXPECT_EQ(sql.ask("PRAGMA page_size"), std::to_string(page));
      sql.must("DELETE FROM t WHERE id % 3 = 0; UPDATE t SET v=zeroblob(300) WHERE id % 5 = 0");
    }
    const std::string rows = "SELECT count(*), sum(length(v)) FROM t; PRAGMA integrity_check";
    Sql sql(uri(file));
    const std::string before = sql.ask(rows);
    EXPECT_NE(before.find("1334|"), std::string::npos);
    sql.must("VACUUM");
    EXPECT_EQ(sql.ask(rows), before);
    sql.must("PRAGMA page_size=4096; VACUUM");
    EXPECT_EQ(sql.ask(rows), before);
    EXPECT_EQ(Sql(uri(as_if_killed(file))).ask(rows), before);
  }
}

TEST_P(Vfs, ADatabaseThatShrinksGivesSpaceBack) {
  Sql sql(uri(path));
  sql.must("PRAGMA auto_vacuum=FULL");
  std::uintmax_t after_first = 0;
  for (int round = 0; round < 20; ++round) {
    sql.must(round == 0 ? kManyRows : "INSERT INTO t SELECT v, zeroblob(500) FROM ids");
    if (round == 0) sql.must("CREATE TABLE ids AS SELECT id AS v FROM t");
    EXPECT_EQ(sql.ask(kAllRows), "2000|2000");
    sql.must("DELETE FROM t");
    EXPECT_EQ(sql.ask("PRAGMA integrity_check; SELECT count(*) FROM t"), "ok;0");
    if (round == 1) after_first = std::filesystem::file_size(path);
  }
  EXPECT_LE(std::filesystem::file_size(path), after_first + (1 << 20));
  EXPECT_EQ(Sql(uri(as_if_killed(path))).ask("PRAGMA integrity_check; SELECT count(*) FROM ids"),
            "ok;2000");
}

TEST_P(Vfs, ATransactionOfManyMegabytesCommits) {
  Sql sql(uri(path));
  sql.must("CREATE TABLE t(v); BEGIN");
  sql.must(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)"
      "INSERT INTO t SELECT randomblob(100000) FROM n");
  const std::string hash = sql.ask("SELECT count(*), sum(unicode(hex(v))) FROM t");
  EXPECT_EQ(Sql(uri(as_if_killed(path))).ask("SELECT count(*) FROM t"), "0");
  sql.must("COMMIT");
  Sql after(uri(as_if_killed(path)));
  EXPECT_EQ(after.ask("SELECT count(*), sum(unicode(hex(v))) FROM t"), hash);
  EXPECT_EQ(after.ask("PRAGMA integrity_check"), "ok");
}

TEST_P(Vfs, AttachedDatabasesCommitTogether) {
  Sql sql(uri(path));
  sql.must("ATTACH '" + uri(dir / "y.db") + "' AS y; ATTACH '" + uri(dir / "z.db") + "' AS z");
  sql.must("CREATE TABLE t(v); CREATE TABLE y.t(v); CREATE TABLE z.t(v)");
  for (const char* const mode : {"delete", "truncate", "persist", "memory", "off"}) {
    sql.must(std::string("PRAGMA journal_mode=") + mode);
    sql.must(
        "BEGIN; INSERT INTO t VALUES(1); INSERT INTO y.t VALUES(2); INSERT INTO z.t VALUES(3); "
        "COMMIT");
  }
  sql.must("BEGIN; INSERT INTO t VALUES(1); INSERT INTO y.t VALUES(2); ROLLBACK");
  for (const char* const file : {"x.db", "y.db", "z.db"})
    EXPECT_EQ(
        Sql(uri(as_if_killed(dir / file))).ask("SELECT count(*) FROM t; PRAGMA integrity_check"),
        "5;ok");
}

TEST_P(Vfs, TemporaryTablesAndLargeSortsWork) {
  Sql sql(uri(path));
  sql.must(kManyRows);
  sql.must("PRAGMA cache_size=10; PRAGMA temp_store=FILE; PRAGMA temp.cache_size=10");
  sql.must("CREATE TEMP TABLE u AS SELECT id, randomblob(900) AS v FROM t");
  EXPECT_EQ(sql.ask("SELECT count(*) FROM (SELECT v FROM u ORDER BY v)"), "2000");
  EXPECT_EQ(sql.ask("SELECT count(*) FROM (SELECT DISTINCT v FROM u)"), "2000");
}

// ---- WAL ---------------------------------------------------------------------------------------

TEST_P(Vfs, WalModeIsAnsweredWithTheModeThatStays) {
  for (const std::string locking : {"NORMAL", "EXCLUSIVE"}) {
    SCOPED_TRACE(locking);
    const std::string file = dir / locking;
    {
      Sql sql(uri(file));
      sql.must("PRAGMA locking_mode=" + locking + "; CREATE TABLE t(v)");
      EXPECT_EQ(sql.ask("PRAGMA journal_mode=WAL"), "delete");
      EXPECT_EQ(sql.ask("PRAGMA journal_mode=persist"), "persist");
      EXPECT_EQ(sql.ask("PRAGMA main.journal_mode(Wal)"), "persist");
      sql.must("INSERT INTO t VALUES(1)");
    }
    EXPECT_EQ(Sql(uri(file)).ask("SELECT * FROM t"), "1");
  }
}

TEST_P(Vfs, AWalDatabaseThatIsCopiedInLosesItsWalMode) {
  const std::string plain = dir / "plain.db";
  {
    Sql from(plain);
    EXPECT_EQ(from.ask("PRAGMA journal_mode=WAL"), "wal");
    from.must(kManyRows);
    Sql to(uri(path));
    sqlite3_backup* const backup = sqlite3_backup_init(to.db(), "main", from.db(), "main");
    ASSERT_NE(backup, nullptr) << sqlite3_errmsg(to.db());
    EXPECT_EQ(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    EXPECT_EQ(sqlite3_backup_finish(backup), SQLITE_OK);
    EXPECT_EQ(to.ask(kAllRows), "2000|2000") << "by the connection that copied, too";
    to.must("INSERT INTO t VALUES(9999, zeroblob(500))");
    EXPECT_EQ(to.ask("PRAGMA integrity_check; PRAGMA journal_mode"), "ok;delete");
  }
  EXPECT_EQ(Sql(uri(path)).ask(kAllRows), "2001|2001");
}

// ---- in and out --------------------------------------------------------------------------------

TEST_P(Vfs, VacuumIntoCopiesInAndOut) {
  const std::string plain = dir / "plain.db";
  const std::string back = dir / "back.db";
  {
    Sql(uri(path)).must(kManyRows);
  }
  {
    Sql(uri(path)).must("VACUUM INTO 'file:" + plain + "?vfs=unix'");
  }
  {
    Sql sql("file:" + plain + "?vfs=unix");
    EXPECT_EQ(sql.ask(kAllRows), "2000|2000");
    EXPECT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
    sql.must("VACUUM INTO '" + uri(back) + "'");
  }
  Sql sql(uri(back));
  EXPECT_EQ(sql.ask(kAllRows), "2000|2000");
  EXPECT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
}

TEST_P(Vfs, BackupsCopyInAndOutBetweenPageSizes) {
  for (const std::string page : {"1024", "4096", "16384"}) {
    SCOPED_TRACE(page);
    Sql from(uri(dir / ("from" + page)));
    from.must("PRAGMA page_size=" + page);
    from.must(kManyRows);
    Sql plain("file:" + (dir / ("plain" + page)) + "?vfs=unix");
    Sql back(uri(dir / ("back" + page)));
    back.must("PRAGMA page_size=4096; CREATE TABLE old(v)");
    for (auto [source, target] : {std::pair(&from, &plain), std::pair(&plain, &back)}) {
      sqlite3_backup* const backup =
          sqlite3_backup_init(target->db(), "main", source->db(), "main");
      ASSERT_NE(backup, nullptr);
      while (sqlite3_backup_step(backup, 7) == SQLITE_OK) {
      }
      EXPECT_EQ(sqlite3_backup_finish(backup), SQLITE_OK);
      EXPECT_EQ(target->ask(kAllRows), "2000|2000");
      EXPECT_EQ(target->ask("PRAGMA integrity_check"), "ok");
    }
    EXPECT_EQ(Sql(uri(as_if_killed(dir / ("back" + page)))).ask(kAllRows), "2000|2000");
  }
}

TEST_P(Vfs, SaysWhatItIs) {
  Sql sql(uri(path, "engine=softwrap"));
  const std::string info = sql.ask("PRAGMA perdure_info");
  EXPECT_NE(info.find("engine softwrap, domain "), std::string::npos) << info;
  EXPECT_NE(info.find("survives "), std::string::npos) << info;
  char* name = nullptr;
  sqlite3_file_control(sql.db(), "main", SQLITE_FCNTL_VFSNAME, &name);
  EXPECT_STREQ(name, "perdure");
  sqlite3_free(name);
}

}  // namespace
}  // namespace perdure::sqlite::testing
