// SPDX-License-Identifier: BSD-3-Clause
// sim: the simulated memory systems of the ThyNVM paper under any program; and `sim prove`, which looks at
// every state of the protocol that one of them runs.
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "papers/thynvm/memory/experiment.h"
#include "papers/thynvm/memory/workloads.h"
#include "sim/checkpoint/prover.h"
#include "tools/command.h"
#include "tools/lab/commands.h"
#include "tools/progress.h"

namespace perdure::tools {
namespace {

using memory::Outcome;
using memory::Reading;
using memory::System;

struct SimOptions {
  std::string workload;
  std::vector<std::string> program;  // and its arguments
  std::string trace;
  std::string record;
  bool list = false;
  bool json = false;
  std::vector<std::string> systems;
  Reading reading = Reading::kPaperCode;
  memory::WorkloadOptions source;
  std::uint64_t cuts = 0;
  double epoch_ms = 0;
  std::uint32_t block_entries = 0, page_entries = 0;
  double nvm_times = 1;
};

void list(bool json) {
  Report workloads = Report::array(), systems = Report::array();
  for (const auto& each : memory::workload_names())
    workloads.push_back({{"workload", each.name}, {"what", each.what}});
  static constexpr std::string_view kWhat[] = {
      "DRAM alone, crash consistent at no cost",
      "NVM alone, crash consistent at no cost",
      "dirty blocks in DRAM, journaled while the core stands still",
      "dirty pages in DRAM, written to other places while the core stands still",
      "ThyNVM: blocks and pages, checkpointed while the next epoch runs",
      "ThyNVM with block remapping alone",
      "ThyNVM with page writeback alone",
      "ours: ThyNVM whose pages come into DRAM while the epoch runs, and stay there",
  };
  for (const System system : memory::kSystems)
    systems.push_back({{"system", system_name(system)}, {"what", kWhat[std::size_t(system)]}});
  print({{"workloads", workloads}, {"systems", systems}}, json);
}

std::vector<memory::Setup> setups_of(const SimOptions& options) {
  memory::Model model = memory::Model::of(options.reading);
  if (options.epoch_ms > 0) model.epoch = memory::cycles_of_us(options.epoch_ms * 1000);
  if (options.block_entries != 0) model.block_entries = options.block_entries;
  if (options.page_entries != 0) model.page_entries = model.shadow_buffers = options.page_entries;
  if (model.flush_after_dirtied != 0) model.flush_after_dirtied = model.block_entries;
  model.nvm.clean_miss = memory::Time(double(model.nvm.clean_miss) * options.nvm_times);
  model.nvm.dirty_miss = memory::Time(double(model.nvm.dirty_miss) * options.nvm_times);
  std::vector<memory::Setup> setups;
  for (const System system : memory::kSystems) {
    const bool named =
        std::ranges::find(options.systems, system_name(system)) != options.systems.end();
    if (named || (options.systems.empty() && system <= System::kThyNvm))
      setups.push_back({system, model});
  }
  return setups;
}

memory::Workload workload_of(const SimOptions& options) {
  if (!options.trace.empty()) return memory::make_recorded(options.trace);
  if (!options.program.empty()) return memory::make_program(options.program, options.source);
  return memory::make_workload(options.workload, options.source);
}

// The length of epochs: of all of them, `part` are no longer.
double epoch_ns(std::vector<memory::Time> lengths, double part) {
  if (lengths.empty()) return 0;
  const auto at = lengths.begin() + std::ptrdiff_t(part * double(lengths.size() - 1));
  std::nth_element(lengths.begin(), at, lengths.end());
  return double(*at) / memory::kCyclesPerNs;
}

Report describe_time(const Outcome& outcome, const Outcome& first) {
  const memory::Results& results = outcome.results;
  Report row = {
      {"system", system_name(outcome.setup.system)},
      {"simulated_ns", results.seconds() * 1e9},
      {"of_the_first", fmt::format("{:.3f}", double(results.time) / double(first.results.time))},
      {"ipc", fmt::format("{:.3f}", results.ipc())},
      {"stopped_%", fmt::format("{:.1f}", 100 * results.stopped_share())},
      {"epochs", results.epochs.epochs},
      {"median_epoch_ns", epoch_ns(results.epochs.lengths, 0.5)},
      {"ended_full", results.epochs.full}};
  if (results.operations != 0)
    row["operations_per_s"] = std::uint64_t(double(results.operations) / results.seconds());
  return row;
}

Report describe_traffic(const Outcome& outcome) {
  const memory::Traffic& traffic = outcome.results.traffic;
  return {{"system", system_name(outcome.setup.system)},
          {"written_back_bytes", traffic.cpu_lines * memory::kLineBytes},
          {"to_nvm_bytes", traffic.nvm_bytes()},
          {"accepted_by_nvm_bytes", outcome.results.nvm_bytes},
          {"by_the_cpu_bytes", traffic.cpu_to_nvm},
          {"by_checkpoints_bytes", traffic.checkpoint_bytes},
          {"by_migration_bytes", traffic.migration_bytes},
          {"to_dram_bytes", traffic.dram_bytes},
          {"replaced", outcome.results.epochs.replaced},
          {"promoted_pages", outcome.results.epochs.pages_promoted},
          {"spilled", outcome.results.epochs.spilled}};
}

int simulate(const SimOptions& options) {
  memory::Workload workload = workload_of(options);
  memory::Experiment experiment;
  experiment.setups = setups_of(options);
  experiment.cuts = {options.cuts, options.source.seed};
  std::optional<memory::TraceWriter> writer;
  if (!options.record.empty()) {
    const bool arguments = !options.program.empty();
    writer.emplace(
        options.record, workload.name,
        std::vector(options.program.begin() + (arguments ? 1 : 0), options.program.end()));
    experiment.record = &*writer;
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Outcome> outcomes = [&] {
    Progress progress(workload.name + ", records", 0);
    experiment.progress = [&](std::uint64_t records) { progress.show(records); };
    return memory::run_experiment(experiment, *workload.source);
  }();
  if (writer) writer->finish(workload.program != nullptr ? workload.program->skipped() : 0);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  const Outcome& first = outcomes.front();
  Report times = Report::array(), traffic = Report::array(), cuts = Report::array(),
         wrong = Report::array();
  for (const Outcome& outcome : outcomes) {
    times.push_back(describe_time(outcome, first));
    traffic.push_back(describe_traffic(outcome));
    if (outcome.cuts != 0)
      cuts.push_back({{"system", system_name(outcome.setup.system)},
                      {"cuts", outcome.cuts},
                      {"an_epoch_came_back", outcome.cuts_of_epochs},
                      {"in_running_checkpoints", outcome.cuts_of_unfinished},
                      {"violations", outcome.violations.size()}});
    for (const std::string& violation : outcome.violations)
      wrong.push_back({{"system", system_name(outcome.setup.system)}, {"what", violation}});
  }
  const std::uint64_t simulated = first.results.instructions * outcomes.size();
  Report report = {{"workload", workload.name},
                   {"what", workload.what},
                   {"model", memory::reading_name(options.reading)},
                   {"instructions", first.results.instructions},
                   {"loads", first.results.loads},
                   {"stores", first.results.stores},
                   {"misses_of_the_last_cache", first.results.l3_misses},
                   {"touched_bytes", first.results.footprint_bytes},
                   {"times", times},
                   {"nvm_and_dram", traffic}};
  if (!cuts.empty()) report["power_cuts"] = cuts;
  if (!cuts.empty()) report["violations"] = wrong;
  report["took_ns"] = seconds * 1e9;
  report["simulated_instructions_per_s"] =
      std::uint64_t(double(simulated) / std::max(seconds, 1e-9));
  print(report, options.json);
  return wrong.empty() ? kDone : kNegative;
}

// ---- sim prove --------------------------------------------------------------------------------------

struct ProveOptions {
  bool json = false;
  bool no_mutants = false;
  std::string story;
};

int prove(const ProveOptions& options) {
  using prover::Mutant;
  constexpr std::uint64_t kStatesForMutants = 60'000;
  Report proofs = Report::array(), mutants = Report::array(), story = Report::array();
  bool holds = true;
  Progress progress("proving", prover::settings().size() + prover::kMutants);
  std::uint64_t done = 0;
  for (const prover::Setting& setting : prover::settings()) {
    if (!options.story.empty()) break;
    const prover::Proof proof = prover::prove(setting, Mutant::kNone, ~std::uint64_t{0});
    holds &= proof.violation.empty() && proof.complete;
    proofs.push_back({{"memory", proof.setting},
                      {"states", proof.states},
                      {"transitions", proof.transitions},
                      {"power_cuts", proof.cuts},
                      {"depth", proof.depth},
                      {"complete", proof.complete},
                      {"violation", proof.violation.empty() ? "none" : proof.violation}});
    for (const std::string& step : proof.story) story.push_back({{"step", step}});
    progress.show(++done);
  }
  for (int i = 1; i < prover::kMutants && !options.no_mutants; ++i) {
    const auto mutant = Mutant(i);
    if (!options.story.empty() && options.story != mutant_name(mutant)) continue;
    prover::Proof found;
    for (const prover::Setting& setting : prover::settings()) {
      found = prover::prove(setting, mutant, kStatesForMutants);
      if (!found.violation.empty()) break;
    }
    holds &= !found.violation.empty();
    mutants.push_back({{"mutant", mutant_name(mutant)},
                       {"noticed", !found.violation.empty()},
                       {"steps", found.story.size()},
                       {"what", mutant_story(mutant)}});
    if (!options.story.empty())
      for (const std::string& step : found.story) story.push_back({{"step", step}});
    progress.show(++done);
  }
  Report report;
  if (!proofs.empty()) report["proofs"] = proofs;
  if (!mutants.empty()) report["mutants"] = mutants;
  if (!story.empty()) report["story"] = story;
  print(report, options.json);
  return holds ? kDone : kNegative;
}

void add_prove_command(Command sim) {
  auto options = std::make_shared<ProveOptions>();
  Command command =
      sim.add_subcommand("prove",
                         "Look at every state of the checkpointing protocol: every order of "
                         "stores, checkpoint steps, power cuts, recoveries");
  command.add_flag("--no-mutants", options->no_mutants, "Only the protocol itself");
  std::vector<std::string> names;
  for (int i = 1; i < prover::kMutants; ++i) names.emplace_back(mutant_name(prover::Mutant(i)));
  command.add_option("--story", options->story, "How one mutant goes wrong, step by step")
      .one_of(names)
      .type_name("MUTANT");
  add_json_flag(command, options->json);
  command.callback([options] {
    if (const int code = prove(*options); code != kDone) leave_with(code);
  });
  command.footer("Exit codes: 0 no violation and every mutant noticed; 1 otherwise.");
}

}  // namespace

void add_sim_command(Command app, const std::vector<std::string>& program) {
  auto options = std::make_shared<SimOptions>();
  options->program = program;
  Command command = app.add_subcommand(
      "sim",
      "Run a program on simulated memory systems: ThyNVM, journaling, shadow paging, DRAM, NVM");
  command.add_option("WORKLOAD", options->workload,
                     "One of --list; or, after --, any x86-64 Linux program and its arguments");
  command.add_flag("--list", options->list, "List workloads and systems");
  Option trace =
      command.add_option("--trace", options->trace, "Replay this recorded trace").existing_file();
  command.add_option("--record", options->record, "Also record what was run, as a trace")
      .excludes(trace);
  std::vector<std::string> systems;
  for (const System system : memory::kSystems) systems.emplace_back(system_name(system));
  command
      .add_option("--systems", options->systems,
                  "Of " + fmt::format("{}", fmt::join(systems, ", ")) + " (default the first five)")
      .separated_by_commas()
      .one_of(systems)
      .type_name("NAMES");
  add_choice<Reading>(
      command, "--model", options->reading,
      {{"paper-code", Reading::kPaperCode}, {"strict", Reading::kStrict}},
      "paper-code (default): what the authors' simulator does; strict: what their text says");
  add_count(command, "--instructions", options->source.instructions,
            "Of a program: at most so many")
      .show_default();
  add_count(command, "--skip", options->source.skip,
            "Of a program after --: so many come first, not simulated");
  command.add_option("--input", options->source.input, "Standard input of a program after --")
      .existing_file();
  add_count(command, "--factor", options->source.factor,
            "Size of random, streaming, sliding; the paper's is 3")
      .range(1, 1000)
      .show_default();
  add_count(command, "--value", options->source.value_bytes, "Bytes of a value in hash and rbtree")
      .range(16, 4096)
      .show_default();
  add_count(command, "--operations", options->source.operations, "Of hash and rbtree")
      .show_default();
  add_count(command, "--cuts", options->cuts,
            "Cut the power so often at random moments, recover, and compare all memory");
  command
      .add_option("--epoch", options->epoch_ms,
                  "Longest epoch, in ms (strict: 10; paper-code: no limit)")
      .range(0.01, 10'000.0);
  add_count(command, "--blocks", options->block_entries, "Entries of the block table (2048)")
      .range(16, 1 << 20);
  add_count(command, "--pages", options->page_entries,
            "Entries of the page table: pages of DRAM (4096)")
      .range(16, 1 << 20);
  command
      .add_option("--nvm-times", options->nvm_times,
                  "NVM whose row misses take so many times as long")
      .range(0.1, 100.0);
  add_count(command, "--seed", options->source.seed, "Of generators and power cuts").show_default();
  add_json_flag(command, options->json);
  add_prove_command(command);
  command.callback([command, options] {
    if (command.subcommand_given()) return;
    if (options->list) return list(options->json);
    const int sources = int(!options->workload.empty()) + int(!options->trace.empty()) +
                        int(!options->program.empty());
    if (sources != 1)
      refuse("sim", "name one workload (--list), or --trace FILE, or -- PROGRAM ARGS");
    if (const int code = simulate(*options); code != kDone) leave_with(code);
  });
  command.footer(
      "Examples:\n"
      "  perdure-lab sim random                         the paper's five systems under random "
      "accesses\n"
      "  perdure-lab sim hash --value 1024 --model strict\n"
      "  perdure-lab sim gcc --instructions 1000000000  an unmodified compiler\n"
      "  perdure-lab sim -- sort big.txt                any program\n"
      "  perdure-lab sim sliding --cuts 200             and what recovery makes of 200 power cuts\n"
      "  perdure-lab sim prove                          the protocol itself, in every reachable "
      "state\n"
      "Exit codes: 0 done; 1 a power cut or a proof showed a violation.");
}

}  // namespace perdure::tools
