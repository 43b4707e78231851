// SPDX-License-Identifier: BSD-3-Clause
// perdure run: what a program has besides memory, threads and files. Each kind is used all the time by
// a program that is killed at random moments, and that looks whether all is as it was.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/carried/run_fixture.h"

namespace perdure {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

struct Kind {
  const char* name;
  int rounds;  // about two seconds
};

class KindsTest : public RunTest, public ::testing::WithParamInterface<Kind> {};

TEST_P(KindsTest, GoOnAfterKills) {
  const std::string program = compiled("kinds");
  const std::string kind = GetParam().name, rounds = std::to_string(GetParam().rounds);
  ASSERT_EQ(shell(quoted(program) + " " + kind + " " + quoted(path("want")) + " " + rounds), 0);
  EXPECT_GE(torture({program, kind, path("got"), rounds}, 12, milliseconds(100), milliseconds(350)),
            1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
  EXPECT_THAT(read(path(".errors")), Not(HasSubstr("not carried")));
}
INSTANTIATE_TEST_SUITE_P(Descriptors, KindsTest,
                         ::testing::Values(Kind{"pipes", 2500}, Kind{"socket_pairs", 2500},
                                           Kind{"events", 2500}, Kind{"timer_files", 1500},
                                           Kind{"epolls", 2500}, Kind{"signal_files", 2500},
                                           Kind{"memory_files", 2000}, Kind{"queues", 2500},
                                           Kind{"timers", 600}, Kind{"pending_signals", 1200},
                                           Kind{"locks", 2500}, Kind{"attributes", 2500},
                                           Kind{"views", 2500}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(RunTest, ServersGoOnAfterKills) {
  const std::string program = compiled("servers");
  ASSERT_EQ(shell(quoted(program) + " " + quoted(path("want")) + " 2500"), 0);
  EXPECT_GE(torture({program, path("got"), "2500"}, 12, milliseconds(100), milliseconds(350)), 1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

TEST_F(RunTest, AsyncioGoesOnAfterKills) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  // Its loop: an epoll with a socket pair in it, timers, a server whose clients connect again.
  write(path("job.py"), R"(import asyncio, signal, sys
async def ask(port, word):
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(word.encode() + b"\n")
            answer = (await reader.readline()).decode().strip()
            writer.close()
            if answer:
                return answer
        except ConnectionError:
            pass
async def answer(reader, writer):
    word = (await reader.readline()).decode().strip()
    writer.write(word[::-1].encode() + b"\n")
    writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    rung = asyncio.Event()
    loop.add_signal_handler(signal.SIGALRM, rung.set)
    with open(sys.argv[1], "w") as out:
        for line in range(400):
            called = loop.run_in_executor(None, sum, range(line))
            await asyncio.sleep(0.002)
            if line % 10 == 0:
                rung.clear()
                signal.setitimer(signal.ITIMER_REAL, 0.003)
                await rung.wait()
            print(line, await called, await ask(port, f"word {line}"), file=out, flush=True)
asyncio.run(main())
)");
  const std::string command = "/usr/bin/python3 " + quoted(path("job.py")) + " ";
  ASSERT_EQ(shell(command + quoted(path("want"))), 0);
  EXPECT_GE(torture({"/usr/bin/python3", path("job.py"), path("got")}, 12, milliseconds(150),
                    milliseconds(450)),
            1);
  EXPECT_TRUE(read(path("got")) == read(path("want")));
}

std::vector<std::string> waits() {
  return {"accept",
          "aio_suspend",
          "clock_nanosleep",
          "cond_timedwait",
          "epoll_pwait",
          "epoll_pwait2",
          "epoll_wait",
          "mq_timedreceive",
          "msgrcv",
          "msgsnd",
          "mutex_timedlock",
          "nanosleep",
          "pause",
          "poll",
          "ppoll",
          "poll_that_a_signal_ends",
          "pselect",
          "poll_that_timers_end",
          "read",
          "read_of_a_pipe",
          "recv",
          "recv_of_all",
          "recvmsg",
          "select",
          "sem_clockwait",
          "sem_timedwait",
          "sem_wait",
          "semop",
          "semtimedop",
          "send",
          "sigsuspend",
          "sigtimedwait",
          "sigwait",
          "sigwaitinfo",
          "thrd_sleep",
          "usleep",
          "write_of_much"};
}

class WaitsTest : public RunTest {};

TEST_F(WaitsTest, AreNotCutShortByEpochs) {
  const std::string program = compiled("waits");
  for (const std::string& wait : waits()) {
    std::filesystem::remove_all(path("state"));
    const ToolRun ran =
        run({"run", "--state", path("state"), "--epoch", "10", "--", program, "300", wait});
    EXPECT_EQ(ran.code, 0) << wait << ": " << ran.err;
  }
}

TEST_F(WaitsTest, GoOnForTheRestAfterAKill) {
  const std::string program = compiled("waits");
  int status = 0;
  ASSERT_FALSE(ends_within(
      start({"run", "--state", path("state"), "--epoch", "10", "--", program, "3000", "all"}),
      milliseconds(1500), status))
      << read(path(".errors"));
  std::this_thread::sleep_for(milliseconds(1000));
  const auto begin = Clock::now();
  const ToolRun resumed = run({"resume", path("state")});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_GE(Clock::now() - begin, milliseconds(1300));  // What is left of sleeps, say.
}

TEST_F(RunTest, WhatIsNotCarriedIsNamedOnce) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  write(path("job.py"), R"(import ctypes, os, socket, sys, time
ctypes.CDLL(None).inotify_init()
server = socket.create_server(("127.0.0.1", 0))
clients = [socket.create_connection(server.getsockname()) for _ in range(3)]
time.sleep(0.5)
with open(sys.argv[1], "w") as out:
    for client in clients:
        try:
            print(client.recv(1), file=out)
            client.send(b"x")
        except OSError as error:
            print(type(error).__name__, file=out)
    print(server.getsockname()[1] != 0, file=out)
)");
  int status = 0;
  ASSERT_FALSE(ends_within(start(carried({"/usr/bin/python3", path("job.py"), path("got")})),
                           milliseconds(400), status));
  ASSERT_EQ(run({"resume", path("state")}).code, 0);
  // The other end is closed: the end of what comes, and nowhere to send to.
  EXPECT_EQ(read(path("got")),
            "b''\nBrokenPipeError\nb''\nBrokenPipeError\nb''\nBrokenPipeError\nTrue\n");
  const std::string said = read(path(".errors"));
  EXPECT_THAT(said, HasSubstr("inotify (anon_inode:inotify), is not carried"));
  const std::size_t once = said.find("a connected socket (socket:[");
  ASSERT_NE(once, std::string::npos) << said;
  EXPECT_EQ(said.find("a connected socket", once + 1), std::string::npos);
}

TEST_F(RunTest, ADescriptorThatOnlyNamesAFileIsOpenedAgain) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  write(path("named"), "thirteen char");
  int status = 0;
  ASSERT_FALSE(
      ends_within(start(carried({"/usr/bin/python3", "-c",
                                 "import os, sys, time\n"
                                 "file = os.open(sys.argv[1], os.O_PATH)\n"
                                 "time.sleep(1.5)\n"
                                 "print(os.fstat(file).st_size, file=open(sys.argv[2], 'w'))",
                                 path("named"), path("got")})),
                  milliseconds(900), status));
  const ToolRun resumed = run({"resume", path("state")});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(read(path("got")), "13\n");
}

TEST_F(RunTest, UmaskAndSignalsAreWhatTheyWere) {
  if (!has("python3")) GTEST_SKIP() << "no python3";
  int status = 0;
  ASSERT_FALSE(ends_within(
      start(carried({"/usr/bin/python3", "-c",
                     "import os, signal, sys, time\n"
                     "os.umask(0o27)\n"
                     "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
                     "signal.signal(signal.SIGUSR2, lambda *_: print('handled', file=out))\n"
                     "until = time.time() + 1.5\n"
                     "while time.time() < until: time.sleep(0.1)\n"
                     "out = open(sys.argv[1], 'w')\n"
                     "os.kill(os.getpid(), signal.SIGUSR1)\n"
                     "os.kill(os.getpid(), signal.SIGUSR2)\n"
                     "print(oct(os.umask(0)), oct(os.stat(sys.argv[1]).st_mode), file=out)",
                     path("got")})),
      milliseconds(900), status));
  const ToolRun resumed = run({"resume", path("state")});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(read(path("got")), "handled\n0o27 0o100640\n");
}

TEST_F(RunTest, ALockThatSomebodyElseHasTakenIsRefused) {
  const std::string program = compiled("kinds");
  int status = 0;
  ASSERT_FALSE(ends_within(start(carried({program, "locks", path("got"), "100000"})),
                           milliseconds(600), status));
  const int other = ::open(path("got.ranges").c_str(), O_RDWR);
  struct flock range{};
  range.l_type = F_RDLCK;
  range.l_whence = SEEK_SET;
  // The killed program gives it up a moment later.
  for (int tries = 0; tries < 200 && ::fcntl(other, F_SETLK, &range) != 0; ++tries)
    std::this_thread::sleep_for(milliseconds(10));
  const ToolRun refused = run({"resume", path("state")});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("got.ranges: somebody else has taken the lock"));
  ::close(other);
  EXPECT_FALSE(ends_within(start({"resume", path("state")}), milliseconds(400), status))
      << read(path(".errors"));
}

TEST_F(RunTest, AnAddressThatSomebodyElseListensAtIsRefused) {
  const std::string program = compiled("servers");
  int status = 0;
  ASSERT_FALSE(
      ends_within(start(carried({program, path("got"), "100000"})), milliseconds(600), status));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path("got.s").c_str(), sizeof address.sun_path - 1);
  ::unlink(address.sun_path);  // The program's own, which died with it.
  const int other = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(other, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(other, 1), 0);
  ASSERT_EQ(::chmod(address.sun_path, 0640), 0);  // The program looks at it.
  const ToolRun refused = run({"resume", path("state")});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("got.s: somebody else listens at it"));
  ::close(other);
  EXPECT_FALSE(ends_within(start({"resume", path("state")}), milliseconds(400), status))
      << read(path(".errors"));
}

TEST_F(RunTest, AThreadThatBlocksAllSignalsIsNamed) {
  write(path("deaf.c"), R"(#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void* deaf(void* unused) {
  unsigned long all = ~0UL;
  pthread_setname_np(pthread_self(), "deaf one");
  syscall(SYS_rt_sigprocmask, 0, &all, 0, 8);
  sleep(8);
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, deaf, 0);
  return pthread_join(thread, 0);
}
)");
  ASSERT_EQ(shell("cc -pthread -o " + quoted(path("deaf")) + " " + quoted(path("deaf.c"))), 0);
  const ToolRun ran = run({"run", "--state", path("state"), "--epoch", "20", "--", path("deaf")});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, HasSubstr(" (deaf one) blocks all signals, 33 too"));
}

}  // namespace
}  // namespace perdure
