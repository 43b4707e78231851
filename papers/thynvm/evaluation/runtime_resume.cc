// SPDX-License-Identifier: BSD-3-Clause
// A load that is said in time: its pauses, its return after SIGKILL, and its checkpoints by CRIU.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "bench/system.h"
#include "papers/thynvm/evaluation/carried_run.h"
#include "papers/thynvm/evaluation/runtime.h"
#include "perdure/error.h"
#include "tools/parts.h"
#include "tools/process.h"

namespace perdure::bench::thynvm {

namespace fs = std::filesystem;
using reproduce::Origin;
using reproduce::Section;
using reproduce::Settings;

namespace {

constexpr unsigned kThreads = 4;
constexpr double kLoadPages = 5 * 256;  // in 10 ms
constexpr double kPauseMostMs = 2;
constexpr double kResumeMostMs = 300;
constexpr std::chrono::milliseconds kLiving{1000}, kDying{500};
constexpr double kLongSeconds = 600;  // of a program that is killed

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The program's first sign of life since then, in milliseconds.
/// Errors: Exception kIo when there is none for a minute, or the process has ended.
double wait_for_life(const std::string& life, std::int64_t since, tools::Process& process,
                     const std::string& log) {
  constexpr std::int64_t kPatienceNs = 60'000'000'000;
  const std::int64_t until = monotonic_ns() + kPatienceNs;
  while (process.running() && monotonic_ns() < until) {
    std::ifstream file(life, std::ios::binary);
    for (std::int64_t sign = 0; file.read(reinterpret_cast<char*>(&sign), sizeof sign);)
      if (sign >= since) return static_cast<double>(sign - since) / 1e6;
    ::usleep(500);
  }
  throw Exception(Code::kIo,
                  life + ": no sign of life; the program's log ends with: " + tools::end_of(log));
}

std::string missing_of(const Exception& failure) {
  return std::string("Not measured: ") + failure.what();
}

}  // namespace

Section measure_steady_load(const Settings& settings) {
  const ScratchDirectory directory(fs::absolute(settings.disk_dir), "steady");
  const CarriedProgram program =
      steady_program(settings.runtime.steady_mib, kThreads,
                     static_cast<std::uint64_t>(kLoadPages) * 4, settings.runtime.steady_s);
  Section section;
  section.id = "steady";
  section.title = "Pauses under a steady load";
  section.method = fmt::format(
      "{}, for {:g} s. All memory is there in the first epoch, which is one of a run's.",
      program.what, settings.runtime.steady_s);
  section.x_name = "threads";
  section.x = {kThreads};
  const std::vector<Mode> modes = {{"track only", {"--epoch", "10ms", "--record", "nothing"}},
                                   {"page", {"--epoch", "10ms", "--record", "pages"}},
                                   {"block", {"--epoch", "10ms"}}};
  std::vector<std::vector<RunStatistics>> runs(modes.size());
  try {
    for (unsigned round = 0; round < settings.rules.repetitions; ++round) {
      reproduce::tell_progress("steady load", round, settings.rules.repetitions);
      for (std::size_t i = 0; i < modes.size(); ++i)
        runs[i].push_back(run_carried(program, modes[i], directory.path()).statistics);
    }
  } catch (const Exception& failure) {
    section.missing = missing_of(failure);
    return section;
  }
  const auto add = [&](std::size_t mode, const char* what, const char* unit, auto figure) {
    std::vector<double> values;
    for (const RunStatistics& told : runs[mode]) values.push_back(figure(told));
    section.add(fmt::format("{}: {}", modes[mode].name, what), unit, Origin::kPerdure).values = {
        spread_of(values)};
  };
  for (std::size_t i = 0; i < modes.size(); ++i) {
    add(i, "pause p50", "ms", [](const RunStatistics& told) { return told.pause_p50_ms; });
    add(i, "pause p99", "ms", [](const RunStatistics& told) { return told.pause_p99_ms; });
    add(i, "longest pause", "ms", [](const RunStatistics& told) { return told.pause_max_ms; });
    add(i, "an epoch", "ms",
        [&](const RunStatistics& told) { return settings.runtime.steady_s * 1e3 / told.epochs; });
    add(i, "written in an epoch", "pages",
        [](const RunStatistics& told) { return told.written_pages / told.epochs; });
  }
  const double p99 = section.find("block: pause p99")->at(0);
  const double epoch = section.find("block: an epoch")->at(0);
  judge_goal(
      section,
      fmt::format("99 % of pauses are at most {:g} ms with {} threads, 256 MiB resident and 5 "
                  "MiB written in an epoch of 10 ms",
                  kPauseMostMs, kThreads),
      reproduce::number(
          p99, "ms", "",
          fmt::format("epochs of {:.0f} ms with {:.0f} pages; tracking alone {:.1f} ms", epoch,
                      section.find("block: written in an epoch")->at(0),
                      section.find("track only: pause p99")->at(0))),
      kPauseMostMs,
      epoch > 20 ? fmt::format("Epochs of {:.0f} ms are longer than asked for, as the one before "
                               "was not written yet; so they have more to copy.",
                               epoch)
                 : fmt::format("Half of the pauses are at most {:.1f} ms.",
                               section.find("block: pause p50")->at(0)));
  return section;
}

Section measure_resume(const Settings& settings) {
  const ScratchDirectory directory(fs::absolute(settings.disk_dir), "resume");
  const std::string life = directory.path() + "/life", log = directory.path() + "/log";
  const CarriedProgram program =
      steady_program(settings.runtime.steady_mib, 1, 64, kLongSeconds, life);
  Section section;
  section.id = "resume";
  section.title = "From SIGKILL back to life";
  section.method = fmt::format(
      "{}; it is killed {} times, always the program that came back. From the start of `perdure "
      "resume` to the first time that the program notes in a file; what the directory holds is "
      "cached by the system, as it is after a kill.",
      program.what, settings.runtime.resumes);
  section.x_name = "MiB";
  section.x = {static_cast<double>(settings.runtime.steady_mib)};
  std::vector<double> times;
  try {
    std::optional<tools::Process> running(
        std::in_place, command_line(program, {"", {"--epoch", "100ms"}}, directory.path()), log,
        program.environment, directory.path());
    wait_for_life(life, 0, *running, log);
    for (unsigned i = 0; i < settings.runtime.resumes; ++i) {
      reproduce::tell_progress("resume", i, settings.runtime.resumes);
      std::this_thread::sleep_for(kLiving);
      running->kill();
      // The program's end follows that of its supervisor; until then it gives signs of its old life.
      std::this_thread::sleep_for(kDying);
      const std::int64_t start = monotonic_ns();
      running.reset();
      running.emplace(std::vector<std::string>{tools::find_part("perdure"), "resume",
                                               directory.path() + "/" + std::string(kStateName)},
                      log, std::vector<std::string>{}, directory.path());
      times.push_back(wait_for_life(life, start, *running, log));
    }
  } catch (const Exception& failure) {
    section.missing = missing_of(failure);
    return section;
  }
  section.add("resume", "ms", Origin::kPerdure).values = {spread_of(times)};
  const double median = section.find("resume")->at(0);
  judge_goal(section, "a program of 256 MiB is back 300 ms after `perdure resume` starts",
             reproduce::number(median, "ms", "",
                               fmt::format("a program of {} MiB", settings.runtime.steady_mib)),
             kResumeMostMs,
             fmt::format("{:.1f} ms for each MiB.",
                         median / static_cast<double>(settings.runtime.steady_mib)));
  return section;
}

Section measure_criu(const Settings& settings) {
  Section section;
  section.id = "criu";
  section.title = "Checkpoints by CRIU";
  section.x_name = "MiB";
  section.x = {static_cast<double>(settings.runtime.steady_mib)};
  constexpr const char* kReference =
      ". For reference, not measured here: on Linux 6.18 CRIU 4.2 takes 255 to 337 ms for a dump "
      "of "
      "256 MB without ending the program, which stands still for 289 to 302 ms of such a time; it "
      "takes all memory each time, as that kernel is built without soft-dirty bits.";
  const ScratchDirectory directory(fs::absolute(settings.disk_dir), "criu");
  const std::string log = directory.path() + "/log", images = directory.path() + "/images";
  const CarriedProgram program =
      steady_program(settings.runtime.steady_mib, kThreads, 0, kLongSeconds);
  section.method = fmt::format(
      "`criu dump --leave-running` of a program of {} MiB with {} threads; the time that it stands "
      "still is what CRIU says of it.",
      settings.runtime.steady_mib, kThreads);
  std::vector<double> dumps, frozen;
  try {
    const auto criu = [&](std::vector<std::string> words) {
      fs::remove(log);
      words.insert(words.begin(), "criu");
      if (tools::Process(words, log).wait() != 0)
        throw Exception(Code::kIo, "CRIU refuses: " + tools::end_of(log));
    };
    criu({"check"});
    tools::Process running(program.command, "/dev/null");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    for (unsigned i = 0; i < settings.runtime.resumes; ++i) {
      fs::remove_all(images);
      fs::create_directory(images);
      const std::int64_t start = monotonic_ns();
      criu({"dump", "--leave-running", "--shell-job", "--display-stats", "--tree",
            std::to_string(running.id()), "--images-dir", images});
      dumps.push_back(static_cast<double>(monotonic_ns() - start) / 1e6);
      std::ostringstream told;
      told << std::ifstream(log).rdbuf();
      const std::string text = told.str(), label = "Frozen time: ";
      if (const std::size_t at = text.find(label); at != std::string::npos)
        frozen.push_back(std::stod(text.substr(at + label.size())) / 1e3);
    }
  } catch (const Exception& failure) {
    section.missing = missing_of(failure) + kReference;
    return section;
  }
  section.add("CRIU: dump", "ms", Origin::kPeer).values = {spread_of(dumps)};
  if (!frozen.empty())
    section.add("CRIU: stands still", "ms", Origin::kPeer).values = {spread_of(frozen)};
  return section;
}

}  // namespace perdure::bench::thynvm
