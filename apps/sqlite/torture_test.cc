// SPDX-License-Identifier: BSD-3-Clause
// Kills: a child commits transactions and tells of each through a pipe, until it is killed at a random moment. Then every
// commit that was told of is there, at most one more is, and none by half. PERDURE_SQLITE_KILLS says how many kills instead of
// the few of a test run.
//
// So it is with threads of one child that write and read at the same time; there, too, no row is missing that a reader was shown.
// (A kill loses nothing that the kernel has: what a power cut loses is for early_release_test.cc.)
#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "apps/sqlite/sql_fixture.h"
#include "papers/sqlite_pools.h"

namespace perdure::sqlite::testing {
namespace {

constexpr char kSchema[] =
    "CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY, half, filler);"
    "CREATE TABLE IF NOT EXISTS total(n);"
    "CREATE INDEX IF NOT EXISTS by_filler ON log(filler)";
/// 1 if each transaction is there as a whole: two rows, and one more in the total. (Transaction n has the ids 2n and 2n + 1.)
constexpr char kWhole[] =
    "SELECT count(*) = 2 * (SELECT n FROM total) AND coalesce(max(id), -1) = count(*) - 1 AND "
    "coalesce(sum(half), 0) * 2 = count(*) FROM log";

struct Way {
  const char* name;
  const char* place;
  const char* parameters;
  const char* pragmas;
  bool plain = false;
};

/// Commits transaction after transaction from `next` on, and writes 8 bytes for each.
[[noreturn]] void commit_for_ever(const std::string& name, const char* pragmas, long next,
                                  int acknowledgements, unsigned seed) {
  Sql sql(name);
  if (sql.code() != SQLITE_OK || sql.run(pragmas) != SQLITE_OK) ::_exit(1);
  std::mt19937 random(seed);
  for (;; ++next) {
    const std::string id = std::to_string(2 * next);
    const std::string bytes = std::to_string(random() % 10 == 0 ? 40000 : random() % 600);
    std::string work =
        "BEGIN IMMEDIATE; INSERT INTO log VALUES(" + id + ", 0, randomblob(" + bytes + "));";
    if (random() % 5 == 0) work += "UPDATE log SET filler=randomblob(700) WHERE id % 7 = 3;";
    if (random() % 7 == 0) work += "SAVEPOINT s; DELETE FROM log; ROLLBACK TO s;";
    work += "INSERT INTO log VALUES(" + id + "+1, 1, 'b'); UPDATE total SET n=n+1;";
    const bool roll_back = random() % 10 == 0;
    if (sql.run(work) != SQLITE_OK) ::_exit(2);
    if (roll_back) {
      if (sql.run("ROLLBACK") != SQLITE_OK || sql.run(work) != SQLITE_OK) ::_exit(3);
    }
    if (sql.run("COMMIT") != SQLITE_OK) ::_exit(4);
    if (::write(acknowledgements, &next, sizeof(next)) != sizeof(next)) ::_exit(5);
  }
}

struct Torture : ::testing::TestWithParam<Way> {
  Torture() { papers::open_databases_in_the_laboratory(); }
};
INSTANTIATE_TEST_SUITE_P(
    , Torture,
    ::testing::Values(Way{"Memory", kOnMemory, "", "PRAGMA cache_size=5"},
                      Way{"MemoryAdr", kOnMemory, "domain=adr", "PRAGMA journal_mode=persist"},
                      Way{"Disk", kOnDisk, "", "PRAGMA cache_size=5; PRAGMA journal_mode=truncate"},
                      Way{"DiskBlurred", kOnDisk, "engine=blurred", "PRAGMA journal_mode=memory"},
                      Way{"MemorySoftwrap", kOnMemory, "engine=softwrap&private_bytes=64K",
                          "PRAGMA cache_size=5"},
                      Way{"DiskSoftwrap", kOnDisk, "engine=softwrap&private_bytes=64K",
                          "PRAGMA cache_size=5"},
                      Way{"DiskTables", kOnDisk, "engine=softwrap-tables", "PRAGMA cache_size=5"},
                      Way{"MemoryUnsynced", kOnMemory, "", "PRAGMA synchronous=OFF"},
                      Way{"PlainMemory", kOnMemory, "", "PRAGMA cache_size=5", true},
                      Way{"PlainDisk", kOnDisk, "", "PRAGMA cache_size=5", true},
                      Way{"PlainDiskPersist", kOnDisk, "", "PRAGMA journal_mode=persist", true}),
    [](const auto& way) { return way.param.name; });

TEST_P(Torture, NoKillLosesACommitOrLeavesHalfOfOne) {
  const Way& way = GetParam();
  const char* const asked = std::getenv("PERDURE_SQLITE_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : 4;
  const TempDir dir{way.place};
  const std::string name =
      way.plain ? plain_uri(dir / "x.db", way.parameters) : uri(dir / "x.db", way.parameters);
  {
    Sql sql(name);
    sql.must(kSchema);
    sql.must("INSERT INTO total VALUES(0)");
  }
  long acknowledged = -1;  // the last transaction
  std::mt19937 random(std::random_device{}());
  for (int kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE(kill);
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const auto seed = static_cast<unsigned>(random());
    const pid_t child = ::fork();
    if (child == 0) commit_for_ever(name, way.pragmas, acknowledged + 1, pipe[1], seed);
    ::close(pipe[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
    for (long told = 0; ::read(pipe[0], &told, sizeof(told)) == sizeof(told);) acknowledged = told;
    ::close(pipe[0]);

    Sql sql(name);
    ASSERT_EQ(sql.code(), SQLITE_OK) << ErrorLog::instance().take();
    ASSERT_EQ(sql.ask("PRAGMA integrity_check"), "ok");
    ASSERT_EQ(sql.ask(kWhole), "1");
    const long there = std::atol(sql.ask("SELECT n FROM total").c_str()) - 1;  // the last one
    ASSERT_GE(there, acknowledged);
    ASSERT_LE(there, acknowledged + 1);
    acknowledged = there;
    if (kill % 8 == 7) {  // so that what is rewritten stays small
      sql.must("DELETE FROM log; UPDATE total SET n=0; VACUUM");
      acknowledged = -1;
    }
  }
  std::printf("%s: %d kills, the last database with %ld transactions\n", way.name, kills,
              acknowledged + 1);
}

// ---- several threads ------------------------------------------------------------------------------

constexpr int kRowCount = 8;
struct Shown {
  long row;
  long n;
};

/// Counts up a row, or looks at any, and tells what was acknowledged or shown.
void work_for_ever(const std::string& name, int row, int shown, unsigned seed) {
  Sql sql(name);
  sqlite3_busy_timeout(sql.db(), 60000);
  std::mt19937 random(seed);
  for (;;) {
    const bool write = row < kRowCount && random() % 8 != 0;
    Shown now{write ? row : static_cast<long>(random() % kRowCount), 0};
    const std::string id = std::to_string(now.row);
    if (write && sql.run("BEGIN IMMEDIATE; UPDATE t SET n=n+1 WHERE id=" + id) != SQLITE_OK)
      ::_exit(1);
    const std::string n = sql.ask("SELECT n FROM t WHERE id=" + id);
    if (write && sql.run("COMMIT") != SQLITE_OK) ::_exit(2);
    if (n.starts_with("error")) ::_exit(3);
    now.n = std::stol(n);
    if (::write(shown, &now, sizeof(now)) != sizeof(now)) ::_exit(4);
  }
}

using TortureOfThreads = ::testing::TestWithParam<Way>;
INSTANTIATE_TEST_SUITE_P(, TortureOfThreads,
                         ::testing::Values(Way{"Memory", kOnMemory, "", ""},
                                           Way{"Disk", kOnDisk, "", ""},
                                           Way{"DiskEarlyReads", kOnDisk, "early_reads=1", ""},
                                           Way{"DiskSoftwrap", kOnDisk, "engine=softwrap", ""}),
                         [](const auto& way) { return way.param.name; });

TEST_P(TortureOfThreads, NoKillLosesWhatWasAcknowledgedOrShown) {
  const Way& way = GetParam();
  const char* const asked = std::getenv("PERDURE_SQLITE_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : 4;
  const TempDir dir{way.place};
  const std::string name = uri(dir / "x.db", way.parameters);
  {
    Sql sql(name);
    sql.must("CREATE TABLE t(id INTEGER PRIMARY KEY, n, filler)");
    for (int row = 0; row < kRowCount; ++row)
      sql.must("INSERT INTO t VALUES(" + std::to_string(row) + ", 0, zeroblob(3000))");
  }
  std::mt19937 random(std::random_device{}());
  std::vector<long> least(kRowCount, 0);
  for (int kill = 0; kill < kills; ++kill) {
    SCOPED_TRACE(kill);
    int pipe[2];
    ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    const auto seed = static_cast<unsigned>(random());
    const pid_t child = ::fork();
    if (child == 0) {
      std::vector<std::thread> threads;
      for (int i = 0; i < kRowCount + 2; ++i)  // four write, the others read
        threads.emplace_back(work_for_ever, name, i < 4 ? i : kRowCount, pipe[1],
                             seed + static_cast<unsigned>(i));
      for (std::thread& thread : threads) thread.join();
    }
    ::close(pipe[1]);
    std::thread end([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(20000 + random() % 300000));
      ::kill(child, SIGKILL);
    });
    for (Shown shown{}; ::read(pipe[0], &shown, sizeof(shown)) == sizeof(shown);)
      least[shown.row] = std::max(least[shown.row], shown.n);
    end.join();
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
    ::close(pipe[0]);
    Sql sql(name);
    ASSERT_EQ(sql.ask("PRAGMA integrity_check"), "ok") << ErrorLog::instance().take();
    for (int row = 0; row < kRowCount; ++row) {
      const long there = std::stol(sql.ask("SELECT n FROM t WHERE id=" + std::to_string(row)));
      EXPECT_GE(there, least[row]);
      EXPECT_LE(there, least[row] + 1);
      least[row] = there;
    }
  }
  std::printf("%s: %d kills, %ld transactions of one thread\n", way.name, kills, least[0]);
}

}  // namespace
}  // namespace perdure::sqlite::testing
