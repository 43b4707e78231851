// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "measure/settings.h"
#include "papers/blurred/evaluation/paper_blurred.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"
#include "papers/mnemosyne/evaluation/reincarnation.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/nvheaps/evaluation/others.h"
#include "papers/nvheaps/evaluation/paper_nvheaps.h"
#include "papers/nvheaps/evaluation/sections.h"
#include "papers/pool.h"
#include "papers/softwrap/evaluation/paper_softwrap.h"
#include "papers/thynvm/evaluation/runtime.h"
#include "papers/thynvm/evaluation/sections.h"
#include "tools/command.h"
#include "tools/lab/commands.h"

namespace perdure::bench::reproduce {
namespace {

struct Experiment {
  std::vector<std::string> ids;  // of the sections that it makes
  std::vector<Section> (*measure)(const Settings&);
};

template <Section (*kMeasure)(const Settings&)>
std::vector<Section> one_section(const Settings& settings) {
  return {kMeasure(settings)};
}

enum class MemoryModel : std::uint8_t {
  kEmulatedMemory,  // Settings::memory
  kWriteBuffer,     // of SoftWrAP
  kLineTimes,       // of NV-heaps
  kSimulated,       // of ThyNVM
  kReal,            // of `perdure run`
};

struct Paper {
  std::string_view name;
  std::string_view title;
  std::string_view engine;  // of ours
  bool has_peers;
  std::vector<Experiment> experiments;
  MemoryModel memory = MemoryModel::kEmulatedMemory;
};

const std::vector<Paper>& papers() {
  static const std::vector<Paper> all = {
      {paper::kName,
       paper::kTitle,
       papers::engine_name(papers::EngineKind::kMnemosyne),
       true,
       {
           {{"table4"}, one_section<measure_store>},
           {{"openldap"}, one_section<measure_ldap>},
           {{"figure4", "figure5"}, measure_hash_table},
           {{"table5"}, one_section<measure_trees>},
           {{"table6"}, one_section<measure_log_throughput>},
           {{"figure6"}, one_section<measure_truncation>},
           {{"boot"}, one_section<measure_boot>},
           {{"remap"}, one_section<measure_remap>},
           {{"reincarnation"}, one_section<measure_reincarnation>},
           {{"figure7"}, one_section<measure_latencies>},
       }},
      {paper_blurred::kName,
       paper_blurred::kTitle,
       "as each series names it",
       false,
       {
           {{"figure9"}, one_section<measure_one_thread>},
           {{"figure10"}, measure_threads},
           {{"figure11"}, one_section<measure_value_sizes>},
           {{"figure12"}, one_section<measure_transaction_sizes>},
           {{"figure13"}, one_section<measure_log_sizes>},
           {{"figure14"}, one_section<measure_recovery>},
           {{"figure15"}, one_section<measure_idle_times>},
           {{"figure16"}, one_section<measure_memory_latencies>},
           {{"figure17", "table2"}, measure_adaptive},
           {{"mixes"}, one_section<measure_mixes>},
       }},
      {paper_softwrap::kName,
       paper_softwrap::kTitle,
       "as each series names it",
       false,
       {
           {{"table2"}, one_section<measure_wraps>},
           {{"figure4"}, one_section<measure_store_times>},
           {{"figure6"}, one_section<measure_arrivals>},
           {{"figure7"}, one_section<measure_alias_tables>},
           {{"figure8"}, one_section<measure_responses_over_time>},
           {{"figure9"}, one_section<measure_wrap_threads>},
           {{"figure10"}, one_section<measure_line_times>},
           {{"figure11"}, one_section<measure_wrap_sizes>},
           {{"figure12"}, one_section<measure_reuse>},
           {{"figure14"}, one_section<measure_tree_inserts>},
#ifdef PERDURE_WITH_SQLITE
           {{"figure16"}, one_section<measure_tpcc>},
#endif
       },
       MemoryModel::kWriteBuffer},
      {nvheaps::paper::kName,
       nvheaps::paper::kTitle,
       "as each series names it",
       false,
       {
           {{"table1"}, one_section<nvheaps::measure_operations>},
           {{"figure4"}, one_section<nvheaps::measure_transaction_sizes>},
           {{"figure5", "figure6", "engines", "reads"}, nvheaps::measure_benchmarks},
           {{"figure7"}, one_section<nvheaps::measure_other_systems>},
           {{"figure8"}, one_section<nvheaps::tell_of_memcached>},
       },
       MemoryModel::kLineTimes},
      {thynvm::paper::kName,
       thynvm::paper::kTitle,
       "none: the memory system is simulated",
       false,
       {
           {{"figure7", "figure8", "schemes", "epochs"}, thynvm::measure_micro},
           {{"figure9", "figure10"}, thynvm::measure_stores},
           {{"figure11", "programs"}, thynvm::measure_programs},
           {{"figure12"}, one_section<thynvm::measure_table_sizes>},
           {{"epoch-length", "nvm-latency"}, thynvm::measure_sensitivity},
       },
       MemoryModel::kSimulated},
  };
  return all;
}
const Paper& paper_called(const std::string& name) {
  return *std::find_if(papers().begin(), papers().end(),
                       [&](const Paper& paper) { return paper.name == name; });
}

/// --runtime: what the paper does to a simulated machine's memory, `perdure run` does to a program's.
const Paper& runtime_of_thynvm() {
  static const Paper paper = {thynvm::paper::kName,
                              "perdure run: ThyNVM's checkpointing in software",
                              "checkpoint::EpochStore",
                              false,
                              {
                                  {{"slowdown", "pauses", "log"}, thynvm::measure_carried},
                                  {{"steady"}, one_section<thynvm::measure_steady_load>},
                                  {{"resume"}, one_section<thynvm::measure_resume>},
                                  {{"criu"}, one_section<thynvm::measure_criu>},
                              },
                              MemoryModel::kReal};
  return paper;
}

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
  std::string json_file;
  std::string html_file;
};

bool wanted(const ReproduceOptions& options, const std::string& id) {
  return options.only.empty() ||
         std::find(options.only.begin(), options.only.end(), id) != options.only.end();
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

Evaluation begin_evaluation(const Paper& paper, const Settings& settings) {
  Evaluation evaluation;
  evaluation.environment = look_around();
  evaluation.environment.domain = domain_name(DomainKind::kAdr);
  evaluation.environment.engine = paper.engine;
  evaluation.environment.dir = settings.dir;
  evaluation.environment.seed = settings.seed;
  evaluation.environment.rules = settings.rules;
  if (paper.has_peers) {
    if (peers().berkeley_db != nullptr) evaluation.environment.peers.emplace_back("Berkeley DB");
    if (peers().tokyo_cabinet != nullptr)
      evaluation.environment.peers.emplace_back("Tokyo Cabinet");
    if (peers().serialize != nullptr)
      evaluation.environment.peers.emplace_back("Boost.Serialization");
  }
  evaluation.paper = paper.title;
  evaluation.setting = settings.name;
  if (paper.memory == MemoryModel::kReal) {
    evaluation.environment.domain = "process";
    evaluation.environment.dir = settings.disk_dir;
    evaluation.memory = "none, times are those of this machine with all that runs on it";
    return evaluation;
  }
  if (paper.memory == MemoryModel::kSimulated) {
    evaluation.memory =
        "simulated: rows of DRAM answer in 40 ns (open) or 80, of NVM in 40, 128 (clean) or 368 "
        "(dirty); the times below are simulated ones, the same on every machine";
    return evaluation;
  }
  if (paper.memory == MemoryModel::kLineTimes) {
    evaluation.latency_ns = nvheaps::kPcm.write_ns;
    evaluation.memory = fmt::format(
        "lines on their way to memory take {:g} ns (STTM) or {:g} (PCM), one after the other; DRAM "
        "as it is",
        nvheaps::kSttm.write_ns, nvheaps::kPcm.write_ns);
    if (nvheaps::others().berkeley.make != nullptr)
      evaluation.environment.peers.emplace_back("Berkeley DB");
    if (nvheaps::others().sqlite.make != nullptr)
      evaluation.environment.peers.emplace_back("SQLite");
  } else if (paper.memory == MemoryModel::kWriteBuffer) {
    evaluation.latency_ns = paper_softwrap::kLineNs;
    evaluation.memory = fmt::format(
        "a write-combining buffer of 8 lines for each thread, {:g} ns a line, {:g} ns a wait",
        paper_softwrap::kLineNs, paper_softwrap::kWaitNs);
  } else {
    evaluation.latency_ns = settings.memory.latency_ns;
    evaluation.gb_per_s = settings.memory.gb_per_s;
    evaluation.memory =
        fmt::format("{:g} ns more for every line flushed, run written through and wait, {:g} GB/s",
                    settings.memory.latency_ns, settings.memory.gb_per_s);
  }
  evaluation.spin_error_ns = TscClock::spin_error_ns(evaluation.latency_ns);
  return evaluation;
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
    if (std::none_of(experiment.ids.begin(), experiment.ids.end(),
                     [&](const std::string& id) { return wanted(options, id); }))
      continue;
    for (Section& section : experiment.measure(settings)) {
      if (wanted(options, section.id)) evaluation.sections.push_back(std::move(section));
    }
  }
  evaluation.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tell_end(evaluation.seconds);
  if (!options.json_file.empty()) write_report(options.json_file, json_of(evaluation));
  if (!options.html_file.empty()) write_report(options.html_file, html_of(evaluation));
  std::fputs(text_of(evaluation).c_str(), stdout);
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
  std::vector<std::string> names;
  for (const Paper& paper : papers()) names.emplace_back(paper.name);
  command.add_option("paper", options->paper, "mnemosyne, blurred, softwrap, nvheaps or thynvm")
      .required()
      .one_of(names);
  command.add_option("--only", options->only, "only these, as in figure4,table5")
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
  command.callback([options] { run(*options); });
  add_worker(app);
}

}  // namespace perdure::bench::reproduce
