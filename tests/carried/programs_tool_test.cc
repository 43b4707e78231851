// SPDX-License-Identifier: BSD-3-Clause
// perdure run, resume, inspect: unmodified programs are killed at random moments, again and again,
// and end with what an uninterrupted run writes, byte for byte.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/checkpoint/arena_layout.h"
#include "tests/carried/run_fixture.h"

namespace perdure {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ThreadsTest : public RunTest, public ::testing::WithParamInterface<bool> {};

TEST_P(ThreadsTest, GoOnAfterKills) {
  if (GetParam()) options_.push_back("--full");
  const std::string program = compiled("threads");
  ASSERT_EQ(shell(quoted(program) + " " + quoted(path("want")) + " 1500"), 0);
  EXPECT_GE(torture({program, path("got"), "1500"}, 12, milliseconds(50), milliseconds(400)), 1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}
INSTANTIATE_TEST_SUITE_P(Memory, ThreadsTest, ::testing::Bool(), [](const auto& full) {
  return std::string(full.param ? "All" : "Changed");
});

TEST_F(RunTest, TheEpochBeforeTheNewestCanBeResumed) {
  const std::string program = compiled("threads");
  ASSERT_EQ(shell(quoted(program) + " " + quoted(path("want")) + " 1500"), 0);
  int status = 0;
  ASSERT_FALSE(
      ends_within(start(carried({program, path("got"), "1500"})), milliseconds(500), status));
  const std::string look = run({"inspect", path("state"), "--json"}).out;
  const std::string name = "\"newest epoch\": ";
  const std::size_t at = look.find(name);
  ASSERT_NE(at, std::string::npos) << look;
  const std::uint64_t newest = std::stoull(look.substr(at + name.size()));
  ASSERT_GE(newest, 2);
  EXPECT_EQ(run({"resume", path("state"), "--back"}).code, 0);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

TEST_F(RunTest, OneGoesBackOnceAndNotToWhatFilesCannotGoBackTo) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  options_ = {"--epoch", "300ms"};
  int status = 0;
  ASSERT_FALSE(ends_within(start(carried({"/usr/bin/python3", "-c",
                                          "import sys, time\n"
                                          "out = open(sys.argv[1], 'w')\n"
                                          "for number in range(125):\n"
                                          "    print(number, file=out, flush=True)\n"
                                          "    time.sleep(0.02)",
                                          path("got")})),
                           milliseconds(1500), status));
  const std::uint64_t newest = newest_epoch();
  ASSERT_GE(newest, 3);
  ends_within(start({"resume", state_, "--back"}), milliseconds(150), status);
  const ToolRun again = run({"resume", state_, "--back"});
  if (again.code != 0) {  // Else the first one had got to an epoch of its own.
    EXPECT_EQ(again.code, 2);
    EXPECT_THAT(again.err, HasSubstr("`perdure resume --back` has gone back to it"));
    EXPECT_EQ(run({"resume", state_}).code, 0);
  }
  std::string want;
  for (int number = 0; number < 125; ++number) want += std::to_string(number) + "\n";
  EXPECT_EQ(read(path("got")), want);
}

TEST_F(RunTest, PythonGoesOnAfterKills) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  write(path("job.py"), R"(import sys
state, seen = 1, {}
with open(sys.argv[1], "w") as out:
    for line in range(800):
        for _ in range(5000):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            seen[state >> 50] = seen.get(state >> 50, 0) + 1
        out.write(f"{line} {state} {len(seen)} {max(seen.values())}\n")
)");
  ASSERT_EQ(shell("/usr/bin/python3 " + quoted(path("job.py")) + " " + quoted(path("want"))), 0);
  EXPECT_GE(torture({"/usr/bin/python3", path("job.py"), path("got")}, 12, milliseconds(100),
                    milliseconds(600)),
            1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

TEST_F(RunTest, PerlGoesOnAfterKills) {
  if (!has("perl")) GTEST_SKIP() << "no perl";
  write(path("job.pl"), R"(open(my $out, '>', $ARGV[0]) or die;
my ($state, %seen) = (1);
for my $line (0 .. 900) {
  for (1 .. 5000) {
    $state = ($state * 1103515245 + 12345) % 2147483648;
    $seen{$state % 20011} .= chr(97 + $state % 26);
    $seen{$state % 20011} = '' if length $seen{$state % 20011} > 40;
  }
  print $out "$line $state ", scalar(keys %seen), " $seen{$state % 20011}\n";
}
close $out;
)");
  ASSERT_EQ(shell("perl " + quoted(path("job.pl")) + " " + quoted(path("want"))), 0);
  EXPECT_GE(torture({"env", "perl", path("job.pl"), path("got")}, 12, milliseconds(50),
                    milliseconds(400)),
            1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

TEST_F(RunTest, Bzip2GoesOnAfterKills) {
  if (!has("bzip2")) GTEST_SKIP() << "no bzip2";
  std::string text;
  std::mt19937 random(7);
  while (text.size() < 24'000'000)
    text += std::to_string(random() % 100'000) + " words and words\n";
  write(path("text"), text);
  ASSERT_EQ(shell("bzip2 -c " + quoted(path("text")) + " > " + quoted(path("want"))), 0);
  EXPECT_GE(torture({"bzip2", "-k", path("text")}, 12, milliseconds(50), milliseconds(700)), 1);
  EXPECT_TRUE(read(path("text.bz2")) == read(path("want")));
}

TEST_F(RunTest, SqliteGoesOnAfterKills) {
  if (!has("sqlite3")) GTEST_SKIP() << "no sqlite3";
  std::string sql =
      "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c);\n"
      "CREATE INDEX i ON t(b);\n";
  for (int batch = 0; batch < 60; ++batch) {
    const std::string first = std::to_string(batch * 1000);
    sql += "WITH RECURSIVE n(x) AS (SELECT " + first +
           " UNION ALL SELECT x+1 FROM n LIMIT 1000) "
           "INSERT INTO t SELECT x, (x*7919)%100003, 'row ' || x FROM n;\n"
           "UPDATE t SET c = c || '.' WHERE b % 50 = " +
           std::to_string(batch % 50) +
           ";\n"
           "SELECT count(*), sum(b), sum(length(c)) FROM t;\n";
  }
  sql += "PRAGMA integrity_check;\n";
  write(path("job.sql"), ".output " + path("got") + "\n" + sql);
  write(path("want.sql"), ".output " + path("want") + "\n" + sql);
  ASSERT_EQ(shell("sqlite3 " + quoted(path("want.db")) + " '.read " + path("want.sql") + "'"), 0);
  EXPECT_GE(torture({"sqlite3", path("got.db"), ".read " + path("job.sql")}, 12, milliseconds(50),
                    milliseconds(500)),
            1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
  EXPECT_EQ(shell("sqlite3 " + quoted(path("want.db")) + " .dump > " + quoted(path("want.dump"))),
            0);
  EXPECT_EQ(shell("sqlite3 " + quoted(path("got.db")) + " .dump > " + quoted(path("got.dump"))), 0);
  EXPECT_TRUE(read(path("got.dump")) == read(path("want.dump")));
}

TEST_F(RunTest, HeldOutputComesOnceAndWhole) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  write(path("job.py"), R"(import sys
state = 1
for line in range(2500):
    for _ in range(5000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    print(line, state, "x" * (state % 500), flush=True)
)");
  ASSERT_EQ(shell("/usr/bin/python3 " + quoted(path("job.py")) + " > " + quoted(path("want"))), 0);
  // A fifo: what is held goes there; what reads it is told of no kill.
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const int both_ends = ::open(path("fifo").c_str(), O_RDWR | O_CLOEXEC);
  std::thread reader([&] { shell("cat " + quoted(path("fifo")) + " > " + quoted(path("got"))); });
  options_.insert(options_.end(), {"--output", "hold"});
  output_ = path("fifo");
  EXPECT_GE(torture({"/usr/bin/python3", path("job.py")}, 12, milliseconds(50), milliseconds(400)),
            1);
  ::close(both_ends);
  reader.join();
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

TEST_F(RunTest, WhatSomebodyElseChangedIsNotTakenForWhatItWas) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  int status = 0;
  ends_within(
      start(carried({"/usr/bin/python3", "-c",
                     "import sys, time\n"
                     "out = open(sys.argv[1], 'w'); out.write('abc'); out.flush(); time.sleep(2)",
                     path("got")})),
      milliseconds(800), status);
  overwrite(path("got"), 1, "X");
  const ToolRun refused = run({"resume", path("state")});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("not by the program"));
  EXPECT_EQ(read(path("got")), "aXc");
}

TEST_F(RunTest, TheClockDoesNotGoBackAtAReboot) {
  if (!has("python3") || shell("unshare --time --monotonic 9000 true 2> /dev/null") != 0)
    GTEST_SKIP() << "no python3, or no namespaces of times";
  write(path("job.py"), R"(import sys, time
last = time.monotonic()
with open(sys.argv[1], "w") as out:
    for line in range(100):
        time.sleep(0.01)
        now = time.monotonic()
        out.write(f"{line} {now >= last and now - last < 60}\n")
        last = now
)");
  // As before a reboot: the clock says more than it does now.
  std::string command =
      "unshare --time --monotonic 9000 --boottime 9000 --fork --kill-child " + quoted(tool_);
  for (const std::string& word : carried({"/usr/bin/python3", path("job.py"), path("got")}))
    command += " " + quoted(word);
  EXPECT_NE(shell("timeout -s KILL 0.7 " + command + " > /dev/null 2>&1"), 0);
  std::string want;
  for (int line = 0; line < 100; ++line) want += std::to_string(line) + " True\n";
  const ToolRun resumed = run({"resume", path("state")});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(read(path("got")), want);
}

TEST_F(RunTest, WhatKeepsEpochsFromEndingIsSaid) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  const ToolRun shared =
      run({"run", "--state", path("a"), "--epoch", "50", "--", "/usr/bin/python3", "-c",
           "import mmap, time; m = mmap.mmap(-1, 4096); time.sleep(3)"});
  EXPECT_EQ(shared.code, 0);
  EXPECT_THAT(shared.err, HasSubstr("memory is shared"));
  const ToolRun child = run({"run", "--state", path("b"), "--epoch", "50", "--", "sh", "-c",
                             "sleep 3; sleep 0.3; exit 4"});
  EXPECT_EQ(child.code, 4);
  EXPECT_THAT(child.err, HasSubstr("child processes"));
}

TEST_F(RunTest, SleepsAreNotCutShortByEpochs) {
  const auto begin = Clock::now();
  EXPECT_EQ(run({"run", "--state", path("state"), "--epoch", "20", "--", "sleep", "1"}).code, 0);
  EXPECT_GE(Clock::now() - begin, milliseconds(1000));
}

TEST_F(RunTest, ExitCodesAndSignalsAreThoseOfTheProgram) {
  EXPECT_EQ(run({"run", "--state", path("a"), "--", "sh", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(run({"run", "--state", path("b"), "--", "sh", "-c", "kill -TERM $$"}).code, 128 + 15);
  const ToolRun again = run({"resume", path("a")});
  EXPECT_EQ(again.code, 3);
  EXPECT_THAT(again.err, HasSubstr("exit code 7"));
}

TEST_F(RunTest, WhatCannotBeCarriedIsRefusedBeforeItRuns) {
  write(path("plain.c"), "int main(void) { return 0; }\n");
  ASSERT_EQ(shell("cc -static -o " + quoted(path("static")) + " " + quoted(path("plain.c"))), 0);
  const ToolRun fixed = run({"run", "--state", path("state"), "--", path("static")});
  EXPECT_EQ(fixed.code, 2);
  EXPECT_THAT(fixed.err, HasSubstr("statically"));
  ASSERT_EQ(shell("cc -o " + quoted(path("setuid")) + " " + quoted(path("plain.c")) +
                  " && chmod u+s " + quoted(path("setuid"))),
            0);
  const ToolRun setuid = run({"run", "--state", path("state"), "--", path("setuid")});
  EXPECT_EQ(setuid.code, 2);
  EXPECT_THAT(setuid.err, HasSubstr("setuid"));
  EXPECT_EQ(run({"run", "--state", path("state"), "--", "no-such-program"}).code, 3);
  EXPECT_FALSE(fs::exists(path("state")));
}

TEST_F(RunTest, ADirectoryInUseIsBusyAndOneThatWasUsedIsKept) {
  const pid_t child =
      start({"run", "--state", path("state"), "--epoch", "20", "--", "sleep", "30"});
  std::this_thread::sleep_for(milliseconds(700));
  const ToolRun busy = run({"resume", path("state")});
  EXPECT_EQ(busy.code, 3);
  EXPECT_THAT(busy.err, HasSubstr("runs in it"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const ToolRun used = run({"run", "--state", path("state"), "--", "true"});
  EXPECT_EQ(used.code, 3);
  EXPECT_THAT(used.err, HasSubstr("perdure resume"));
}

TEST_F(RunTest, AForeignDirectoryStaysAsItIs) {
  const auto mode = fs::perms(0755);
  fs::create_directory(path("site"));
  fs::permissions(path("site"), mode);
  write(path("site/page"), "a page");
  const ToolRun refused = run({"run", "--state", path("site"), "--", "true"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("holds page"));
  EXPECT_EQ(fs::status(path("site")).permissions(), mode);
  EXPECT_FALSE(fs::exists(path("site/lock")));
}

TEST_F(RunTest, AScriptsInterpreterMayHaveALongPath) {
  const std::string folder = path(std::string(80, 'd'));
  fs::create_directory(folder);
  fs::create_symlink("/bin/sh", folder + "/sh");
  write(path("script"), "#!" + folder + "/sh\nexit 5\n");
  fs::permissions(path("script"), fs::perms(0755));
  EXPECT_EQ(run({"run", "--state", path("state"), "--", path("script")}).code, 5);
}

class DamageTest : public RunTest {
 protected:
  void SetUp() override {
    RunTest::SetUp();
    if (IsSkipped()) return;
    int status = 0;
    ends_within(start({"run", "--state", path("state"), "--epoch", "20", "--", "sleep", "30"}),
                milliseconds(900), status);
    image_ = path("state/image");
    file_ = ::open(image_.c_str(), O_RDWR);
    ASSERT_GE(file_, 0);
  }
  void TearDown() override {
    ::close(file_);
    RunTest::TearDown();
  }
  /// An offset of the image at which there is something: most of the file has never been written.
  off_t somewhere(std::mt19937& random) const {
    std::vector<std::pair<off_t, off_t>> parts;
    off_t bytes = 0;
    for (off_t at = 0; (at = ::lseek(file_, at, SEEK_DATA)) >= 0;) {
      const off_t end = ::lseek(file_, at, SEEK_HOLE);
      parts.emplace_back(at, end);
      bytes += end - at;
      at = end;
    }
    off_t wanted = std::uniform_int_distribution<off_t>(0, bytes - 1)(random);
    for (const auto& [begin, end] : parts) {
      if (wanted < end - begin) return begin + wanted;
      wanted -= end - begin;
    }
    return 0;
  }
  std::string image_;
  int file_ = -1;
};

TEST_F(DamageTest, WhateverIsDamagedIsNamedOrIsMemory) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const off_t offset = trial < 20 ? off_t{trial} * 5 : somewhere(random);
    char old = 0;
    ASSERT_EQ(::pread(file_, &old, 1, offset), 1);
    const char bad = static_cast<char>(old ^ (1 << trial % 8));
    ASSERT_EQ(::pwrite(file_, &bad, 1, offset), 1);
    const ToolRun look = run({"inspect", path("state")});
    // The padding of the first pages and what memory holds may change unseen.
    if (offset < 104 || look.code != 0) {
      EXPECT_EQ(look.code, 3) << offset;
      EXPECT_THAT(look.err, HasSubstr(path("state"))) << offset;
      EXPECT_EQ(run({"resume", path("state")}).code, 3) << offset;
    }
    ASSERT_EQ(::pwrite(file_, &old, 1, offset), 1);
  }
  EXPECT_EQ(run({"inspect", path("state")}).code, 0);
}

TEST_F(DamageTest, ForeignNewerAndCutFilesAreTold) {
  const auto look = [&] { return run({"inspect", path("state")}); };
  ASSERT_EQ(::pwrite(file_, "\xff", 1, 8), 1);
  EXPECT_THAT(look().err, HasSubstr("version 255"));
  ASSERT_EQ(::pwrite(file_, "a letter", 8, 0), 8);
  EXPECT_THAT(look().err, HasSubstr("not a Perdure arena"));
  ASSERT_EQ(::ftruncate(file_, 0), 0);
  EXPECT_EQ(look().code, 3);
  EXPECT_EQ(run({"resume", path("state")}).code, 3);
  EXPECT_EQ(run({"inspect", path("nowhere")}).code, 3);
  EXPECT_THAT(run({"resume", path("nowhere")}).err, HasSubstr("--state"));
}

TEST_F(DamageTest, AnEpochThatSurvivesPowerCutsIsNotSkipped) {
  const std::vector<std::string> program = {"sh", "-c", "i=0; while :; do i=$((i+1)); done"};
  std::vector<std::string> command = {"run", "--state",   path("power"), "--epoch",
                                      "20",  "--durable", "power",       "--"};
  command.insert(command.end(), program.begin(), program.end());
  int status = 0;
  ends_within(start(command), milliseconds(4000), status);
  // Where each epoch ends in the log.
  const int image = ::open(path("power/image").c_str(), O_RDWR);
  ASSERT_GE(image, 0);
  checkpoint::ArenaSuperblock super{};
  ASSERT_EQ(::pread(image, &super, sizeof(super), 0), ssize_t{sizeof(super)});
  std::vector<off_t> commits;
  checkpoint::Record record{};
  for (auto at = static_cast<off_t>(super.segment_offset[0] + checkpoint::kSegmentHeadBytes);
       ::pread(image, &record, sizeof(record), at) == ssize_t{sizeof(record)} && record.epoch != 0;
       at += static_cast<off_t>(sizeof(record) + checkpoint::payload_bytes(record))) {
    if (record.kind == checkpoint::RecordKind::kCommit) commits.push_back(at);
  }
  ASSERT_GT(commits.size(), 3u);
  const off_t damaged = commits[commits.size() - 3];
  ASSERT_EQ(::pwrite(image, "\x55", 1, damaged), 1);
  ::close(image);

  const ToolRun refused = run({"resume", path("power")});
  EXPECT_EQ(refused.code, 3) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("--back"));
  EXPECT_FALSE(ends_within(start({"resume", path("power"), "--back"}), milliseconds(1500), status))
      << "the program goes on from the epoch before the lost ones";
  EXPECT_EQ(run({"inspect", path("power")}).code, 0);
}

TEST_F(DamageTest, ACutImageIsTruncated) {
  ASSERT_EQ(::ftruncate(file_, 1 << 20), 0);
  EXPECT_THAT(run({"resume", path("state")}).err, HasSubstr("its superblock says"));
}

}  // namespace
}  // namespace perdure
