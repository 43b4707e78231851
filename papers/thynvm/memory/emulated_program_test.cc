// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/emulated_program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "papers/thynvm/memory/marks.h"

namespace perdure::memory {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Counts {
  std::uint64_t counts[4] = {};
  std::uint64_t gaps = 0;
  std::uint64_t hash = 0;
  std::uint64_t instructions = 0;
  std::uint64_t skipped = 0;
  bool reached_limit = false;
  bool operator==(const Counts&) const = default;
  std::uint64_t of(AccessKind kind) const { return counts[static_cast<int>(kind)]; }
};

Counts run(const Launch& launch) {
  EmulatedProgram program(launch);
  Counts result;
  for (auto batch = program.next(); !batch.empty(); batch = program.next()) {
    for (const Access access : batch) {
      ++result.counts[static_cast<int>(access.kind())];
      result.gaps += access.gap() + (access.kind() == AccessKind::kRun ? access.address() : 0);
      result.hash = result.hash * 0x9e3779b97f4a7c15 + access.bits;
    }
  }
  EXPECT_TRUE(program.next().empty()) << "the end stays the end";
  result.instructions = program.instructions();
  result.skipped = program.skipped();
  result.reached_limit = program.reached_limit();
  return result;
}

std::string message_of(const Launch& launch, Code expected) {
  try {
    run(launch);
  } catch (const Exception& error) {
    EXPECT_EQ(code_name(error.code()), code_name(expected)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << launch.program << " raised no error";
  return "";
}

class EmulatedProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v qemu-x86_64 >/dev/null") != 0) GTEST_SKIP() << "no qemu-user";
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  /// A static program of this C source.
  Launch compiled(const std::string& source) const {
    std::ofstream(path("guest.c")) << source;
    const std::string command =
        "cc -O1 -static -pthread -o " + path("guest") + " " + path("guest.c");
    EXPECT_EQ(std::system(command.c_str()), 0);
    Launch launch;
    launch.program = path("guest");
    return launch;
  }

  std::string directory_ = testing::TempDir() + "emulated_XXXXXX";
};

// Eight bytes to each of `words` at 0x500000000000, then the same many loads.
std::string storing(int words) {
  return "#include <sys/mman.h>\n"
         "int main(void) { volatile long *at = mmap((void *)0x500000000000, 1 << 20, 3, 0x32, -1, "
         "0);\n"
         "for (int i = 0; i < " +
         std::to_string(words) +
         "; ++i) at[i] = i;\n"
         "long sum = 0; for (int i = 0; i < " +
         std::to_string(words) + "; ++i) sum += at[i];\nreturn sum == 0; }\n";
}

TEST_F(EmulatedProgramTest, EveryAccessArrivesInOrder) {
  EmulatedProgram program(compiled(storing(100'000)));
  std::uint64_t stores = 0;
  std::uint64_t loads = 0;
  for (auto batch = program.next(); !batch.empty(); batch = program.next()) {
    for (const Access access : batch) {
      if (access.kind() == AccessKind::kRun || access.address() >> 24 != 0x500000000000 >> 24)
        continue;
      std::uint64_t& count = access.kind() == AccessKind::kStore ? stores : loads;
      ASSERT_EQ(access.address(), 0x500000000000 + 8 * count);
      ASSERT_EQ(access.bytes(), 8U);
      ++count;
    }
  }
  EXPECT_EQ(stores, 100'000U);
  EXPECT_EQ(loads, 100'000U);
}

TEST_F(EmulatedProgramTest, TheEndOfEpochInstructionStandsBetweenTheStores) {
  Launch launch = compiled(
      "#include <sys/mman.h>\nint main(void) { volatile long *at = mmap((void *)0x600000000000, "
      "4096, 3, 0x32, -1, 0);\nfor (int i = 0; i < 50; ++i) { at[i] = i; __asm__ "
      "volatile(\"nopl 0x70657264(%%rax)\\n nopl 0x70657265(%%rax)\" ::: \"memory\"); }\n"
      "return 0; }\n");
  EmulatedProgram program(launch);
  std::uint64_t stores = 0, ends = 0;
  for (auto batch = program.next(); !batch.empty(); batch = program.next()) {
    for (const Access access : batch) {
      if (access.kind() != AccessKind::kStore) continue;
      if (access.address() == 0x600000000000 + 8 * stores) ++stores;
      if (access.address() != PERDURE_MARK_END_EPOCH_WORD) continue;
      ++ends;
      ASSERT_EQ(stores, ends);
    }
  }
  EXPECT_EQ(ends, 50U);
}

TEST_F(EmulatedProgramTest, TwoRunsGiveTheSameRecords) {
  const Launch launch = compiled(
      "#include <stdio.h>\n#include <stdlib.h>\n"
      "int main(void) { long sum = 0; for (int i = 0; i < 100; ++i) { long *m = malloc(5000); "
      "sum += (long)m; *m = sum; } printf(\"%ld %s\\n\", sum, getenv(\"HOME\")); return 0; }\n");
  const Counts once = run(launch);
  EXPECT_EQ(once, run(launch));
  EXPECT_GT(once.of(AccessKind::kFetch), 1'000U);
  EXPECT_EQ(once.gaps, once.instructions);
}

TEST_F(EmulatedProgramTest, SkipsAndEndsAfterWholeBlocks) {
  Launch launch = compiled(storing(100'000));
  const Counts all = run(launch);
  EXPECT_FALSE(all.reached_limit);
  launch.skip = 50'000;
  const Counts rest = run(launch);
  EXPECT_EQ(rest.skipped + rest.instructions, all.instructions);
  EXPECT_EQ(rest.gaps, rest.instructions);
  EXPECT_GE(rest.skipped, 50'000U);
  EXPECT_LT(rest.skipped, 50'600U);
  launch.instructions = 20'000;
  const Counts part = run(launch);
  EXPECT_TRUE(part.reached_limit);
  EXPECT_GE(part.instructions, 20'000U);
  EXPECT_LT(part.instructions, 20'600U);
  EXPECT_EQ(part.gaps, part.instructions);
  launch.skip = all.instructions * 2;
  EXPECT_THAT(message_of(launch, Code::kInvalid), HasSubstr("nothing was recorded"));
  launch.skip_to_mark = true;
  EXPECT_THAT(message_of(launch, Code::kInvalid), HasSubstr("nothing was recorded"));
}

TEST_F(EmulatedProgramTest, ALongRunWithoutAccessesIsCounted) {
  const Counts all = run(compiled(
      "int main(void) { for (int i = 0; i < 1000000; ++i) __asm__ volatile(\"\"); return 0; }\n"));
  EXPECT_GT(all.of(AccessKind::kRun), 100U);
  EXPECT_GT(all.instructions, 2'000'000U);
  EXPECT_EQ(all.gaps, all.instructions);
}

TEST_F(EmulatedProgramTest, ThreadsAreRecordedTogether) {
  const Counts all =
      run(compiled("#include <pthread.h>\nstatic void *work(void *p) { volatile long *at = p; for "
                   "(int i = 0; i < "
                   "100000; ++i) *at = i; return 0; }\n"
                   "int main(void) { pthread_t t[3]; long word[4]; for (int i = 0; i < 3; ++i) "
                   "pthread_create(&t[i], 0, work, &word[i]); work(&word[3]);\n"
                   "for (int i = 0; i < 3; ++i) pthread_join(t[i], 0); return 0; }\n"));
  EXPECT_GE(all.of(AccessKind::kStore), 400'000U);
  EXPECT_EQ(all.gaps, all.instructions);
}

TEST_F(EmulatedProgramTest, ChildrenAreNotRecorded) {
  const Counts all =
      run(compiled("#include <sys/wait.h>\n#include <unistd.h>\nstatic volatile long at;\n"
                   "int main(void) { int s; if (fork() == 0) { for (int i = 0; i < 200000; ++i) at "
                   "= i; return 3; }\n"
                   "wait(&s); return WEXITSTATUS(s) != 3; }\n"));
  EXPECT_LT(all.of(AccessKind::kStore), 100'000U);
  EXPECT_EQ(all.gaps, all.instructions);
}

TEST_F(EmulatedProgramTest, InputAndOutputAreRedirected) {
  Launch launch = compiled(
      "#include <stdio.h>\nint main(void) { int c; while ((c = getchar()) != EOF) "
      "putchar(c + 1); return 0; }\n");
  std::ofstream(path("in")) << "HAL";
  launch.input = path("in");
  launch.output = path("out");
  run(launch);
  std::string said;
  std::ifstream(path("out")) >> said;
  EXPECT_EQ(said, "IBM");
}

TEST_F(EmulatedProgramTest, FailuresAreTold) {
  EXPECT_THAT(message_of(compiled("#include <stdio.h>\nint main(void) { fputs(\"no more ink\\n\", "
                                  "stderr); return 7; }\n"),
                         Code::kIo),
              AllOf(HasSubstr("guest: ended with status 7"), HasSubstr("it said: no more ink")));
  EXPECT_THAT(message_of(compiled("int main(void) { *(volatile int *)8 = 1; }\n"), Code::kIo),
              HasSubstr("was killed: Segmentation fault"));
  EXPECT_THAT(
      message_of(compiled("#include <unistd.h>\nint main(void) { return execl(\"/bin/true\", "
                          "\"true\", (char *)0); }\n"),
                 Code::kIo),
      HasSubstr("became another program"));
}

TEST_F(EmulatedProgramTest, WhatCannotStartSaysWhy) {
  Launch launch;
  launch.program = path("absent");
  EXPECT_THAT(message_of(launch, Code::kNotFound), HasSubstr("absent: no such program"));
  std::ofstream(path("script")) << "#!/bin/sh\n";
  launch.program = path("script");
  EXPECT_THAT(message_of(launch, Code::kInvalid), HasSubstr("name its interpreter"));
  std::ofstream(path("text"))
      << "This is not a program, however long it may be: not at all, no, no.\n";
  launch.program = path("text");
  EXPECT_THAT(message_of(launch, Code::kInvalid), HasSubstr("not a program for x86-64"));
  launch.program = "/bin/true";
  launch.input = path("absent");
  EXPECT_THAT(message_of(launch, Code::kIo), HasSubstr("cannot be started"));
  launch.input = "/dev/null";
  launch.plugin = path("plugin.so");
  EXPECT_THAT(message_of(launch, Code::kNotFound), HasSubstr("plugin is not there"));
  launch.plugin = path("text");
  EXPECT_THAT(message_of(launch, Code::kIo), HasSubstr("text"));
  launch.plugin = "";
  launch.emulator = "qemu-none";
  EXPECT_THAT(message_of(launch, Code::kNotFound), HasSubstr("install the package qemu-user"));
}

TEST_F(EmulatedProgramTest, AReaderThatStopsEndsTheProgram) {
  const Launch launch = compiled("int main(void) { volatile long at = 0; for (;;) ++at; }\n");
  EmulatedProgram program(launch);
  EXPECT_FALSE(program.next().empty());
}

TEST_F(EmulatedProgramTest, TheDeathOfTheReaderEndsTheProgram) {
  // A pipe that the program inherits as its output tells when it is gone.
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  Launch launch = compiled("int main(void) { volatile long at = 0; for (;;) ++at; }\n");
  launch.output = "/dev/fd/" + std::to_string(pipe[1]);
  const pid_t reader = ::fork();
  if (reader == 0) {
    EmulatedProgram program(launch);
    program.next();
    ::_exit(0);  // without the destructor
  }
  ::close(pipe[1]);
  ::waitpid(reader, nullptr, 0);
  char byte;
  EXPECT_EQ(::read(pipe[0], &byte, 1), 0) << "the end of the pipe: nobody has it open any more";
  ::close(pipe[0]);
}

TEST_F(EmulatedProgramTest, AProgramKilledFromOutsideIsAnError) {
  const Launch launch = compiled(
      "#include <signal.h>\n#include <unistd.h>\nint main(void) { for (volatile int i = 0; i < "
      "1000000; "
      "++i) {} kill(getpid(), SIGKILL); for (;;) {} }\n");
  EXPECT_THAT(message_of(launch, Code::kIo), HasSubstr("was killed: Killed"));
}

}  // namespace
}  // namespace perdure::memory
