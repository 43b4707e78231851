// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/commands.h"

#include <memory>
#include <string>

#include "apps/run/launch.h"
#include "tools/command.h"

namespace perdure::run {
namespace {

using tools::Report;

/// Prints what the directory holds. Returns the exit code.
int inspect(const std::string& directory, bool json) {
  if (const auto ending = ending_of(directory)) {
    tools::print(Report{{"directory", directory}, {"ended", *ending}}, json);
    return tools::kDone;
  }
  const Image image = Keeper::inspect(directory);
  Report files = Report::array(), threads = Report::array();
  for (const ThreadRecord& each : image.threads)
    threads.push_back({{"thread", each.tid}, {"name", each.name}});
  for (const OpenFile& each : image.files)
    files.push_back({{"descriptor", each.file.descriptor},
                     {"path", each.path},
                     {"offset", each.file.offset},
                     {"bytes", each.file.bytes}});
  Report report{{"directory", directory}};
  report["ended"] = "no";
  report["newest epoch"] = image.epoch;
  report["memory bytes"] = image.pages.size() * kPageBytes;
  report["areas"] = image.areas.size();
  report["process"] = image.process.pid;
  report["working directory"] = image.process.cwd;
  report["kernel"] = image.machine.kernel_release;
  report["threads"] = threads;
  report["files"] = files;
  tools::print(report, json);
  return tools::kDone;
}

/// "auto", or a number with ms (which may be left out), s or us; refuses anything else.
std::uint64_t parse_period(const std::string& text) {
  if (text == "auto") return 0;
  std::size_t digits = 0;
  while (digits < text.size() && digits < 9 && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const std::string unit = text.substr(digits);
  const std::uint64_t scale = unit == "us" ? 1'000 : unit == "s" ? 1'000'000'000 : 1'000'000;
  const std::uint64_t period = digits == 0 ? 0 : std::stoull(text.substr(0, digits)) * scale;
  if ((!unit.empty() && unit != "us" && unit != "ms" && unit != "s") || period < 1'000'000 ||
      period > std::uint64_t{86'400'000'000'000})
    tools::refuse("--epoch", text + " is no time from 1ms to 86400s, and not auto");
  return period;
}

}  // namespace

void add_run_commands(tools::Command app) {
  auto run = app.add_subcommand(
      "run",
      "Run a program whose memory survives kill -9: every epoch, what changed of it goes to a "
      "directory, "
      "from which `perdure resume` goes on. The program is any dynamically linked x86-64 one, "
      "unchanged; see docs/RUN.md for what is carried");
  const auto options = std::make_shared<RunOptions>();
  options->epochs.period_ns = 1'000'000'000;
  run.add_option("--state", options->directory, "The directory; empty or not there yet").required();
  run.add_option_function<std::string>(
         "--epoch",
         [options](const std::string& text) { options->epochs.period_ns = parse_period(text); },
         "Time from epoch to epoch: 10ms, 1s ..., or auto: as often as --budget allows (default "
         "1s)")
      .type_name("TIME");
  run.add_option_function<double>(
         "--budget",
         [options](double percent) {
           options->epochs.budget_millionths = static_cast<std::uint64_t>(percent * 10'000);
         },
         "With --epoch auto: percent of the program's time that epochs may take (default 5)")
      .range(0.1, 90.0)
      .type_name("PERCENT");
  tools::add_choice<bool>(
      run, "--durable", options->epochs.power, {{"process", false}, {"power", true}},
      "What epochs survive: process: the end of processes (default); power: a power cut, too");
  tools::add_choice<bool>(
      run, "--output", options->hold, {{"now", false}, {"hold", true}},
      "now: output is written as the program writes it (default; after a resume up to an epoch of "
      "it comes again); hold: when the epoch is committed in which it was written, once");
  tools::add_choice<Recording>(
      run, "--record", options->epochs.recording,
      {{"auto", Recording::kAuto}, {"pages", Recording::kPages}, {"nothing", Recording::kNothing}},
      "For measurements: auto: blocks of 64 bytes or pages (default); pages; nothing: what "
      "watching alone "
      "costs, and there is nothing to resume");
  run.add_flag("--full", options->epochs.full_only,
               "For measurements: every epoch looks at all memory, as on kernels before Linux 6.7");
  run.add_option("--stats", options->statistics, "A file for what epochs cost, as JSON; -: stderr");
  run.add_option("program", options->command, "The program and its arguments, after --").required();
  run.positionals_at_end();
  run.callback([options] { tools::leave_with(run_program(*options)); });

  auto resume = app.add_subcommand(
      "resume",
      "Go on with a program that `perdure run` or `perdure resume` had when it was killed");
  const auto again = std::make_shared<RunOptions>();
  resume.add_option("directory", again->directory, "What --state named").required();
  resume.add_flag(
      "--back", again->back,
      "From the epoch before the newest, which then never was: when that one is damaged. "
      "If newer ones are lost already, from the newest that is there");
  resume.add_option("--stats", again->statistics,
                    "A file for what epochs cost, as JSON; -: stderr");
  resume.callback([again] { tools::leave_with(resume_program(*again)); });

  auto look =
      app.add_subcommand("inspect", "Check a directory of `perdure run` and tell what it holds");
  const auto directory = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  look.add_option("directory", *directory, "What --state named").required();
  tools::add_json_flag(look, *json);
  look.callback([directory, json] { tools::leave_with(inspect(*directory, *json)); });
}

}  // namespace perdure::run
