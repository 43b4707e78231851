// SPDX-License-Identifier: BSD-3-Clause
// Figure 16 of SoftWrAP: TPC-C on SQLite, over memory that is slower and slower.
#include "bench/tpcc/driver.h"
#include "measure/judge.h"
#include "measure/settings.h"
#include "papers/pool.h"
#include "papers/softwrap/evaluation/paper_softwrap.h"
#include "papers/softwrap/evaluation/wrap_job.h"

namespace perdure::bench::reproduce {
namespace {

tpcc::Mode mode_of(const WrapSystem& system, double line_ns) {
  return {"perdure", "delete", "full",
          fmt::format("domain=adr&engine={}&line_ns={:.0f}", papers::engine_name(system.engine),
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
      "hold word by word at once.) Every round ends with the standard's twelve conditions and an "
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

  const std::vector<WrapSystem> systems = {kNonAtomic, kUndoLog, kSoftWrap, kPages, kDefault};
  std::vector<std::vector<std::optional<Spread>>> rates(systems.size());
  std::string broken;
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    tell_progress("Figure 16", place, section.x.size());
    std::vector<std::vector<double>> runs(systems.size());
    for (unsigned round = 0; round < std::min(settings.rules.repetitions, 3u); ++round) {
      for (std::size_t i = 0; i < systems.size(); ++i) {
        const tpcc::Outcome outcome =
            run_round(load, mode_of(systems[i], section.x[place]), original, settings.dir, round);
        if (!outcome.violations.empty()) broken = outcome.violations.front();
        runs[i].push_back(outcome.transactions_per_s());
      }
    }
    for (std::size_t i = 0; i < systems.size(); ++i) rates[i].emplace_back(spread_of(runs[i]));
  }
  for (std::size_t i = 0; i < systems.size(); ++i)
    section.add(std::string(systems[i].name), "tx/s", Origin::kPerdure).values =
        std::move(rates[i]);

  const Series& ours = *section.find("SoftWrAP");
  const Series& bound = *section.find("Non-Atomic");
  std::string found;
  bool agrees = broken.empty();
  for (std::size_t place = 0; place < section.x.size(); ++place) {
    const double share = ours.at(place) / bound.at(place);
    found += fmt::format("{}{:.0f} tx/s at {:.0f} ns, {:.2f} of Non-Atomic's",
                         place == 0 ? "" : "; ", ours.at(place), section.x[place], share);
    agrees = agrees && share > 1 / kTolerance &&
             (section.x[place] == 0 || ours.at(place) > 30 * paper_softwrap::kDiskPerS);
  }
  if (!broken.empty()) found += "; BROKEN: " + broken;
  section.judgements.push_back(
      {std::string(paper_softwrap::kTpcc), found, agrees,
       agrees
           ? ""
           : "A page that SQLite reads is looked up in the tables word by word, a third of the CPU "
             "time; where memory is fast nothing makes up for it."});
  return section;
}

}  // namespace perdure::bench::reproduce
