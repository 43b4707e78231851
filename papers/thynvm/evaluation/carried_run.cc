// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/evaluation/carried_run.h"

#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perdure/error.h"
#include "tools/parts.h"
#include "tools/process.h"

namespace perdure::bench::thynvm {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Of the child processes that have ended.
double cpu_seconds_of_children() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The files of a run, gone before it and after it.
class Files {
 public:
  explicit Files(const std::string& directory) : directory_(directory) { remove(); }
  ~Files() { remove(); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  std::string path(std::string_view name) const { return directory_ + "/" + std::string(name); }

 private:
  void remove() {
    std::error_code ignored;
    for (const std::string_view name : {kStateName, kStatisticsName, kLogName})
      fs::remove_all(path(name), ignored);
  }
  const std::string directory_;
};

void expect_success(int code, const CarriedProgram& program, const Mode& mode,
                    const std::string& log) {
  if (code == 0) return;
  throw Exception(Code::kIo, fmt::format("{} ({}) {}; it said: {}", program.name, mode.name,
                                         code < 0 ? fmt::format("was ended by signal {}", -code)
                                                  : fmt::format("ended with {}", code),
                                         tools::end_of(log)));
}

}  // namespace

RunStatistics read_statistics(const std::string& file) {
  try {
    const auto told = nlohmann::json::parse(std::ifstream(file));
    const auto number = [&](const char* name) { return told.at(name).get<double>(); };
    return {.epochs = number("epochs"),
            .first_write_ns = number("first_write_ns"),
            .written_pages = number("written_pages"),
            .whole_pages = number("whole_pages"),
            .blocks = number("blocks"),
            .log_bytes = number("log_bytes"),
            .pause_p50_ms = number("pause_p50_ns") / 1e6,
            .pause_p99_ms = number("pause_p99_ns") / 1e6,
            .pause_max_ms = number("pause_max_ns") / 1e6,
            .pause_total_ms = number("pause_total_ns") / 1e6};
  } catch (const nlohmann::json::exception& error) {
    throw Exception(Code::kIo, file + ": not the statistics of perdure run: " + error.what());
  }
}

std::vector<std::string> command_line(const CarriedProgram& program, const Mode& mode,
                                      const std::string& directory) {
  std::vector<std::string> words;
  if (!mode.options.empty()) {
    words = {tools::find_part("perdure"), "run",
             "--state",        directory + "/" + std::string(kStateName),
             "--stats",        directory + "/" + std::string(kStatisticsName)};
    words.insert(words.end(), mode.options.begin(), mode.options.end());
    words.emplace_back("--");
  }
  words.insert(words.end(), program.command.begin(), program.command.end());
  return words;
}

Ran run_carried(const CarriedProgram& program, const Mode& mode, const std::string& directory) {
  const Files files(directory);
  const std::string log = files.path(kLogName);
  double cpu_before = cpu_seconds_of_children();
  auto begin = Clock::now();
  tools::Process process(command_line(program, mode, directory), log, program.environment,
                         directory, "/dev/null");
  Ran ran;
  if (program.client.empty()) {
    expect_success(process.wait(), program, mode, log);
    ran.wall_s = seconds_since(begin);
  } else {
    tools::wait_until_listening(process, program.socket, log);
    begin = Clock::now();
    expect_success(tools::Process(program.client, log).wait(), program, mode, log);
    ran.wall_s = seconds_since(begin);
    cpu_before = cpu_seconds_of_children();
    expect_success(process.stop(), program, mode, log);
  }
  ran.cpu_s = cpu_seconds_of_children() - cpu_before;
  if (!mode.options.empty()) ran.statistics = read_statistics(files.path(kStatisticsName));
  return ran;
}

}  // namespace perdure::bench::thynvm
