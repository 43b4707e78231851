// SPDX-License-Identifier: BSD-3-Clause
// What tests of `perdure run` share: programs that are killed at random moments and resumed.
//
// PERDURE_RUN_KILLS: how often each program is killed. PERDURE_RUN_SEED: when, and what; it is printed.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tool_runner.h"

namespace perdure {

class RunTest : public ToolTest {
 protected:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

  void TearDown() override {
    for (const pid_t each : std::vector(started_)) end(each);
    if (HasFailure()) {  // Moved: a copy of the image would be as long as it seems to be.
      const auto kept = std::filesystem::temp_directory_path() / "perdure-run-test-failed";
      std::error_code ignored;
      std::filesystem::remove_all(kept, ignored);
      std::filesystem::rename(directory_, kept, ignored);
    }
    ToolTest::TearDown();
  }

  static std::mt19937& random() {
    static std::mt19937 generator([] {
      const char* given = std::getenv("PERDURE_RUN_SEED");
      const auto seed = given != nullptr ? static_cast<unsigned>(std::atoi(given))
                                         : std::random_device{}() % 1'000'000;
      std::printf("PERDURE_RUN_SEED=%u\n", seed);
      return seed;
    }());
    return generator;
  }
  static int between(int least, int most) {
    return std::uniform_int_distribution(least, most)(random());
  }
  static int kills_wanted(int otherwise) {
    const char* more = std::getenv("PERDURE_RUN_KILLS");
    return more != nullptr ? std::atoi(more) : otherwise;
  }

  /// Starts the tool; its stderr goes to .errors, unless `errors` names another file.
  pid_t start(const std::vector<std::string>& words, const std::string& output = "/dev/null",
              const std::string& errors = "") {
    const pid_t child = ::fork();
    if (child != 0) {
      resumes_ = words.front() == "resume";
      started_.push_back(child);
      return child;
    }
    const std::string errors_path = errors.empty() ? path(".errors") : errors;
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
    if (errors_path == output) {
      ::dup2(1, 2);
    } else {
      ::dup2(::open(errors_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
    }
    ::close_range(3, ~0U, 0);
    std::vector<char*> arguments{const_cast<char*>(tool_.c_str())};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(tool_.c_str(), arguments.data());
    ::_exit(127);
  }

  /// True when it ended before `patience` was over.
  bool ended_within(pid_t child, milliseconds patience, int& status) {
    const auto until = Clock::now() + patience;
    for (;;) {
      if (::waitpid(child, &status, WNOHANG) == child) {
        std::erase(started_, child);
        return true;
      }
      if (Clock::now() >= until) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  /// As above; else it was killed.
  bool ends_within(pid_t child, milliseconds patience, int& status) {
    if (ended_within(child, patience, status)) return true;
    end(child);
    return false;
  }
  void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::erase(started_, child);
  }

  /// Runs the tool to its end.
  ToolRun finish(const std::vector<std::string>& words,
                 milliseconds patience = milliseconds(60'000)) {
    std::filesystem::remove(path(".finish.out"));
    std::filesystem::remove(path(".finish.err"));
    int status = 0;
    if (!ends_within(start(words, path(".finish.out"), path(".finish.err")), patience, status))
      return {-1, "", "it did not end: " + read(path(".finish.err"))};
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(path(".finish.out")),
            read(path(".finish.err"))};
  }

  /// The program that a tool carries, or the last process on the way there; 0: none yet.
  pid_t program_of(pid_t tool) const {
    pid_t last = 0;
    // A resumed one has a namespace of its own, with a first process, behind a gate.
    int levels = resumes_ ? 3 : 1;
    for (pid_t at = tool; at != 0 && levels > 0; --levels) {
      pid_t child = 0;
      std::error_code gone;
      for (const auto& thread :
           std::filesystem::directory_iterator("/proc/" + std::to_string(at) + "/task", gone))
        std::ifstream(thread.path() / "children") >> child;
      if (child != 0) last = child;
      at = child;
    }
    return last;
  }

  /// Kills what `tool` carries, itself, or both. Waits until it has ended.
  void kill_some(pid_t tool) {
    const pid_t program = program_of(tool);
    const int what = between(0, 2);
    if (what >= 1 && program > 0) ::kill(program, SIGKILL);
    if (what != 1 || program <= 0) ::kill(tool, SIGKILL);
    int status = 0;
    if (!ends_within(tool, milliseconds(15'000), status))
      ADD_FAILURE() << "its program was killed, and it does not end: " << read(path(".errors"));
    const bool began = read(path(".errors")).find("nothing was run") == std::string::npos;
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 128 + SIGKILL || is_over() || !began)
        << "its program was killed: " << status << ": " << read(path(".errors"));
  }

  bool is_over() const { return !read(state_ + "/ended").empty(); }

  std::vector<std::string> carried(const std::vector<std::string>& program) const {
    std::vector<std::string> words{"run", "--state", state_};
    words.insert(words.end(), options_.begin(), options_.end());
    words.push_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }

  /// The newest epoch that can be resumed, or could be before the program ended; 0: none was ever committed. Epochs must
  /// not get lost.
  std::uint64_t newest_epoch() {
    if (is_over()) return newest_seen_;
    const ToolRun look = finish({"inspect", state_, "--json"});
    const std::string name = "\"newest epoch\": ";
    const std::size_t at = look.out.find(name);
    const std::uint64_t newest = look.code == 0 && at != std::string::npos
                                     ? std::stoull(look.out.substr(at + name.size()))
                                     : 0;
    EXPECT_GE(newest, newest_seen_) << look.err;
    newest_seen_ = std::max(newest, newest_seen_);
    return newest;
  }

  /// What goes on with the program after a kill.
  std::vector<std::string> next_words(const std::vector<std::string>& program) {
    if (newest_epoch() > 0 || HasFailure()) return {"resume", state_};
    ++begun_anew_;
    std::filesystem::remove_all(state_);
    return carried(program);
  }

  /// Runs the program with `kills` SIGKILLs, each some time after the program's begin or resume.
  /// Expects that it ends with 0. Returns the kills.
  int torture(const std::vector<std::string>& program, int kills, milliseconds least,
              milliseconds most) {
    if (!as_many_) kills = kills_wanted(kills);
    std::vector<std::string> words = carried(program);
    int done = 0;
    for (;; ++done) {
      int status = 0;
      const bool last = done == kills;
      const milliseconds patience = last ? milliseconds(120'000)
                                         : milliseconds(between(static_cast<int>(least.count()),
                                                                static_cast<int>(most.count())));
      const pid_t tool = start(words, output_, errors_);
      if (ended_within(tool, patience, status)) {
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
            << status << ": " << read(path(".errors"));
        break;
      }
      if (last) {
        end(tool);
        ADD_FAILURE() << "it does not end: " << read(path(".errors"));
        break;
      }
      kill_some(tool);
      if (HasFailure()) break;
      if (is_over()) {  // It was just too late.
        ++done;
        break;
      }
      words = next_words(program);
      if (HasFailure()) break;
    }
    RecordProperty("kills", done);
    std::printf("killed %d times, begun anew %d times, %lu epochs\n", done, begun_anew_,
                newest_seen_);
    return done;
  }

  std::string compiled(const std::string& name) const {
    const std::string program = path(name);
    const std::string command = "c++ -std=c++20 -O1 -pthread -o " + quoted(program) + " " +
                                quoted(PERDURE_SOURCE_DIR "/tests/carried/" + name + ".cc");
    EXPECT_EQ(std::system(command.c_str()), 0);
    return program;
  }

  static bool has(const std::string& program) {
    return std::filesystem::exists("/usr/bin/" + program);
  }
  static std::string line_of(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += quoted(word) + " ";
    return line;
  }
  static int shell(const std::string& command) { return std::system(command.c_str()); }

  void SetUp() override {
    ToolTest::SetUp();
    // What a system forbids is told before anything runs: not a failure of the tool.
    static const std::string forbidden = [this] {
      const ToolRun trial = run({"run", "--state", path("trial"), "--", "true"});
      for (const char* cause :
           {"namespaces of processes", "cannot be mounted here", "does not tell of system calls"}) {
        if (trial.code == 3 && trial.err.find(cause) != std::string::npos) return trial.err;
      }
      return std::string();
    }();
    if (!forbidden.empty()) GTEST_SKIP() << forbidden;
    state_ = path("state");
  }

  std::string state_;                                    // the directory
  std::vector<std::string> options_{"--epoch", "40ms"};  // of `perdure run`
  std::string output_ = "/dev/null", errors_;            // where the tool's output goes
  bool as_many_ = false;                                 // kills as the test says
  int begun_anew_ = 0;                                   // for lack of an epoch

 private:
  std::vector<pid_t> started_;
  bool resumes_ = false;  // what was started last
  std::uint64_t newest_seen_ = 0;
};

}  // namespace perdure
