// SPDX-License-Identifier: BSD-3-Clause
// What it costs a program that its calls wait. Prints; fails only if something is wrong by far.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/run/files/history.h"
#include "apps/run/files/tree_test_view.h"
#include "apps/run/files/watched_test_program.h"

namespace perdure::run::files {
namespace {

constexpr int kCalls = 4000;

/// Runs `calls` in a child, with and without a watch; the times of one call in microseconds, the median of five runs.
void measure(const char* what, bool power, const std::function<void(const std::string&)>& calls) {
  using Clock = std::chrono::steady_clock;
  double medians[2];
  for (const bool watched : {false, true}) {
    std::vector<double> times;
    for (int run = 0; run < 5; ++run) {
      const Scratch scratch;
      write_text(scratch.root() + "/old", std::string(std::size_t{kCalls} * 4096, 'o'));
      int result[2];
      ASSERT_EQ(::pipe(result), 0);
      const auto program = [&] {
        const auto start = Clock::now();
        calls(scratch.root());
        const double time = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
        if (::write(result[1], &time, sizeof time) != sizeof time) ::_exit(99);
      };
      if (watched) {
        FileHistory history(scratch.state(), power);
        history.begin_epoch(1);
        EXPECT_EQ(Watched(history, program).wait(), 0);
      } else {
        const pid_t child = ::fork();
        if (child == 0) {
          program();
          ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
      }
      double time = 0;
      ASSERT_EQ(::read(result[0], &time, sizeof time), static_cast<ssize_t>(sizeof time));
      times.push_back(time / kCalls);
      ::close(result[0]);
      ::close(result[1]);
    }
    std::sort(times.begin(), times.end());
    medians[watched ? 1 : 0] = times[times.size() / 2];
  }
  std::printf("%-44s %7.2f us alone, %7.2f us watched\n", what, medians[0], medians[1]);
  EXPECT_LT(medians[1], 5000);
}

TEST(WatchCost, IsPrinted) {
  const auto write_to = [](const std::string& path, int flags, std::size_t bytes, off_t step) {
    const int file = ::open(path.c_str(), flags, 0644);
    const std::string text(bytes, 'n');
    for (int call = 0; call < kCalls; ++call) {
      if (step >= 0 ? ::pwrite(file, text.data(), bytes, call * step) < 0
                    : ::write(file, text.data(), bytes) < 0)
        ::_exit(99);
    }
  };
  measure("write of 1 B to /dev/null", false,
          [&](const std::string&) { write_to("/dev/null", O_WRONLY, 1, -1); });
  measure("write of 100 B to a pipe", false, [](const std::string&) {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(99);
    char bytes[100] = {};
    for (int call = 0; call < kCalls; ++call) {
      if (::write(ends[1], bytes, sizeof bytes) != 100 ||
          ::read(ends[0], bytes, sizeof bytes) != 100)
        ::_exit(99);
    }
  });
  measure("append of 100 B to a new file", false,
          [&](const std::string& root) { write_to(root + "/new", O_WRONLY | O_CREAT, 100, -1); });
  measure("append of 100 B to an old file", false,
          [&](const std::string& root) { write_to(root + "/old", O_WRONLY | O_APPEND, 100, -1); });
  measure("overwrite of a block that is taken", false,
          [&](const std::string& root) { write_to(root + "/old", O_WRONLY, 100, 0); });
  measure("overwrite of 100 B in another block each", false,
          [&](const std::string& root) { write_to(root + "/old", O_WRONLY, 100, 4096); });
  measure("the same, with power", true,
          [&](const std::string& root) { write_to(root + "/old", O_WRONLY, 100, 4096); });
  measure("creation and removal of a file (two calls)", false, [](const std::string& root) {
    const std::string path = root + "/new";
    for (int call = 0; call < kCalls; ++call) {
      const int file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
      ::close(file);
      if (file < 0 || ::unlink(path.c_str()) != 0) ::_exit(99);
    }
  });
  measure("open and close, for reading only", false, [](const std::string& root) {
    for (int call = 0; call < kCalls; ++call) ::close(::open((root + "/old").c_str(), O_RDONLY));
  });
}

}  // namespace
}  // namespace perdure::run::files
