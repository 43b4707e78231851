// SPDX-License-Identifier: BSD-3-Clause
// The VFS perdure-plain: SQLite's journal is a durable file, and takes back what a kill leaves half done.
#include "apps/sqlite/sql_fixture.h"

namespace perdure::sqlite::testing {
namespace {

using Plain = OnBoth;
INSTANTIATE_TEST_SUITE_P(, Plain, ::testing::Values(kOnMemory, kOnDisk), place_name);

TEST_P(Plain, EveryJournalModeKeepsWhatWasCommitted) {
  for (const std::string mode : {"delete", "truncate", "persist", "memory", "off"}) {
    SCOPED_TRACE(mode);
    const std::string file = dir / mode;
    for (int opening = 0; opening < 2; ++opening) {
      Sql sql(plain_uri(file));
      ASSERT_EQ(sql.code(), SQLITE_OK);
      EXPECT_EQ(sql.ask("PRAGMA journal_mode=" + mode), mode);
      sql.must("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v TEXT)");
      for (int i = 0; i < 20; ++i)
        sql.must("BEGIN; INSERT INTO t(v) VALUES('a'); INSERT INTO t(v) VALUES('b'); COMMIT");
      EXPECT_EQ(sql.ask("SELECT count(*) FROM t; PRAGMA integrity_check"),
                opening == 0 ? "40;ok" : "80;ok");
    }
    EXPECT_EQ(Sql(plain_uri(as_if_killed(file))).ask("SELECT count(*) FROM t"), "80");
  }
}

TEST_P(Plain, TheJournalTakesBackWhatAKillLeaves) {
  for (const std::string mode : {"delete", "truncate", "persist"}) {
    SCOPED_TRACE(mode);
    const std::string file = dir / mode;
    Sql sql(plain_uri(file));
    sql.must(kManyRows);
    sql.must("PRAGMA cache_size=10; PRAGMA journal_mode=" + mode);
    sql.must("BEGIN; UPDATE t SET v=randomblob(500); DELETE FROM t WHERE id % 3 = 0");
    {
      Sql killed(plain_uri(as_if_killed(file)));
      EXPECT_EQ(killed.ask(kAllRows), "2000|2000");
      EXPECT_EQ(killed.ask("PRAGMA integrity_check"), "ok");
    }
    sql.must("COMMIT");
    EXPECT_EQ(Sql(plain_uri(as_if_killed(file))).ask(kAllRows), "1334|0");
    sql.must("BEGIN; DELETE FROM t; ROLLBACK");
    EXPECT_EQ(sql.ask(kAllRows), "1334|0");
  }
}

TEST_P(Plain, ACommitAcrossDatabasesIsAllOrNothing) {
  const std::string other = dir / "y.db";
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    in_child([&] {
      Sql sql(plain_uri(path));
      sql.run("ATTACH '" + plain_uri(other) + "' AS y");
      sql.run("CREATE TABLE IF NOT EXISTS t(v); CREATE TABLE IF NOT EXISTS y.t(v)");
      ::ualarm(static_cast<useconds_t>(3000 + 7000 * round), 0);  // its end
      for (;;) {
        if (sql.run("BEGIN; INSERT INTO t VALUES(1); INSERT INTO y.t VALUES(2); COMMIT") !=
            SQLITE_OK)
          return 1;
      }
    });
    // The second one first, and alone: the first one's journal says nothing to it.
    std::string rows;
    if (round % 2 == 0) {
      Sql sql(plain_uri(other));
      rows = sql.ask("SELECT count(*) FROM sqlite_schema");
      EXPECT_EQ(rows.find("error"), std::string::npos) << rows;
    }
    Sql sql(plain_uri(path));
    sql.must("ATTACH '" + plain_uri(other) + "' AS y");
    sql.must("CREATE TABLE IF NOT EXISTS t(v); CREATE TABLE IF NOT EXISTS y.t(v)");
    EXPECT_EQ(sql.ask("SELECT (SELECT count(*) FROM t) - (SELECT count(*) FROM y.t)"), "0");
    EXPECT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
  }
}

TEST_P(Plain, TheTwoVfsRefuseEachOthersDatabases) {
  {
    Sql(uri(path)).must("CREATE TABLE t(v)");
  }
  {
    Sql(plain_uri(dir / "y.db")).must("CREATE TABLE t(v)");
  }
  EXPECT_EQ(Sql(plain_uri(path)).code(), SQLITE_NOTADB);
  EXPECT_EQ(Sql(uri(dir / "y.db")).code(), SQLITE_NOTADB);
  Sql open(uri(path));
  EXPECT_EQ(Sql(plain_uri(path)).code(), SQLITE_CANTOPEN);
  EXPECT_EQ(open.ask("SELECT count(*) FROM t"), "0");
}

}  // namespace
}  // namespace perdure::sqlite::testing
