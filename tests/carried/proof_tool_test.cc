// SPDX-License-Identifier: BSD-3-Clause
// perdure run, resume: programs that look for what a carried program could lose, killed at random moments: the
// supervisor, the program, or both. Each ends with what an uninterrupted run leaves, byte for byte.
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/carried/run_fixture.h"

namespace perdure {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// ---- Programs as they are ----

TEST_F(RunTest, LuaGoesOnAfterKills) {
  if (!has("lua5.4")) GTEST_SKIP() << "no lua5.4";
  write(path("job.lua"), R"(local out = assert(io.open(arg[1], "w"))
local state, seen = 1, {}
for line = 1, 500 do
  for _ = 1, 4000 do
    state = state * 6364136223846793005 + 1442695040888963407
    local key = "k" .. ((state >> 40) % 20011)
    seen[key] = ((seen[key] or "") .. string.char(97 + (state >> 33) % 26)):sub(-40)
  end
  local waits = coroutine.wrap(function() coroutine.yield(seen["k7"]) end)
  out:write(line, " ", state, " ", tostring(waits()), "\n")
end
out:close()
)");
  ASSERT_EQ(shell("lua5.4 " + quoted(path("job.lua")) + " " + quoted(path("want"))), 0);
  EXPECT_GE(
      torture({"lua5.4", path("job.lua"), path("got")}, 12, milliseconds(20), milliseconds(500)),
      3);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

class CompilerTest : public RunTest, public ::testing::WithParamInterface<int> {};

TEST_P(CompilerTest, GoesOnAfterKills) {
  // Not the driver: it has children.
  ASSERT_EQ(shell("g++ -print-prog-name=cc1plus > " + quoted(path("name"))), 0);
  std::string compiler = read(path("name"));
  compiler.pop_back();
  if (!fs::exists(compiler)) GTEST_SKIP() << "no cc1plus";
  std::string source =
      "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n";
  for (int i = 0; i < 60; ++i) {
    const std::string n = std::to_string(i);
    source +=
        "struct S" + n +
        " { std::map<int, std::string> words; std::vector<int> order; int f(int x) {\n" +
        "  for (int i = 0; i < x; ++i) { words[i * " + n + "] += 'a'; order.push_back(x ^ i); }\n" +
        "  std::sort(order.begin(), order.end(), [](int a, int b) { return a % " +
        std::to_string(i + 2) + " < b % " + std::to_string(i + 2) + "; });\n" +
        "  return order[static_cast<unsigned>(x) / 2] + static_cast<int>(words.size()); } };\n" +
        "int use" + n + "(int x) { S" + n + " s; return s.f(x); }\n";
  }
  write(path("job.cc"), source);
  ASSERT_EQ(shell("g++ -E -P -o " + quoted(path("job.ii")) + " " + quoted(path("job.cc"))), 0);
  const std::string level = "-O" + std::to_string(GetParam());
  const auto words = [&](const std::string& to) -> std::vector<std::string> {
    return {compiler, "-quiet", level, "-fpreprocessed", path("job.ii"), "-o", path(to)};
  };
  ASSERT_EQ(shell(line_of(words("want"))), 0);
  EXPECT_GE(torture(words("got"), 12, milliseconds(50), milliseconds(700)), 1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}
INSTANTIATE_TEST_SUITE_P(Levels, CompilerTest, ::testing::Values(1, 2),
                         [](const auto& level) { return "O" + std::to_string(level.param); });

TEST_F(RunTest, PythonsThreadsGoOnAfterKills) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  write(path("job.py"), R"(import hashlib, queue, sys, threading
made, checked = queue.Queue(8), queue.Queue()
def make():
    state, seen = 1, {}
    for line in range(2000):
        for _ in range(2500):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            seen[state >> 52] = seen.get(state >> 52, 0) + state % 7
        made.put((line, state, len(seen), sorted(seen.items())[state % len(seen)]))
    made.put(None)
def check():
    digest = hashlib.sha256()
    while (item := made.get()) is not None:
        digest.update(repr(item).encode())
        checked.put(f"{item} {digest.hexdigest()}\n")
    checked.put(None)
for each in (make, check):
    threading.Thread(target=each).start()
with open(sys.argv[1], "w") as out:
    while (line := checked.get()) is not None:
        out.write(line)
)");
  ASSERT_EQ(shell("/usr/bin/python3 " + quoted(path("job.py")) + " " + quoted(path("want"))), 0);
  EXPECT_GE(torture({"/usr/bin/python3", path("job.py"), path("got")}, 12, milliseconds(50),
                    milliseconds(600)),
            1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

// The records of an epoch take more room, then less, then more again.
TEST_F(RunTest, ManyDescriptorsGoOnAfterKills) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  write(path("job.py"), R"(import sys
state = 1
with open(sys.argv[1], "w") as out:
    for line in range(400):
        held = [open(sys.argv[0]) for _ in range(60 * (line % 7))]
        for _ in range(8000):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.write(f"{line} {state} {sum(len(each.readline()) for each in held)}\n")
)");
  ASSERT_EQ(shell("/usr/bin/python3 " + quoted(path("job.py")) + " " + quoted(path("want"))), 0);
  EXPECT_GE(torture({"/usr/bin/python3", path("job.py"), path("got")}, 12, milliseconds(50),
                    milliseconds(400)),
            1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

class SqliteLogTest : public RunTest {
 protected:
  /// A job with a write-ahead log, and what it answers and leaves when nobody kills it.
  void prepare(const std::string& locking, int batches) {
    sql_ = locking + "PRAGMA journal_mode=WAL;\nPRAGMA wal_autocheckpoint=60;\n" +
           "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c);\nCREATE INDEX i ON t(b);\n";
    for (int batch = 0; batch < batches; ++batch)
      sql_ +=
          "WITH RECURSIVE n(x) AS (SELECT " + std::to_string(batch * 500) +
          " UNION ALL SELECT x+1 FROM n LIMIT 500) INSERT INTO t SELECT x, (x*7919)%100003, 'row ' "
          "|| x FROM n;\nDELETE FROM t WHERE b % 41 = " +
          std::to_string(batch % 41) + ";\nSELECT count(*), sum(b), sum(length(c)) FROM t;\n";
    sql_ += "PRAGMA integrity_check;\n";
    ASSERT_EQ(shell("sqlite3 " + quoted(path("want.db")) + " '.read " + job("want") + "'"), 0);
  }
  std::string job(const std::string& to) {
    write(path(to + ".sql"), ".output " + path(to) + "\n" + sql_);
    return path(to + ".sql");
  }
  int torture_it(int kills, milliseconds least, milliseconds most) {
    return torture({"sqlite3", path("got.db"), ".read " + job("got")}, kills, least, most);
  }
  void expect_the_same() {
    EXPECT_TRUE(read(path("got")) == read(path("want")));
    for (const std::string name : {"want", "got"})
      EXPECT_EQ(shell("sqlite3 " + quoted(path(name + ".db")) + " .dump > " +
                      quoted(path(name + ".dump"))),
                0);
    EXPECT_TRUE(read(path("got.dump")) == read(path("want.dump")));
    EXPECT_THAT(read(path("got")), HasSubstr("\nok\n"));
  }

 private:
  std::string sql_;
};

TEST_F(SqliteLogTest, GoesOnAfterKills) {
  if (!has("sqlite3")) GTEST_SKIP() << "no sqlite3";
  prepare("PRAGMA locking_mode=EXCLUSIVE;\n", 150);
  EXPECT_GE(torture_it(12, milliseconds(20), milliseconds(500)), 1);
  expect_the_same();
  EXPECT_THAT(read(path(".errors")), ::testing::Not(HasSubstr("no epoch can end")));
}

// Its index of the log is memory that is shared for writing: no epoch ends while it is there, and a resume goes
// back to before it.
TEST_F(SqliteLogTest, WithSharedMemoryGoesBackToBeforeIt) {
  if (!has("sqlite3")) GTEST_SKIP() << "no sqlite3";
  prepare("", 300);
  as_many_ = true;  // Each takes it back to its beginning.
  EXPECT_GE(torture_it(5, milliseconds(100), milliseconds(900)), 1);
  expect_the_same();
  EXPECT_THAT(read(path(".errors")), HasSubstr("memory is shared for writing"));
}

// ---- Memory ----

struct Way {
  const char* name;
  std::vector<std::string> options;
};

class RandomMemoryTest : public RunTest, public ::testing::WithParamInterface<Way> {};

TEST_P(RandomMemoryTest, IsWhatItShouldBe) {
  options_ = GetParam().options;
  const std::string program = compiled("random_memory");
  const std::string seed = std::to_string(between(1, 1'000'000));
  const auto words = [&](const std::string& to) -> std::vector<std::string> {
    return {program, path(to), "3000", seed};
  };
  ASSERT_EQ(shell(line_of(words("want"))), 0);
  EXPECT_GE(torture(words("got"), 12, milliseconds(50), milliseconds(500)), 1);
  for (const std::string thread : {".0", ".1", ".2"})
    EXPECT_TRUE(read(path("got" + thread)) == read(path("want" + thread))) << "seed " << seed;
}
INSTANTIATE_TEST_SUITE_P(Ways, RandomMemoryTest,
                         ::testing::Values(Way{"Often", {"--epoch", "10ms"}},
                                           Way{"Pages", {"--epoch", "10ms", "--record", "pages"}},
                                           Way{"All", {"--epoch", "30ms", "--full"}},
                                           Way{"AsTheBudgetAllows", {"--epoch", "auto"}}),
                         [](const auto& way) { return std::string(way.param.name); });

// ---- Resumes that are killed, too ----

TEST_F(RunTest, AResumeMayBeKilledAtAnyMoment) {
  options_ = {"--epoch", "10ms"};
  const std::string program = compiled("threads");
  const std::vector<std::string> words{program, path("got"), "3000"};
  ASSERT_EQ(shell(quoted(program) + " " + quoted(path("want")) + " 3000"), 0);
  int kills = 0;
  const auto kill_after = [&](const std::vector<std::string>& tool, int ms) {
    int status = 0;
    const pid_t child = start(tool);
    if (ended_within(child, milliseconds(ms), status)) {
      EXPECT_EQ(status, 0) << read(path(".errors"));
      return false;
    }
    kill_some(child);
    ++kills;
    return !HasFailure() && !is_over();
  };
  // Until there is an epoch, nothing can be resumed, and that is said.
  const int many = kills_wanted(30);
  for (int ms = 0; ms < many; ++ms) {
    // One who was to be killed, and was just gone, had not been the program: it may end.
    const bool goes_on = kill_after(carried(words), ms % 40);
    ASSERT_FALSE(HasFailure());
    if (goes_on && newest_epoch() > 0) break;
    if (!goes_on) {
      fs::remove_all(state_);
      continue;
    }
    const ToolRun refused = finish({"resume", state_});
    EXPECT_EQ(refused.code, 3);
    EXPECT_THAT(refused.err, HasSubstr("perdure: "));
    fs::remove_all(state_);
  }
  while (newest_epoch() == 0) {
    fs::remove_all(state_);
    kill_after(carried(words), 500);
    ASSERT_FALSE(HasFailure());
  }
  bool goes_on = true;
  for (int i = 0; goes_on && i < many; ++i) {
    goes_on = kill_after({"resume", state_}, between(1, 10));
    newest_epoch();
  }
  for (int i = 0; goes_on && i < many; ++i) {
    goes_on = kill_after({"resume", state_}, 1 + i * 149 / many);
    newest_epoch();
  }
  // As soon as there is time for an epoch, there is progress.
  const std::uint64_t before = newest_epoch();
  for (int i = 0; goes_on && i < many / 5; ++i) goes_on = kill_after({"resume", state_}, 700);
  EXPECT_TRUE(!goes_on || newest_epoch() > before);
  if (goes_on) {
    EXPECT_EQ(finish({"resume", state_}).code, 0);
  }
  std::printf("killed %d times\n", kills);
  EXPECT_TRUE(kills >= many || !goes_on) << kills;
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

// ---- Files ----

class FilesTest : public RunTest, public ::testing::WithParamInterface<bool> {
 protected:
  void TearDown() override {
    if (GetParam()) fs::remove_all(state_);
    RunTest::TearDown();
  }
  /// Names, contents, modes and links below the directory.
  static std::string described(const std::string& directory) {
    std::vector<fs::path> paths;
    for (const auto& each : fs::recursive_directory_iterator(directory))
      paths.push_back(each.path());
    std::sort(paths.begin(), paths.end());
    std::map<ino_t, std::string> first;
    std::string all;
    for (const fs::path& each : paths) {
      struct stat state{};
      ::lstat(each.c_str(), &state);
      const std::string name = fs::relative(each.parent_path(), directory) / each.filename();
      char mode[8];
      std::snprintf(mode, sizeof mode, "%o", state.st_mode);
      all += name + " " + mode;
      if (S_ISLNK(state.st_mode)) all += " -> " + fs::read_symlink(each).string();
      if (S_ISREG(state.st_mode)) {
        all += " is " + first.emplace(state.st_ino, name).first->second + ": " +
               std::to_string(std::hash<std::string>{}(read(each))) + ", " +
               std::to_string(state.st_size) + " bytes";
      }
      all += "\n";
    }
    return all;
  }
};

TEST_P(FilesTest, AreWhatTheyShouldBe) {
  if (GetParam()) {
    state_ = "/dev/shm/perdure-run-test-" + std::to_string(::getpid());
    struct stat there{}, here{};
    if (::stat("/dev/shm", &there) != 0 || ::stat(directory_.c_str(), &here) != 0 ||
        there.st_dev == here.st_dev)
      GTEST_SKIP() << "no other file system";
  }
  const std::string program = compiled("files");
  const std::string seed = std::to_string(between(1, 1'000'000));
  for (const std::string each : {"want", "got"}) fs::create_directory(path(each));
  // What has several names, or is open without one, has to be linked into the state directory.
  const auto words = [&](const std::string& directory) {
    std::vector<std::string> all{program, path(directory), "30000", seed};
    if (GetParam()) all.push_back("plain");
    return all;
  };
  ASSERT_EQ(shell(line_of(words("want"))), 0);
  EXPECT_GE(torture(words("got"), 12, milliseconds(20), milliseconds(400)), 1);
  EXPECT_TRUE(read(path("got/log")) == read(path("want/log"))) << "seed " << seed;
  EXPECT_EQ(described(path("got")), described(path("want"))) << "seed " << seed;
  std::printf("%ld files and folders\n",
              std::distance(fs::recursive_directory_iterator(path("want")), {}));
}
INSTANTIATE_TEST_SUITE_P(StateDirectory, FilesTest, ::testing::Bool(), [](const auto& other) {
  return std::string(other.param ? "OnAnotherFileSystem" : "OnTheSame");
});

}  // namespace
}  // namespace perdure
