// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "measure/report_all.h"
#include "measure/section_json.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/reincarnation.h"
#include "papers/thynvm/evaluation/paper_thynvm.h"
#include "tools/command.h"
#include "tools/lab/commands.h"
#include "tools/lab/papers.h"

namespace perdure::bench::reproduce {
namespace {

struct ReproduceOptions {
  std::string paper;
  std::vector<std::string> only;  // empty: all
  std::string dir = "/dev/shm";
  std::string disk_dir = ".";
  std::uint64_t seed = 1;
  unsigned repetitions = 0;  // 0: those of the setting
  bool quick = false;
  bool full = false;
  bool runtime = false;
  std::string keep_dir = "reproduced";  // of all papers
  std::string json_file;
  std::string html_file;
};

/// Of all papers, sections are called "softwrap/figure10".
bool wanted(const ReproduceOptions& options, const Paper& paper, const std::string& id) {
  const std::string name = options.paper == "all" ? fmt::format("{}/{}", paper.name, id) : id;
  return options.only.empty() ||
         std::find(options.only.begin(), options.only.end(), name) != options.only.end();
}
bool wanted(const ReproduceOptions& options, const Paper& paper, const Experiment& experiment) {
  return std::any_of(experiment.ids.begin(), experiment.ids.end(),
                     [&](const std::string& id) { return wanted(options, paper, id); });
}

Settings settings_of(const ReproduceOptions& options) {
  Settings settings = options.full    ? full_settings()
                      : options.quick ? quick_settings()
                                      : default_settings();
  settings.dir = options.dir;
  settings.disk_dir = options.disk_dir;
  settings.seed = options.seed;
  if (options.runtime) settings.rules = settings.runtime.rules;
  if (options.repetitions != 0) settings.rules.repetitions = options.repetitions;
  return settings;
}

/// Refuses a section that the paper does not have.
void refuse_foreign(const Paper& paper, const std::vector<std::string>& only) {
  std::string all;
  for (const Experiment& experiment : paper.experiments) {
    for (const std::string& id : experiment.ids) all += (all.empty() ? "" : ", ") + id;
  }
  for (const std::string& id : only) {
    const bool known = std::any_of(
        paper.experiments.begin(), paper.experiments.end(), [&](const Experiment& experiment) {
          return std::find(experiment.ids.begin(), experiment.ids.end(), id) !=
                 experiment.ids.end();
        });
    if (!known)
      tools::refuse("--only", std::string(paper.name) + " has no '" + id + "', but " + all);
  }
}

void run(const ReproduceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.runtime && options.paper != thynvm::paper::kName)
    tools::refuse("--runtime", "only thynvm has it");
  const Paper& paper = options.runtime ? runtime_of_thynvm() : paper_called(options.paper);
  refuse_foreign(paper, options.only);
  // Before minutes are spent: can the reports be written?
  for (const std::string& file : {options.json_file, options.html_file}) {
    if (!file.empty()) write_report(file, "");
  }
  const Settings settings = settings_of(options);
  Evaluation evaluation = begin_evaluation(paper, settings);
  for (const Experiment& experiment : paper.experiments) {
    if (!wanted(options, paper, experiment)) continue;
    for (Section& section : measure(paper, experiment, settings)) {
      if (wanted(options, paper, section.id)) evaluation.sections.push_back(std::move(section));
    }
  }
  evaluation.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tell_end(evaluation.seconds);
  if (!options.json_file.empty()) write_report(options.json_file, json_of(evaluation));
  if (!options.html_file.empty()) write_report(options.html_file, html_of(evaluation));
  std::fputs(text_of(evaluation).c_str(), stdout);
}

using Json = nlohmann::ordered_json;

/// What an experiment of an earlier run of the same setting and seed found; nothing where there is none.
std::optional<std::vector<Section>> kept(const std::string& file, const Settings& settings) {
  std::ifstream stream(file);
  const Json json = Json::parse(stream, nullptr, false);
  if (!json.is_object() || json.value("setting", "") != settings.name ||
      json.value("seed", std::uint64_t{0}) != settings.seed)
    return std::nullopt;
  std::vector<Section> sections;
  for (const Json& one : json.at("sections")) sections.push_back(section_from(one));
  return sections;
}

/// A file appears whole or not at all: a run that is stopped leaves none that is read as complete.
void keep(const std::string& file, const Settings& settings, const std::vector<Section>& sections) {
  Json json{{"setting", settings.name}, {"seed", settings.seed}, {"sections", Json::array()}};
  for (const Section& section : sections) json["sections"].push_back(json_of(section));
  write_report(file + ".part", json.dump() + "\n");
  std::filesystem::rename(file + ".part", file);
}

/// Every paper, one after the other; what the directory holds of an earlier run is not measured again.
void run_all(const ReproduceOptions& options) {
  if (options.runtime) tools::refuse("--runtime", "only thynvm has it");
  for (const std::string& name : options.only) {
    const std::size_t end = name.find('/');
    const auto paper = std::find_if(papers().begin(), papers().end(), [&](const Paper& one) {
      return one.name == name.substr(0, end);
    });
    if (end == std::string::npos || paper == papers().end())
      tools::refuse("--only", "of all papers, it takes PAPER/SECTION, not '" + name + "'");
    refuse_foreign(*paper, {name.substr(end + 1)});
  }
  for (const std::string& file : {options.json_file, options.html_file}) {
    if (!file.empty()) write_report(file, "");
  }
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const Settings settings = settings_of(options);
  std::filesystem::create_directories(options.keep_dir);
  std::size_t total = 0;
  for (const Paper& paper : papers()) {
    for (const Experiment& experiment : paper.experiments)
      total += wanted(options, paper, experiment) ? 1 : 0;
  }
  std::size_t done = 0;
  std::size_t measured = 0;
  std::vector<Evaluation> evaluations;
  for (const Paper& paper : papers()) {
    Evaluation& evaluation = evaluations.emplace_back(begin_evaluation(paper, settings));
    const double begun = seconds();
    for (const Experiment& experiment : paper.experiments) {
      if (!wanted(options, paper, experiment)) continue;
      const std::string name = fmt::format("{}-{}", paper.name, experiment.ids.front());
      const std::string file = options.keep_dir + "/" + name + ".json";
      std::optional<std::vector<Section>> sections = kept(file, settings);
      if (!sections) {
        sections = measure(paper, experiment, settings);
        keep(file, settings, *sections);
        ++measured;
      }
      for (Section& section : *sections) {
        if (wanted(options, paper, section.id)) evaluation.sections.push_back(std::move(section));
      }
      ++done;
      const double each = measured == 0 ? 0 : seconds() / static_cast<double>(measured);
      fmt::print(stderr, "{}: {} of {} experiments after {:.0f} s, about {:.0f} s are left\n", name,
                 done, total, seconds(), each * static_cast<double>(total - done));
    }
    evaluation.seconds = seconds() - begun;
    if (evaluation.sections.empty()) evaluations.pop_back();
  }
  tell_end(seconds());
  if (!options.json_file.empty()) write_report(options.json_file, json_of(evaluations));
  if (!options.html_file.empty()) write_report(options.html_file, html_of(evaluations));
  std::fputs(text_of(evaluations).c_str(), stdout);
}

void add_worker(tools::Command app) {
  struct Work {
    std::string path;
    std::uint64_t objects = 0;
    std::uint64_t transactions = 0;
  };
  auto work = std::make_shared<Work>();
  tools::Command worker =
      app.add_subcommand("reproduce-worker", "The process that reincarnation kills").hide();
  worker.add_option("file", work->path).required();
  worker.add_option("--objects", work->objects);
  worker.add_option("--transactions", work->transactions);
  worker.callback([work] { work_until_killed(work->path, work->objects, work->transactions); });
}

}  // namespace

void add_reproduce_command(tools::Command app) {
  auto options = std::make_shared<ReproduceOptions>();
  tools::Command command = app.add_subcommand(
      "reproduce", "Run a paper's evaluation on this machine, its values beside ours");
  std::vector<std::string> names{"all"};
  for (const Paper& paper : papers()) names.emplace_back(paper.name);
  command
      .add_option(
          "paper", options->paper,
          "mnemosyne, blurred, softwrap, nvheaps or thynvm; all: one after the other, with a "
          "summary of what differs")
      .required()
      .one_of(names);
  command
      .add_option("--only", options->only,
                  "only these, as in figure4,table5; of all papers, as in softwrap/figure4")
      .separated_by_commas();
  tools::Option quick = command.add_flag("--quick", options->quick,
                                         "tiny sizes, two short runs: a look, not a measurement");
  command.add_flag("--full", options->full, "the paper's sizes and more runs: takes long")
      .excludes(quick);
  command
      .add_option("--dir", options->dir,
                  "where pools and files go: a file system in memory (default /dev/shm)")
      .existing_directory();
  command
      .add_option(
          "--disk", options->disk_dir,
          "where the files of nvheaps' figure7 and the state directories of --runtime go, on "
          "a disk (default the current directory)")
      .existing_directory();
  command.add_flag("--runtime", options->runtime,
                   "with thynvm: measure `perdure run` on this machine, instead of the simulator");
  tools::add_count(command, "--seed", options->seed, "of the keys");
  command.add_option("--reps", options->repetitions, "runs of each measurement").range(1, 1000);
  command.add_option("--json", options->json_file, "write the report as JSON into this file");
  command.add_option("--html", options->html_file, "write it as a page with charts into this file");
  command.add_option("--keep", options->keep_dir,
                     "with all: keep results in this directory (default reproduced); what is there "
                     "of the same setting and seed is not measured again");
  command.callback([options] { options->paper == "all" ? run_all(*options) : run(*options); });
  add_worker(app);
}

}  // namespace perdure::bench::reproduce
