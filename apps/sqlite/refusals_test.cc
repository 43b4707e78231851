// SPDX-License-Identifier: BSD-3-Clause
// What cannot be opened is refused with a code, told in SQLite's error log, and left as it is. A storage that fails loses
// nothing that was acknowledged.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>

#include <gmock/gmock.h>

#include "apps/sqlite/layout.h"
#include "apps/sqlite/sql_fixture.h"
#include "perdure/pool.h"

namespace perdure::sqlite::testing {
namespace {

using perdure::testing::contents_of;
using ::testing::HasSubstr;
using Refusals = OnBoth;
INSTANTIATE_TEST_SUITE_P(, Refusals, ::testing::Values(kOnMemory, kOnDisk), place_name);

void expect_refused(const std::string& name, int code, const std::string& told,
                    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
  ErrorLog::instance().take();
  Sql sql(name, flags);
  EXPECT_EQ(sql.code(), code) << name;
  EXPECT_THAT(ErrorLog::instance().take(), HasSubstr(told));
}

TEST_P(Refusals, AnOrdinaryDatabaseIsLeftAsItIs) {
  {
    Sql(path).must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  }
  const std::string before = contents_of(path);
  expect_refused(uri(path), SQLITE_NOTADB, "an ordinary SQLite database");
  EXPECT_TRUE(contents_of(path) == before);
  EXPECT_EQ(Sql(path).ask("SELECT v FROM t"), "1");
}

TEST_P(Refusals, APoolIsNoOrdinaryDatabase) {
  {
    Sql(uri(path)).must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  }
  EXPECT_EQ(Sql("file:" + path + "?vfs=unix").run("SELECT * FROM t"), SQLITE_NOTADB);
  EXPECT_EQ(Sql(uri(path)).ask("SELECT v FROM t"), "1");
}

TEST_P(Refusals, OtherFilesAreRefused) {
  std::ofstream(path) << std::string(100000, 'x');
  expect_refused(uri(path), SQLITE_NOTADB, path);
  std::ofstream(path, std::ios::trunc) << "";
  expect_refused(uri(path), SQLITE_NOTADB, "an empty file");
  expect_refused(uri(dir / "none"), SQLITE_CANTOPEN, "none", SQLITE_OPEN_READWRITE);
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
  expect_refused(uri(dir / "no/where"), SQLITE_CANTOPEN, "no/where");
}

TEST_P(Refusals, ADamagedPoolIsRefused) {
  {
    Sql(uri(path)).must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  }
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    for (const std::streamoff copy : {0, 6144}) {  // of the superblock
      file.seekp(copy + 20);
      file.put('\x55');
    }
  }
  const std::string before = contents_of(path);
  Sql sql(uri(path));
  EXPECT_TRUE(sql.code() == SQLITE_CORRUPT || sql.code() == SQLITE_CANTOPEN ||
              sql.code() == SQLITE_NOTADB)
      << sql.code();
  EXPECT_THAT(ErrorLog::instance().take(), HasSubstr(path));
  EXPECT_TRUE(contents_of(path) == before);
}

TEST_P(Refusals, AChunkThatIsNoneIsToldWithItsPlace) {
  {
    Sql(uri(path)).must("CREATE TABLE t(v); INSERT INTO t VALUES(zeroblob(300000))");
  }
  std::uint64_t where = 0;
  {
    Pool pool = Pool::open(path).value();
    auto* stored = pool.root<StoredFile>(kRoot);
    pool.atomically([&](auto& tx) {
      const pptr<std::uint64_t> chunk = stored->chunks.at(tx, 2);
      where = chunk.offset + 4096;
      stored->chunks.set(tx, 2, {where});
    });
  }
  const std::string before = contents_of(path);
  expect_refused(uri(path), SQLITE_CORRUPT, "the object at byte " + std::to_string(where));
  EXPECT_TRUE(contents_of(path) == before);
}

TEST_P(Refusals, AnotherPoolIsNoDatabaseButNoHarmIsDone) {
  {
    Pool pool = Pool::create(path).value();
    auto* counter = pool.root<std::uint64_t>("counter");
    pool.atomically([&](auto& tx) { tx.store(*counter, 7); });
  }
  {
    Sql(uri(path)).must("CREATE TABLE t(v)");
  }
  Pool pool = Pool::open(path).value();
  EXPECT_EQ(*pool.root<std::uint64_t>("counter"), 7u) << "a pool may hold more than a database";
}

TEST_P(Refusals, ASecondProcessIsToldThatTheDatabaseIsBusy) {
  Sql sql(uri(path));
  sql.must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  EXPECT_EQ(in_child([&] {
              ErrorLog::instance().take();
              Sql other(uri(path));
              if (other.code() != SQLITE_BUSY) return 1;
              if (ErrorLog::instance().take().find(path) == std::string::npos) return 2;
              // The parent's connection does no harm here.
              return sql.run("INSERT INTO t VALUES(2)") == SQLITE_OK ? 3 : 0;
            }),
            0);
  sql.must("INSERT INTO t VALUES(3)");
  EXPECT_EQ(sql.ask("SELECT v FROM t"), "1;3");
}

TEST_P(Refusals, AFileThatWasRemovedOrReplacedIsReadOnByWhoHasIt) {
  for (const std::string mode : {"delete", "persist", "off"}) {
    SCOPED_TRACE(mode);
    {
      Sql old(uri(path));
      old.must("PRAGMA journal_mode=" + mode + "; CREATE TABLE t(v); INSERT INTO t VALUES(1)");
      std::filesystem::rename(path, path + ".away");
      EXPECT_EQ(old.run("INSERT INTO t VALUES(2)"), mode == "off" ? SQLITE_OK : SQLITE_READONLY);
      expect_refused(uri(path), SQLITE_CANTOPEN, path, SQLITE_OPEN_READWRITE);
      {
        Sql fresh(uri(path));
        Sql second(uri(path));
        fresh.must("CREATE TABLE t(v); INSERT INTO t VALUES(8)");
        EXPECT_EQ(second.ask("SELECT v FROM t"), "8") << "a database of its own";
        EXPECT_EQ(old.ask("SELECT count(*) FROM t WHERE v=1"), "1");
        second.must("INSERT INTO t VALUES(9)");
        std::filesystem::remove(path);
        EXPECT_EQ(Sql(uri(path)).ask("SELECT count(*) FROM sqlite_schema"), "0");
        EXPECT_EQ(fresh.ask("SELECT v FROM t"), "8;9");
        EXPECT_EQ(old.ask("SELECT count(*) FROM t WHERE v=1"), "1");
      }
      std::ofstream(path) << "another file";
      expect_refused(uri(path), SQLITE_NOTADB, "not a Perdure pool");
      EXPECT_EQ(old.ask("SELECT count(*) FROM t WHERE v=1"), "1");
    }
    EXPECT_EQ(contents_of(path), "another file");
    std::filesystem::rename(path + ".away", path);
    EXPECT_EQ(Sql(uri(path)).ask("SELECT v FROM t"), mode == "off" ? "1;2" : "1");
    std::filesystem::remove(path);
  }
}

TEST_P(Refusals, WhoElseMayReadADatabaseIsForTheUmaskToSay) {
  for (const auto& [umask, mode] : {std::pair(022, 0644), std::pair(077, 0600)}) {
    const ::mode_t before = ::umask(static_cast<::mode_t>(umask));
    const std::string file = path + std::to_string(umask);
    EXPECT_EQ(Sql(uri(file)).code(), SQLITE_OK);
    ::umask(before);
    struct stat status{};
    EXPECT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, static_cast<::mode_t>(mode));
  }
}

TEST_P(Refusals, WrongParametersAreNamed) {
  expect_refused(uri(path, "engine=warp"), SQLITE_CANTOPEN,
                 "engine=warp in its URI; it may be one of mnemosyne, softwrap");
  expect_refused(uri(path, "domain=core"), SQLITE_CANTOPEN, "one of auto, adr, eadr, sync, dram");
  expect_refused(uri(path, "truncation=x"), SQLITE_CANTOPEN, "truncation=x");
  expect_refused(uri(path, "capacity=1X"), SQLITE_CANTOPEN, "a number of bytes");
  expect_refused(uri(path, "capacity=-1"), SQLITE_CANTOPEN, "a number of bytes");
  expect_refused(uri(path, "capacity=99999999T"), SQLITE_CANTOPEN, "a number of bytes");
  expect_refused(uri(path, "recovery_target=0"), SQLITE_CANTOPEN, "from 1 ms to an hour");
  expect_refused(uri(path, "threads=0"), SQLITE_CANTOPEN, "from 1 to 4096");
  expect_refused(uri(path, "domain=adr&line_ns=1000"), SQLITE_CANTOPEN, "the laboratory's");
  expect_refused(uri(path, "engine=softwrap&alias_words=100"), SQLITE_CANTOPEN, "the laboratory's");
  expect_refused(uri(path, "nolock=1"), SQLITE_CANTOPEN, "must lock");
  expect_refused(uri(path, "immutable=1"), SQLITE_CANTOPEN, "must lock");
  EXPECT_FALSE(std::filesystem::exists(path));
  Sql first(
      uri(path, "engine=softwrap&capacity=64M&threads=4&recovery_target=100&truncation=when-full"));
  EXPECT_EQ(first.code(), SQLITE_OK);
  Sql second(uri(path));
  EXPECT_EQ(second.code(), SQLITE_OK) << "without parameters it joins";
  expect_refused(uri(path, "engine=mnemosyne"), SQLITE_CANTOPEN, "with engine=softwrap");
}

TEST_P(Refusals, ReadOnlyConnectionsRead) {
  {
    Sql(uri(path)).must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
  }
  Sql sql(uri(path, "mode=ro"), SQLITE_OPEN_READONLY);
  EXPECT_EQ(sql.ask("SELECT v FROM t"), "1");
  EXPECT_EQ(sql.run("INSERT INTO t VALUES(2)"), SQLITE_READONLY);
  Sql writer(uri(path));
  writer.must("INSERT INTO t VALUES(2)");
  EXPECT_EQ(sql.ask("SELECT v FROM t"), "1;2");
}

TEST_P(Refusals, WhoOnlyReadsSeesADatabaseThatAnotherProcessHasOpen) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    Sql sql(uri(path));
    sql.must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    (void)!::write(ready[1], "r", 1);
    for (;;) sql.must("INSERT INTO t SELECT max(v) + 1 FROM t");
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  if (std::string(GetParam()) == kOnMemory) {
    expect_refused(uri(path, "mode=ro"), SQLITE_BUSY, "in use by process", SQLITE_OPEN_READONLY);
  } else {
    int last = 0;
    for (int i = 0; i < 10; ++i) {
      Sql sql(uri(path, "mode=ro"), SQLITE_OPEN_READONLY);
      const int rows = std::stoi(sql.ask("SELECT count(*) FROM t"));
      EXPECT_GE(rows, std::max(last, 1));
      last = rows;
      EXPECT_EQ(sql.ask("SELECT max(v) FROM t; PRAGMA integrity_check"),
                std::to_string(rows) + ";ok");
      EXPECT_EQ(sql.run("INSERT INTO t VALUES(2)"), SQLITE_READONLY);
      expect_refused(uri(path), SQLITE_BUSY, "in use by another process");
    }
  }
  ::kill(writer, SIGKILL);
  int status = 0;
  ::waitpid(writer, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
  Sql sql(uri(path));
  EXPECT_EQ(sql.ask("SELECT count(*) = max(v) FROM t; PRAGMA integrity_check"), "1;ok");
}

TEST_P(Refusals, AFullPoolLosesNothing) {
  Sql sql(uri(path, "capacity=24M&threads=2"));
  sql.must("CREATE TABLE t(v); INSERT INTO t VALUES(randomblob(100000))");
  int rows = 1;
  int code = SQLITE_OK;
  while ((code = sql.run("INSERT INTO t VALUES(randomblob(100000))")) == SQLITE_OK) ++rows;
  EXPECT_EQ(code, SQLITE_FULL);
  EXPECT_GT(rows, 20);
  const std::string count = std::to_string(rows);
  EXPECT_EQ(sql.ask("SELECT count(*) FROM t; PRAGMA integrity_check"), count + ";ok");
  sql.must("PRAGMA journal_mode=off");
  EXPECT_EQ(sql.run("INSERT INTO t VALUES(randomblob(2000000))"), SQLITE_FULL);
  EXPECT_EQ(sql.ask("SELECT count(*) FROM t; PRAGMA integrity_check"), count + ";ok");
  EXPECT_EQ(Sql(uri(as_if_killed(path))).ask("SELECT count(*) FROM t; PRAGMA integrity_check"),
            count + ";ok");
  // A transaction that overwrites more than a log holds needs room in the pool, too; SQLite may overwrite what it deletes.
  sql.must("PRAGMA journal_mode=delete");
  for (int row = rows; row > 5; --row) sql.must("DELETE FROM t WHERE rowid=" + std::to_string(row));
  sql.must("VACUUM");
  sql.must("INSERT INTO t VALUES(randomblob(100000))");
  EXPECT_EQ(sql.ask("SELECT count(*) FROM t; PRAGMA integrity_check"), "6;ok");
}

TEST_P(Refusals, AFileThatIsCutWhileItIsOpenIsAnErrorAndNotTheEndOfTheProcess) {
  Sql sql(uri(path));
  sql.must("PRAGMA cache_size=10; CREATE TABLE t(v)");
  for (int row = 0; row < 100; ++row) sql.must("INSERT INTO t VALUES(randomblob(50000))");
  Sql other(uri(path + ".other"));
  other.must("CREATE TABLE t(v)");
  ErrorLog::instance().take();
  ASSERT_EQ(::truncate(path.c_str(), std::filesystem::file_size(path) / 8192 * 4096), 0);
  EXPECT_EQ(sql.run("SELECT sum(length(hex(v))) FROM t"), SQLITE_IOERR);
  EXPECT_THAT(ErrorLog::instance().take(), HasSubstr(path + ": the page at offset "));
  EXPECT_EQ(sql.run("INSERT INTO t VALUES(1)"), SQLITE_IOERR);
  EXPECT_EQ(sql.run("SELECT sum(length(hex(v))) FROM t"), SQLITE_IOERR);
  other.must("INSERT INTO t VALUES(1)");
}

/// Makes every write to the open file fail, as a storage does that is gone. (The descriptor is exchanged for one that cannot
/// be written.)
void break_storage(const std::string& path) {
  const int broken = ::open("/dev/null", O_RDONLY);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) == path)
      ::dup2(broken, std::stoi(entry.path().filename()));
  }
  ::close(broken);
}

TEST(StorageFailures, AreNeverAcknowledgedAndTheDatabaseIsWholeAtTheNextOpening) {
  TempDir dir{kOnDisk};
  const std::string path = std::filesystem::canonical(dir / ".").string() + "/x.db";
  {
    Sql sql(uri(path));
    sql.must("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    Sql other(uri(path));
    break_storage(path);
    EXPECT_EQ(sql.run("INSERT INTO t VALUES(2)"), SQLITE_IOERR);
    EXPECT_EQ(sqlite3_extended_errcode(sql.db()) & 0xff, SQLITE_IOERR);
    EXPECT_EQ(sql.run("INSERT INTO t VALUES(3)"), SQLITE_IOERR);
    EXPECT_EQ(other.run("INSERT INTO t VALUES(4)"), SQLITE_IOERR);
  }
  Sql sql(uri(path));
  ASSERT_EQ(sql.code(), SQLITE_OK) << ErrorLog::instance().take();
  EXPECT_EQ(sql.ask("SELECT v FROM t; PRAGMA integrity_check"), "1;ok");
  sql.must("INSERT INTO t VALUES(5)");
  EXPECT_EQ(sql.ask("SELECT v FROM t; PRAGMA integrity_check"), "1;5;ok");
}

}  // namespace
}  // namespace perdure::sqlite::testing
