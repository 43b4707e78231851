// SPDX-License-Identifier: BSD-3-Clause
// Real executables with persistent static variables, as compilers and linkers lay them out: their runs, their rebuilds, and
// what they say when they cannot run.
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/small_pool.h"

namespace perdure {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::TempDir;

struct Outcome {
  int status;  // -1 when a signal ended it
  std::string out;
  std::string err;
};

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return std::move(text).str();
}

class Programs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kSanitized) GTEST_SKIP() << "the library of a sanitized build needs its runtime";
  }
  Outcome command(const std::string& line) {
    const std::string whole =
        line + " >'" + (dir_ / ".out") + "' 2>'" + (dir_ / ".err") + "' </dev/null";
    const int status = std::system(whole.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(dir_ / ".out"),
            text_of(dir_ / ".err")};
  }
  static std::string include_library() {
    return " -I'" PERDURE_SOURCE_DIR "' '" PERDURE_LIBRARY "' -lstdc++ -lm -lpthread";
  }
  /// Compiles `source`, which must go without a warning.
  void build(const std::string& name, const std::string& source, const std::string& flags = "",
             const std::string& compiler = "gcc") {
    const std::string file =
        dir_ / (name + (compiler.find("++") == std::string::npos ? ".c" : ".cc"));
    std::ofstream(file) << "#include <stdio.h>\n#include \"perdure/mnemosyne.h\"\n" << source;
    const Outcome built = command(compiler + " -O1 -Wall -Wextra -Werror '" + file + "' " + flags +
                                  include_library() + " -o '" + (dir_ / name) + "'");
    ASSERT_EQ(built.status, 0) << built.err;
  }
  /// Runs the program on the directory "data", or as `environment` says.
  Outcome run(const std::string& name, const std::string& environment = "") {
    return command("PERDURE_DOMAIN=dram PERDURE_REGION_PATH='" + (dir_ / "data") + "' " +
                   environment + " '" + (dir_ / name) + "'");
  }
  /// What it prints when all goes well.
  std::string output(const std::string& name, const std::string& environment = "") {
    const Outcome outcome = run(name, environment);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return outcome.out;
  }
  void expect_refused(const Outcome& outcome, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.status, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, MatchesRegex("perdure: .*\n"));
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  }

  TempDir dir_{"/dev/shm/"};
};

/// Counts its runs in a variable, an object of the heap, a region and a log.
constexpr char kCounts[] = R"(
#include <sys/mman.h>
pstatic long runs = 100;
pstatic long *object;
pstatic long *region;
pstatic char text[24] = "initial";
static long records;
static void count(const void *record, size_t size, void *unused) {
  (void)record;
  (void)size;
  (void)unused;
  ++records;
}
int main(void) {
  perdure_log *log = log_create("log", 4096, 0, count, NULL);
  if (object == NULL && pmalloc(sizeof *object, &object) != NULL) wtstore(object, 200L);
  if (region == NULL) pmap(&region, 4096, PROT_READ | PROT_WRITE, 0);
  if (log == NULL || object == NULL || region == NULL) {
    puts(perdure_error());
    return 1;
  }
  printf("%s %ld %ld %ld %ld\n", text, runs, *object, *region, records);
  store(&runs, runs + 1);
  flush(&runs);
  wtstore(object, *object + 1);
  wtstore(region, *region + 1);
  perdure_store(text, "changed", 8);
  flush(text);
  fence();
  return log_append(log, "", 0) == 0 && log_flush(log) == 0 ? 0 : 1;
}
)";

// ---- every toolchain ----------------------------------------------------------------------------

struct Toolchain {
  std::string name;
  std::string compiler;
  std::string flags;
};

class Toolchains : public Programs, public ::testing::WithParamInterface<Toolchain> {};
INSTANTIATE_TEST_SUITE_P(
    All, Toolchains,
    ::testing::Values(Toolchain{"GccPie", "gcc", "-fPIE -pie"},
                      Toolchain{"GccNoPie", "gcc", "-fno-pie -no-pie"},
                      Toolchain{"GccStatic", "gcc", "-static"},
                      Toolchain{"GccFewSections", "gcc",
                                "-ffunction-sections -fdata-sections -Wl,--gc-sections"},
                      Toolchain{"ClangPie", "clang-19", "-fPIE -pie"},
                      Toolchain{"ClangNoPie", "clang-19", "-fno-pie -no-pie"},
                      Toolchain{"GccPieCxx", "g++", "-std=c++20 -fPIE -pie"},
                      Toolchain{"GccNoPieCxx", "g++", "-std=c++17 -fno-pie -no-pie"},
                      Toolchain{"ClangPieCxx", "clang++-19", "-std=c++20 -fPIE -pie"}),
    [](const auto& of) { return of.param.name; });

TEST_P(Toolchains, EverythingIsBackInTheNextRun) {
  if (command("command -v " + GetParam().compiler).status != 0)
    GTEST_SKIP() << GetParam().compiler << " is not installed; ./do prove installs it";
  build("program", kCounts, GetParam().flags, GetParam().compiler);
  EXPECT_EQ(output("program"), "initial 100 200 0 0\n");
  EXPECT_EQ(output("program"), "changed 101 201 1 1\n");
  // Stripped, it is the same program by its build id.
  ASSERT_EQ(command("strip '" + (dir_ / "program") + "'").status, 0);
  EXPECT_EQ(output("program"), "changed 102 202 2 2\n");
  // Somewhere else, under another name.
  std::filesystem::rename(dir_ / "program", dir_ / "renamed");
  std::filesystem::rename(dir_ / "data", dir_ / "moved");
  EXPECT_EQ(output("renamed", "PERDURE_REGION_PATH='" + (dir_ / "moved") + "'"),
            "changed 103 203 3 3\n");
}

// ---- files --------------------------------------------------------------------------------------

TEST_F(Programs, WithoutItsFileTheVariablesStartOverAndTheRestStays) {
  build("program", kCounts);
  EXPECT_EQ(output("program"), "initial 100 200 0 0\n");
  std::filesystem::remove(dir_ / "data/statics.region");
  EXPECT_EQ(output("program"), "initial 100 200 0 1\n")
      << "the log has its record; the object and the region are there, but nobody knows them";
  EXPECT_TRUE(std::filesystem::exists(dir_ / "data/1.region"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "data/2.region"));
}

TEST_F(Programs, TwoAtOnceAreOneTooMany) {
  build("program", kCounts);
  build("holder",
        "#include <unistd.h>\nint main(void) { puts(\"open\"); fflush(stdout); pause(); }");
  const std::string holder = "PERDURE_DOMAIN=dram PERDURE_REGION_PATH='" + (dir_ / "data") + "' '" +
                             (dir_ / "holder") + "' >'" + (dir_ / "holder.out") +
                             "' & pid=$!; while ! grep -q open '" + (dir_ / "holder.out") +
                             "' 2>/dev/null; do sleep 0.01; done; ";
  const Outcome second = command("{ " + holder + "PERDURE_REGION_PATH='" + (dir_ / "data") + "' '" +
                                 (dir_ / "program") + "'; status=$?; kill $pid; wait $pid; " +
                                 "echo pid $pid >&2; exit $status; }");
  EXPECT_EQ(second.status, 3);
  const std::string pid = second.err.substr(second.err.rfind("pid ") + 4);
  EXPECT_THAT(second.err,
              AllOf(HasSubstr("heap.pool: in use by process " + pid.substr(0, pid.size() - 1)),
                    HasSubstr("close it there first")));
  EXPECT_EQ(output("program"), "initial 100 200 0 0\n");
}

TEST_F(Programs, BadSettingsAreSaidBeforeAnythingIsMade) {
  build("program", kCounts);
  const std::string data = dir_ / "data";
  expect_refused(run("program", "PERDURE_REGION_PATH=/nowhere/at/all"), {"/nowhere/at/all"});
  expect_refused(run("program", "PERDURE_DOMAIN=disk"), {"PERDURE_DOMAIN=disk", "sync, dram"});
  expect_refused(run("program", "PERDURE_TRUNCATION=never"), {"PERDURE_TRUNCATION", "each-commit"});
  expect_refused(run("program", "PERDURE_STATICS=keep"), {"PERDURE_STATICS=keep", "migrate"});
  expect_refused(run("program", "PERDURE_RESERVED_BASE=0x123"), {"0x123", "2 MiB"});
  expect_refused(run("program", "PERDURE_RESERVED_BASE=here"), {"PERDURE_RESERVED_BASE=here"});
  expect_refused(run("program", "PERDURE_RESERVED_BYTES=12345"), {"12345", "power of two"});
  expect_refused(run("program", "PERDURE_LATENCY_NS=100"), {"PERDURE_LATENCY_NS", "laboratory"});
  EXPECT_FALSE(std::filesystem::exists(data + "/statics.region"));
  std::filesystem::remove_all(data);
  EXPECT_EQ(
      output("program", "PERDURE_RESERVED_BASE=0x300000000000 PERDURE_RESERVED_BYTES=1073741824"),
      "initial 100 200 0 0\n");
  EXPECT_EQ(output("program"), "changed 101 201 1 1\n") << "the directory knows";
  expect_refused(run("program", "PERDURE_RESERVED_BASE=0x200000000000"),
                 {"its data is at 0x300000000000", "leave PERDURE_RESERVED_BASE unset"});
}

// ---- other builds -------------------------------------------------------------------------------

constexpr char kFirst[] = R"(
pstatic long kept = 1;
pstatic int gone = 2;
pstatic long grown[2] = {3, 3};
int main(void) {
  printf("%ld %d %ld\n", kept, gone, grown[0]);
  wtstore(&kept, kept + 10);
  fence();
}
)";
constexpr char kSecond[] = R"(
pstatic long before[50] = {4};
pstatic long kept = 1;
pstatic long grown[3] = {5, 5, 5};
pstatic long after[50] = {6};  // at both ends, because a compiler may lay them out in either order
int main(void) {
  printf("%ld %ld %ld\n", kept, before[0], grown[0]);
  wtstore(&kept, kept + 10);
  fence();
}
)";

TEST_F(Programs, AChangedLayoutIsRefusedWithAllThatOneMustKnow) {
  build("first", kFirst);
  build("second", kSecond);
  EXPECT_EQ(output("first"), "1 2 3\n");
  const std::string before = text_of(dir_ / "data/statics.region");
  const Outcome refused = run("second");
  expect_refused(refused,
                 {"data/statics.region", "made by 'first' (build ", "'second' (build ",
                  "kept moved from byte ", "gone (4 bytes) is gone", "grown had 16 bytes, has 24",
                  "before (400 bytes) is new", "PERDURE_STATICS=migrate", "PERDURE_STATICS=reset"});
  EXPECT_THAT(refused.err, ::testing::ContainsRegex("build [0-9a-f]{40}, [0-9]+ bytes"));
  const Outcome migrate = run("second", "PERDURE_STATICS=migrate");
  expect_refused(migrate, {"would lose its value", "PERDURE_STATICS=migrate,drop"});
  EXPECT_EQ(text_of(dir_ / "data/statics.region"), before);
  EXPECT_EQ(output("first"), "11 2 3\n");
  EXPECT_EQ(output("second", "PERDURE_STATICS=migrate,drop"), "21 4 5\n");
  EXPECT_EQ(output("second", "PERDURE_STATICS=migrate"), "31 4 5\n") << "no change, no effect";
  expect_refused(run("first"), {"made by 'second'"});
  EXPECT_EQ(output("first", "PERDURE_STATICS=reset"), "1 2 3\n");
  EXPECT_EQ(output("first"), "11 2 3\n");
}

TEST_F(Programs, AVariableThatIsOnlyAddedNeedsNoMoreThanMigrate) {
  build("first", kFirst);
  build("more", std::string("pstatic char more[100] = \"new\";\n") + kFirst);
  EXPECT_EQ(output("first"), "1 2 3\n");
  expect_refused(run("more"), {"more (100 bytes) is new"});
  EXPECT_EQ(output("more", "PERDURE_STATICS=migrate"), "11 2 3\n");
  EXPECT_EQ(output("more"), "21 2 3\n");
}

TEST_F(Programs, WithTheSameLayoutAnotherBuildGoesOn) {
  build("first", kFirst);
  build("fixed", std::string("int unused_function(void) { return 7; }\n") + kFirst);
  EXPECT_EQ(output("first"), "1 2 3\n");
  EXPECT_EQ(output("fixed"), "11 2 3\n");
  EXPECT_EQ(output("first"), "21 2 3\n");
}

TEST_F(Programs, OneWithoutVariablesUsesTheHeapAndLeavesTheOthers) {
  build("first", kFirst);
  build("plain", R"(
int main(void) {
  perdure_log *log = log_create("log", 4096, 0, NULL, NULL);
  return log != NULL && log_append(log, "x", 1) == 0 && log_flush(log) == 0 ? 0 : 1;
})");
  EXPECT_EQ(output("first"), "1 2 3\n");
  EXPECT_EQ(output("plain"), "");
  EXPECT_EQ(output("first"), "11 2 3\n");
}

TEST_F(Programs, AStrippedOneIsKnownByItsBuildIdOnly) {
  build("first", kFirst, "-s");
  build("second", kSecond, "-s");
  build("anonymous", kFirst, "-s -Wl,--build-id=none");
  EXPECT_EQ(output("first"), "1 2 3\n");
  EXPECT_EQ(output("first"), "11 2 3\n");
  for (const char* how : {"", "PERDURE_STATICS=migrate", "PERDURE_STATICS=migrate,drop"})
    expect_refused(run("second", how), {"an executable is stripped", "PERDURE_STATICS=reset"});
  EXPECT_EQ(output("first"), "21 2 3\n");
  EXPECT_EQ(output("second", "PERDURE_STATICS=reset"), "1 4 5\n");
  EXPECT_EQ(output("anonymous", "PERDURE_STATICS=reset"), "1 2 3\n");
  expect_refused(run("anonymous"), {"build unknown", "stripped", "-Wl,--build-id"});
}

TEST_F(Programs, VariablesOfOneNameInTwoFilesAreTwo) {
  const auto unit = [&](const std::string& name, int value) {
    std::ofstream(dir_ / (name + ".c"))
        << "#include \"perdure/mnemosyne.h\"\nstatic pstatic long same = " << value << ";\nlong *"
        << name << "(void) { return &same; }\n";
    return " '" + (dir_ / (name + ".c")) + "'";
  };
  const std::string units = unit("one", 1) + unit("two", 2);
  const std::string uses = R"(
long *one(void);
long *two(void);
int main(void) {
  printf("%ld %ld\n", *one(), *two());
  wtstore(one(), *one() + 10);
  wtstore(two(), *two() + 100);
  fence();
})";
  build("first", uses, units);
  build("second", "pstatic long more;\n" + uses, units);
  EXPECT_EQ(output("first"), "1 2\n");
  EXPECT_EQ(output("first"), "11 102\n");
  EXPECT_EQ(output("second", "PERDURE_STATICS=migrate"), "21 202\n");
}

// ---- at the edges of the language ---------------------------------------------------------------

TEST_F(Programs, AlignmentSizeAndConstructorsAreNoMatter) {
  build("program", R"(
pstatic char c = 'c';
pstatic long aligned[3] __attribute__((aligned(4096))) = {1};
pstatic char large[3000000];
pstatic long last = 9;
__attribute__((constructor)) static void early(void) { wtstore(&last, last + 1); }
int main(void) {
  fence();
  printf("%c %ld %d %ld\n", c, aligned[0], large[2999999], last);
  wtstore(&large[2999999], 7);
  wtstore(&aligned[0], 2);
  fence();
})");
  EXPECT_EQ(output("program"), "c 1 0 10\n");
  EXPECT_EQ(output("program"), "c 2 7 11\n");
}

TEST_F(Programs, ALibraryThatIsNotLastIsSaidToBeInTheWrongPlace) {
  std::ofstream(dir_ / "late.c") << "#include \"perdure/mnemosyne.h\"\npstatic long late = 1;\n"
                                    "long *use_late(void) { return &late; }\n";
  build("program", "long *use_late(void);\nint main(void) { return (int)*use_late(); }",
        include_library() + " '" + (dir_ / "late.c") + "'");
  expect_refused(run("program"), {"does not fill whole pages", "behind everything"});
}

TEST_F(Programs, AnInitializerThatIsNoConstantDoesNotCompileInCxx) {
  std::ofstream(dir_ / "bad.cc") << "#include <cstdlib>\n#include \"perdure/mnemosyne.h\"\n"
                                    "pstatic int number = std::rand();\nint main() {}\n";
  const Outcome built = command("g++ -std=c++20 -fsyntax-only -I'" PERDURE_SOURCE_DIR "' '" +
                                (dir_ / "bad.cc") + "'");
  EXPECT_NE(built.status, 0);
  EXPECT_THAT(built.err, HasSubstr("constinit"));
}

TEST_F(Programs, AChildMayLeaveByExitWhileTheParentGoesOn) {
  build("program", R"(
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
pstatic long value = 1;
int main(void) {
  alarm(30);
  if (perdure_set_truncation("background") != 0) return 1;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) exit(perdure_set_truncation("auto") == -1 ? 0 : 9);
    wtstore(&value, value + 1);
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 2;
  }
  fence();
  printf("%ld\n", value);
})");
  EXPECT_EQ(output("program"), "21\n");
  EXPECT_EQ(output("program"), "41\n");
}

TEST_F(Programs, WhatAKilledOneHadAllocatedIsKnown) {
  build("program", R"(
#include <signal.h>
struct node { struct node *next; };
pstatic struct node *first;
pstatic struct node *spare;
int main(void) {
  long length = 0;
  for (const struct node *node = first; node != NULL; node = node->next) ++length;
  printf("%ld\n", length);
  fflush(stdout);
  for (int i = 0; i < 10; ++i) {
    pmalloc(sizeof(struct node), &spare);
    wtstore(&spare->next, first);
    fence();
    wtstore(&first, spare);
    fence();
  }
  raise(SIGKILL);
})");
  for (const char* length : {"0\n", "10\n", "20\n"}) {
    const Outcome outcome = run("program");
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(outcome.out, length);
  }
}

}  // namespace
}  // namespace perdure
