// SPDX-License-Identifier: BSD-3-Clause
// perdure run: what it promises besides the right end: an fsync is the end of an epoch, held output comes once, in
// order and not early, and what cannot be carried is refused with its cause.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/region/file.h"
#include "tests/carried/run_fixture.h"

namespace perdure {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- What was made durable stays ----

class SyncTest : public RunTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(SyncTest, WhatWasAnnouncedAfterItNeverGoesBack) {
  options_ = {"--epoch", "60s", "--durable", GetParam()};  // None ends by itself.
  const std::string program = compiled("announce");
  const Descriptor listener(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  constexpr int kLast = 1'000'000;
  const std::vector<std::string> words{program, path("got"), path("socket"), std::to_string(kLast)};

  int announced = 0, heard = 0;
  const auto listen = [&] {  // In order, but for what follows a resume.
    int number = 0;
    while (::recv(listener.get(), &number, sizeof number, 0) == sizeof number) {
      EXPECT_GE(number, announced);
      announced = number;
      ++heard;
    }
  };
  std::vector<std::string> tool = carried(words);
  const int kills = kills_wanted(12);
  int resumed = 0;
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    const pid_t child = start(tool);
    int status = 0;
    const auto until = Clock::now() + milliseconds(between(50, 700));
    while (Clock::now() < until) {
      ASSERT_FALSE(ended_within(child, milliseconds(2), status)) << read(path(".errors"));
      listen();
    }
    kill_some(child);
    listen();
    tool = next_words(words);
    if (tool[0] == "resume") ++resumed;
  }
  // The file, too, has all that was announced, as soon as it is back in its epoch.
  const pid_t child = start(tool);
  const int before = announced;
  int status = 0;
  const auto until = Clock::now() + milliseconds(10'000);
  while (Clock::now() < until && announced == before) {
    ASSERT_FALSE(ended_within(child, milliseconds(2), status)) << read(path(".errors"));
    listen();
  }
  end(child);
  EXPECT_GT(announced, before);
  std::string want;
  for (int number = 1; number <= announced; ++number) want += std::to_string(number) + "\n";
  EXPECT_TRUE(read(path("got")).starts_with(want));
  EXPECT_GE(resumed, 3);
  std::printf("killed %d times, %d numbers heard up to %d\n", kills, heard, announced);
}
INSTANTIATE_TEST_SUITE_P(Durable, SyncTest, ::testing::Values("process", "power"),
                         [](const auto& durable) { return std::string(durable.param); });

TEST_F(RunTest, WithPowerItGoesOnAfterKills) {
  options_ = {"--epoch", "40ms", "--durable", "power"};
  const std::string program = compiled("threads");
  ASSERT_EQ(shell(quoted(program) + " " + quoted(path("want")) + " 3000"), 0);
  EXPECT_GE(torture({program, path("got"), "3000"}, 12, milliseconds(50), milliseconds(500)), 1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

// ---- Held output ----

/// Somebody who reads what is released, not as fast as it might come, and cannot be told to forget it.
class Reader {
 public:
  explicit Reader(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    file_ = Descriptor(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        read_some(16'384);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  /// All that was written, without what the tool itself says.
  std::string text() {
    while (read_some(65'536)) {
    }
    const std::lock_guard lock(mutex_);
    if (all_.find("perdure: ") != std::string::npos)
      all_ = std::regex_replace(all_, std::regex("perdure: [^\n]*\n"), "");
    return all_;
  }

 private:
  bool read_some(std::size_t most) {
    const std::lock_guard lock(mutex_);
    std::string bytes(most, 0);
    const ssize_t got = ::read(file_.get(), bytes.data(), most);
    if (got > 0) all_.append(bytes, 0, static_cast<std::size_t>(got));
    return got > 0;
  }

  Descriptor file_;
  std::mutex mutex_;
  std::string all_;
  std::jthread thread_;
};

class HeldTest : public RunTest, public ::testing::WithParamInterface<bool> {};

TEST_P(HeldTest, IsAlwaysABeginningOfTheWhole) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  const bool both_in_one = GetParam();
  write(path("job.py"), R"(import sys
state = 1
for line in range(1500):
    for _ in range(4000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    print("out", line, state, "x" * (state % 3000), flush=True)
    if state % 3 == 0:
        print("err", line, state, file=sys.stderr, flush=True)
)");
  const std::string python = "/usr/bin/python3 " + quoted(path("job.py"));
  ASSERT_EQ(shell(python + " > " + quoted(path("want")) + " 2> " + quoted(path("want.err"))), 0);
  if (both_in_one) {
    ASSERT_EQ(shell(python + " > " + quoted(path("want")) + " 2>&1"), 0);
  }
  const std::string want = read(path("want")), want_errors = read(path("want.err"));
  Reader output(path("fifo")), errors(path("fifo.err"));
  options_.insert(options_.end(), {"--output", "hold"});
  output_ = path("fifo");
  errors_ = both_in_one ? output_ : path("fifo.err");

  const std::vector<std::string> words{"/usr/bin/python3", path("job.py")};
  const auto begins = [](const std::string& whole, const std::string& part) {
    const auto end =
        part.begin() + static_cast<std::ptrdiff_t>(std::min(part.size(), whole.size()));
    const auto at = std::mismatch(part.begin(), end, whole.begin()).first;
    if (at == part.end()) return ::testing::AssertionSuccess();
    const auto offset = static_cast<std::size_t>(at - part.begin());
    return ::testing::AssertionFailure()
           << "from byte " << offset << " of " << part.size()
           << " on: " << part.substr(offset < 60 ? 0 : offset - 60, 200)
           << "\n  which should be: " << whole.substr(offset < 60 ? 0 : offset - 60, 200);
  };
  std::vector<std::string> tool = carried(words);
  const int kills = kills_wanted(12);
  int done = 0, early = 0;
  for (bool over = false; !over; ++done) {
    const pid_t child = start(tool, output_, errors_);
    const auto until = Clock::now() + milliseconds(done == kills ? 60'000 : between(50, 500));
    int status = 0;
    while (!over && Clock::now() < until) {  // It waits when nobody reads.
      over = ended_within(child, milliseconds(5), status);
      ASSERT_TRUE(begins(want, output.text()));
      ASSERT_TRUE(begins(want_errors, errors.text()));
    }
    ASSERT_TRUE(over || done < kills) << "it does not end";
    if (over) {
      EXPECT_EQ(status, 0);
      break;
    }
    kill_some(child);
    ASSERT_TRUE(begins(want, output.text()));
    ASSERT_TRUE(begins(want_errors, errors.text()));
    if (!output.text().empty() && output.text().size() < want.size()) ++early;
    over = is_over();  // The kill was just too late.
    if (!over) tool = next_words(words);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_TRUE(output.text() == want);
  EXPECT_TRUE(both_in_one || errors.text() == want_errors);
  EXPECT_GE(early, 1) << "nothing was released before the end";
  std::printf("killed %d times\n", done);
}
INSTANTIATE_TEST_SUITE_P(Output, HeldTest, ::testing::Bool(), [](const auto& one) {
  return std::string(one.param ? "AndErrorsInOne" : "AndErrors");
});

TEST_F(RunTest, WhoeverReadsHeldOutputMayGo) {
  ASSERT_EQ(shell("timeout 60 " + quoted(tool_) + " run --epoch 40ms --output hold --state " +
                  quoted(state_) + " -- yes 2> " + quoted(path(".errors")) + " | head -1 > " +
                  quoted(path("got"))),
            0);
  EXPECT_EQ(read(path("got")), "y\n");
  EXPECT_THAT(read(path(".errors")), HasSubstr("ended by signal 13"));
}

// ---- Refusals ----

class RefusalTest : public RunTest {
 protected:
  /// Empty when it cannot be built here.
  std::string built(const std::string& name, const std::string& source, const std::string& flags) {
    write(path(name + ".c"), source);
    const bool done = shell("cc " + flags + " -o " + quoted(path(name)) + " " +
                            quoted(path(name + ".c")) + " 2> " + quoted(path("cc.err"))) == 0;
    return done ? path(name) : "";
  }
  static constexpr const char* kNothing = "int main(void) { return 0; }\n";
};

TEST_F(RefusalTest, BeforeAnythingRuns) {
  struct Case {
    std::string program, cause;
  };
  std::vector<Case> cases{
      {built("fixed", kNothing, "-static"), "linked statically"},
      {built("owned", kNothing, ""), "setuid"},
      {built("narrow", "void _start(void) { for (;;) {} }\n", "-m32 -nostdlib -no-pie"),
       "no 64-bit x86 program"},
  };
  ASSERT_EQ(shell("chmod u+s " + quoted(path("owned"))), 0);
  write(path("text"), "not a program\n");
  ASSERT_EQ(::chmod(path("text").c_str(), 0700), 0);
  cases.push_back({path("text"), "neither a program nor a script"});
  write(path("script"), "#!" + path("fixed") + "\n");
  ASSERT_EQ(::chmod(path("script").c_str(), 0700), 0);
  cases.push_back({path("script"), "linked statically"});
  for (const Case& each : cases) {
    if (each.program.empty()) continue;
    const ToolRun refused = finish(carried({each.program}), milliseconds(10'000));
    EXPECT_EQ(refused.code, 2) << each.program;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("perdure: "), HasSubstr(each.cause))) << each.program;
    EXPECT_FALSE(std::filesystem::exists(state_)) << each.program;
  }
}

TEST_F(RefusalTest, WhenItArisesAndWhenItIsOver) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  const std::string wait = "; time.sleep(3); undo(); time.sleep(0.7)";
  const auto python = [&](const std::string& code) {
    std::filesystem::remove_all(state_);
    const ToolRun done = finish(carried(
        {"/usr/bin/python3", "-c", "import mmap, os, subprocess, sys, time; " + code + wait}));
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_THAT(done.err, HasSubstr("no epoch can end now"));
    EXPECT_THAT(done.err, HasSubstr("epochs end again"));
    return done.err;
  };
  EXPECT_THAT(python("m = mmap.mmap(-1, 4096); undo = m.close"), HasSubstr("memory is shared"));
  write(path("mapped"), std::string(8192, 'a'));
  EXPECT_THAT(python("f = open('" + path("mapped") +
                     "', 'r+b'); m = mmap.mmap(f.fileno(), 8192); undo = m.close"),
              HasSubstr("memory is shared for writing: " + path("mapped")));
  EXPECT_THAT(python("p = subprocess.Popen(['sleep', '60']); "
                     "undo = lambda: (p.kill(), p.wait())"),
              HasSubstr("child processes"));
}

TEST_F(RefusalTest, OfSystemCallsThatNobodyCouldTakeBack) {
  const std::string program = built("rings", R"(#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  char parameters[256] = {0};
  const long ring = syscall(SYS_io_uring_setup, 4, parameters);
  printf("%ld %d ", ring, ring < 0 && errno == ENOSYS);
  unsigned long context = 0;
  const long old = syscall(SYS_io_setup, 4, &context);
  printf("%ld %d\n", old, old < 0 && errno == ENOSYS);
  return 0;
}
)",
                                    "");
  EXPECT_EQ(finish(carried({program})).out, "-1 1 -1 1\n");
}

TEST_F(RefusalTest, OfAStaticProgramThatOneReplacesItselfBy) {
  const std::string program =
      built("fixed", "#include <unistd.h>\nint main(void) { sleep(4); return 6; }\n", "-static");
  const ToolRun done = finish(carried({"sh", "-c", "exec " + program}));
  EXPECT_EQ(done.code, 6);
  EXPECT_THAT(done.err, HasSubstr("replaced itself by one that cannot be carried"));
}

}  // namespace
}  // namespace perdure
