// SPDX-License-Identifier: BSD-3-Clause
// explore: the crash explorer over the built-in scenarios, and its canaries. A structure of one's
// own is explored by a program that links perdure_crash (sim/crash/explorer.h); this command judges
// the house itself.
#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "papers/scenarios.h"
#include "sim/crash/suite.h"
#include "tools/command.h"
#include "tools/lab/commands.h"
#include "tools/progress.h"

namespace perdure::tools {
namespace {

struct ExploreOptions {
  std::vector<std::string> names;
  bool list = false;
  bool all = false;
  bool exhaustive = false;
  bool canaries = false;
  bool no_canaries = false;
  bool json = false;
  std::uint64_t seed = 1;
  unsigned threads = 2;
  unsigned depth = 2;
  std::string replay;
};

void list(const ExploreOptions& options) {
  Report rows = Report::array();
  for (const crash::Subject& subject : papers::scenarios()) {
    rows.push_back({{"scenario", subject.name},
                    {"on", subject.memory && subject.file ? "memory, eadr, file"
                           : subject.memory               ? "memory, eadr"
                                                          : "file"},
                    {"claim", subject.claim}});
  }
  print({{"scenarios", rows}}, options.json);
}

Report describe(const crash::Report& report) {
  return {{"scenario", report.scenario},    {"on", report.model},
          {"moments", report.crash_points}, {"enumerated_in_full", report.exhaustive_points},
          {"images", report.images},        {"nested_images", report.nested_images},
          {"kills", report.kills},          {"violations", report.violations.size()}};
}

Report describe(const crash::CanaryResult& canary) {
  return {{"left_out", canary.site},
          {"executions", canary.omitted},
          {"on", canary.model},
          {"caught", canary.caught},
          {"by", canary.caught ? canary.scenario : "nothing"}};
}

Report describe_violations(const crash::Report& report) {
  Report rows = Report::array();
  for (const crash::Violation& violation : report.violations) {
    rows.push_back({{"scenario", violation.scenario},
                    {"on", violation.model},
                    {"what", violation.what},
                    {"replay", violation.replay}});
  }
  return rows;
}

int replay(const ExploreOptions& options) {
  const crash::Report report = crash::replay(papers::scenarios(), options.replay).value();
  print({{"replayed", options.replay}, {"violations", describe_violations(report)}}, options.json);
  return report.violations.empty() ? kDone : kNegative;
}

int explore(const ExploreOptions& options) {
  const std::vector<crash::Subject> known = papers::scenarios();
  for (const std::string& name : options.names) {
    if (std::none_of(known.begin(), known.end(),
                     [&](const crash::Subject& subject) { return subject.name == name; }))
      throw Exception(Code::kInvalid, "no scenario is called '" + name +
                                          "'; `perdure-lab explore --list` names them");
  }
  crash::SuiteOptions suite;
  if (options.exhaustive) suite.explore = crash::Options::exhaustive();
  suite.explore.seed = options.seed;
  suite.explore.depth = options.depth;
  if (options.names.empty() && !options.exhaustive) {
    // Of a long recovery that is cut again and again, other moments each time: of each more where
    // one mistake is looked for.
    suite.explore.nested_most_points = 12;
    suite.hunt = suite.explore;
    suite.explore.nested_most_points = 6;
  }
  suite.only = options.names;
  suite.canaries = options.canaries || (options.names.empty() && !options.no_canaries);
  suite.threads = options.threads;
  const crash::SuiteReport result = [&] {
    std::optional<Progress> progress;  // made when the suite knows how much there is to do
    return crash::run_suite(known, suite, [&](const crash::Progress& now) {
      if (!progress) progress.emplace("exploring", now.planned);
      progress->show(now.finished);
    });
  }();

  Report scenarios = Report::array();
  for (const crash::Report& report : result.reports) scenarios.push_back(describe(report));
  Report canaries = Report::array();
  for (const crash::CanaryResult& canary : result.canaries) canaries.push_back(describe(canary));
  Report report = {{"scenarios", scenarios}};
  if (suite.canaries) report["canaries"] = canaries;
  report["seed"] = options.seed;
  report["crash_images"] = result.total.images;
  report["images_of_cut_recoveries"] = result.total.nested_images;
  report["kills_recovered_and_cut"] = result.total.kills;
  if (suite.canaries) {
    report["canaries_caught"] = result.canaries_caught();
    report["canaries_to_catch"] = result.canaries.size();
    report["sites_never_executed"] = result.unused_sites;
  }
  report["explored_ns"] = result.seconds * 1e9;
  report["violations"] = describe_violations(result.total);
  print(report, options.json);
  // Few scenarios cannot catch all canaries; all of them must.
  return (options.names.empty() ? result.ok() : result.total.violations.empty()) ? kDone
                                                                                 : kNegative;
}

}  // namespace

void add_explore_command(Command app) {
  auto options = std::make_shared<ExploreOptions>();
  Command command = app.add_subcommand(
      "explore", "Cut the power at every moment of a scenario, recover, and judge");
  Option names = command.add_option("SCENARIO", options->names, "Scenarios to explore");
  Option listing =
      command.add_flag("--list", options->list, "List the scenarios and what each proves");
  Option all = command.add_flag("--all", options->all, "Every scenario, and then the canaries");
  Option replaying =
      command.add_option("--replay", options->replay, "The one image that a violation named");
  listing.excludes(names).excludes(all).excludes(replaying);
  all.excludes(names).excludes(replaying);
  replaying.excludes(names);
  command.add_flag("--exhaustive", options->exhaustive,
                   "Enumerate instead of sampling, as far as that is possible");
  Option canaries =
      command.add_flag("--canaries", options->canaries,
                       "Also leave out each flush and fence in turn: each must be noticed");
  command.add_flag("--no-canaries", options->no_canaries, "With --all: only the scenarios")
      .excludes(canaries);
  command.add_option("--seed", options->seed, "Of the samples").show_default();
  command
      .add_option("--depth", options->depth,
                  "Cuts in a row: 2 cuts recoveries, 3 the recoveries from that")
      .show_default()
      .range(1, 4);
  command.add_option("--threads", options->threads, "Scenarios at the same time")
      .show_default()
      .range(1, 256);
  add_json_flag(command, options->json);
  command.callback([options] {
    if (options->list) return list(*options);
    if (!options->all && options->names.empty() && options->replay.empty())
      refuse("explore", "name a scenario, or --all, or --list");
    const int code = options->replay.empty() ? explore(*options) : replay(*options);
    if (code != kDone) leave_with(code);
  });
  command.footer(
      "Examples:\n"
      "  perdure-lab explore --all                      what the tests run\n"
      "  perdure-lab explore growth --exhaustive        one scenario, in full\n"
      "  perdure-lab explore --replay '…'               the line that a violation printed\n"
      "Exit codes: 0 no violation and every canary caught; 1 otherwise.");
}

}  // namespace perdure::tools
