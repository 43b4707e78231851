// SPDX-License-Identifier: BSD-3-Clause
#include "tools/lab/papers.h"

#include <algorithm>

#include <fmt/format.h>

#include "measure/claim.h"
#include "measure/control.h"
#include "papers/blurred/evaluation/paper_blurred.h"
#include "papers/mnemosyne/evaluation/more_sections.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/nvheaps/evaluation/others.h"
#include "papers/nvheaps/evaluation/paper_nvheaps.h"
#include "papers/nvheaps/evaluation/sections.h"
#include "papers/pool.h"
#include "papers/softwrap/evaluation/paper_softwrap.h"
#include "papers/thynvm/evaluation/runtime.h"
#include "papers/thynvm/evaluation/sections.h"

namespace perdure::bench::reproduce {
namespace {

template <Section (*kMeasure)(const Settings&)>
std::vector<Section> one_section(const Settings& settings) {
  return {kMeasure(settings)};
}

/// By which clock the experiments of a paper measure.
MeasuredBy clock_of(MemoryModel memory) {
  switch (memory) {
    case MemoryModel::kSimulated: return MeasuredBy::kSimulatedTime;
    case MemoryModel::kWriteBuffer:
    case MemoryModel::kReal: return MeasuredBy::kWallTime;
    default: return MeasuredBy::kOwnTime;
  }
}

}  // namespace

const std::vector<Paper>& papers() {
  static const std::vector<Paper> all = {
      {paper::kName,
       paper::kTitle,
       papers::engine_name(papers::EngineKind::kMnemosyne),
       true,
       {
           {{"table4"}, one_section<measure_store>},
           {{"table4-threads"}, one_section<measure_store_threads>, true},
           {{"openldap"}, one_section<measure_ldap>, true},
           {{"costs"}, one_section<measure_costs>},
           {{"figure4", "figure5"}, measure_hash_table, true},
           {{"table5"}, one_section<measure_trees>},
           {{"table6"}, one_section<measure_log_throughput>},
           {{"figure6"}, one_section<measure_truncation>, true},
           {{"boot"}, one_section<measure_boot>, true},
           {{"remap"}, one_section<measure_remap>, true},
           {{"reincarnation"}, one_section<measure_reincarnation>, true},
           {{"figure7"}, one_section<measure_latencies>},
           {{"slow-truncation"}, one_section<measure_slow_truncation>, true},
       }},
      {paper_blurred::kName,
       paper_blurred::kTitle,
       "as each series names it",
       false,
       {
           {{"figure9"}, one_section<measure_one_thread>},
           {{"figure10"}, measure_threads, true},
           {{"figure11"}, one_section<measure_value_sizes>},
           {{"figure12"}, one_section<measure_transaction_sizes>},
           {{"figure13"}, one_section<measure_log_sizes>},
           {{"figure14"}, one_section<measure_recovery>},
           {{"figure15"}, one_section<measure_idle_times>, true},
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
           {{"figure7"}, one_section<nvheaps::measure_other_systems>, true},
#ifdef PERDURE_WITH_LIBMEMCACHED
           {{"figure8"}, one_section<nvheaps::measure_memcached>, true},
#endif
       },
       MemoryModel::kLineTimes},
      {thynvm::paper::kName,
       thynvm::paper::kTitle,
       "none: the memory system is simulated",
       false,
       {
           {{"figure7", "figure8", "schemes", "epochs"}, thynvm::measure_micro},
           {{"compiled"}, one_section<thynvm::measure_compiled>},
           {{"figure9", "figure10"}, thynvm::measure_stores},
           {{"figure11", "programs"}, thynvm::measure_programs},
           {{"figure12"}, one_section<thynvm::measure_table_sizes>},
           {{"epoch-length", "nvm-latency"}, thynvm::measure_sensitivity},
           {{"banks"}, one_section<thynvm::measure_banks>},
           {{"end-of-epoch"}, one_section<thynvm::measure_end_of_epoch>},
       },
       MemoryModel::kSimulated},
  };
  return all;
}
const Paper& paper_called(const std::string& name) {
  return *std::find_if(papers().begin(), papers().end(),
                       [&](const Paper& paper) { return paper.name == name; });
}

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
  evaluation.id = paper.name;
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

std::vector<Section> measure(const Paper& paper, const Experiment& experiment,
                             const Settings& settings) {
  Control control;
  control.sample();
  std::vector<Section> sections = experiment.measure(settings);
  control.sample();
  const std::string unsteady =
      control.unsteady(experiment.all_cpus ? MeasuredBy::kWallTime : clock_of(paper.memory));
  if (!unsteady.empty()) {
    for (Section& section : sections) withhold_verdicts(section, unsteady);
  }
  return sections;
}

}  // namespace perdure::bench::reproduce
