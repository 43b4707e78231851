// SPDX-License-Identifier: BSD-3-Clause
// Figure 16 of SoftWrAP: TPC-C on SQLite, over memory that is slower and slower.
#include <array>

#include <fmt/format.h>

#include "bench/tpcc/driver.h"
#include "measure/settings.h"
#include "papers/pool.h"
#include "papers/softwrap/evaluation/claims.h"
#include "papers/softwrap/evaluation/wrap_job.h"

namespace perdure::bench::reproduce {
namespace {

/// What runs under SQLite: a VFS on an engine.
struct Contestant {
  std::string_view name;
  const char* vfs;
  papers::EngineKind engine;
};
/// In A nothing but SQLite's journal makes a transaction atomic: it needs no more of the memory than that a sync waits.
constexpr std::array kContestants = {
    Contestant{kSoftWrap.name, "perdure", kSoftWrap.engine},
    Contestant{kNonAtomic.name, "perdure", kNonAtomic.engine},
    Contestant{kUndoLog.name, "perdure", kUndoLog.engine},
    Contestant{"A: SQLite's journal", "perdure-plain", kNonAtomic.engine},
    Contestant{kPages.name, "perdure", kPages.engine},
    Contestant{kDefault.name, "perdure", kDefault.engine}};

tpcc::Mode mode_of(const Contestant& contestant, double line_ns) {
  return {contestant.vfs, "delete", "full",
          fmt::format("domain=adr&engine={}&line_ns={:.0f}", papers::engine_name(contestant.engine),
                      line_ns)};
}

}  // namespace

Section measure_tpcc(const Settings& settings) {
  Section section;
  section.id = "figure16";
  section.title = "Figure 16: TPC-C on SQLite";
  section.x_name = "T_w (ns)";
  section.x = settings.softwrap.tpcc_line_ns;
  section.method = fmt::format(
      "`perdure-lab bench tpcc` with the VFS perdure (Figure 15 B), a warehouse of 1 in {} of the "
      "standard's rows, one terminal, synchronous full. (Undo Log takes a commit that its log "
      "cannot "
      "hold word by word at once.) A (Figure 15 A) is SQLite with its journal in persistent "
      "memory: "
      "the VFS perdure-plain on memory that is not atomic. Every round ends with the standard's "
      "twelve conditions and an "
      "integrity check.",
      settings.softwrap.tpcc_divisor);
  section.missing =
      "The paper's values are in a picture only; the sentences of its text stand below.";

  tpcc::register_vfses("");
  tpcc::Load load;
  load.size.divisor = settings.softwrap.tpcc_divisor;
  load.seed = settings.seed;
  load.seconds = 10 * settings.rules.seconds;
  load.warm_up_seconds = 2 * settings.rules.seconds;
  const ScratchDirectory home(settings.dir, "tpcc-original");
  const std::string original = home.path() + "/original.sqlite";
  tpcc::load_original(original, load);

  std::vector<std::vector<std::optional<Spread>>> rates(kContestants.size());
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    tell_progress("Figure 16", place, section.x.size());
    std::vector<std::vector<double>> runs(kContestants.size());
    for (unsigned round = 0; round < std::min(settings.rules.repetitions, 3u); ++round) {
      for (std::size_t i = 0; i < kContestants.size(); ++i) {
        const tpcc::Outcome outcome = run_round(load, mode_of(kContestants[i], section.x[place]),
                                                original, settings.dir, round);
        if (!outcome.violations.empty())
          throw Exception(Code::kCorrupt, settings.dir + ": TPC-C on " +
                                              std::string(kContestants[i].name) + ": " +
                                              outcome.violations.front());
        runs[i].push_back(outcome.transactions_per_s());
      }
    }
    for (std::size_t i = 0; i < kContestants.size(); ++i) rates[i].emplace_back(spread_of(runs[i]));
  }
  for (std::size_t i = 0; i < kContestants.size(); ++i)
    section.add(std::string(kContestants[i].name), "tx/s", Origin::kPerdure).values =
        std::move(rates[i]);

  paper_softwrap::judge_tpcc(section);
  return section;
}

}  // namespace perdure::bench::reproduce
