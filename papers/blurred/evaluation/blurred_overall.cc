// SPDX-License-Identifier: BSD-3-Clause
// Figures 9 and 10: every system on every workload, one thread and several.
#include "papers/blurred/evaluation/blurred.h"

namespace perdure::bench::reproduce {
namespace {

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Holds a gain over all workloads against the paper's. It agrees when it is one, and its mean within the tolerance.
void judge_gain(Section& section, const std::string& above, const std::string& below,
                const paper_blurred::Gain& paper, const std::string& why) {
  std::vector<double> gains;
  for (std::size_t i = 0; i < section.x.size(); ++i)
    gains.push_back(gain_percent(section, above, below, i));
  const double found = mean(gains);
  const bool agrees =
      found > 0 && found >= paper.mean / kTolerance && found <= paper.mean * kTolerance;
  section.judgements.push_back(
      {std::string(paper.text),
       fmt::format("{}, mean {:.0f} %", range_text(seen(gains), " %"), found), agrees,
       agrees ? "" : why});
}

}  // namespace

Section measure_one_thread(const Settings& settings) {
  const std::vector<PaperSystem> systems = {kBaseSystem, kMne, kXil,       kVcbp,
                                            kBppm,       kNp,  kOurDefault};
  Section section = begin_section(
      "figure9", "Figure 9: transaction throughput in single-thread mode",
      "1 SPS, 2 Hash, 3 RBTree, 4 B+Tree, 5 KVStore",
      fmt::format(
          "One thread, values of 8 bytes, {} entries, a log of 1 MiB. SPS swaps entries of an "
          "array; Hash, RBTree and B+Tree (nodes of 4 KiB, four operations in a transaction) "
          "insert and delete; KVStore does so in a hash table of 16-byte strings. BASE waits for "
          "its log's body and again for its commit word; it, MNE and BP(XIL) force home words at "
          "each commit; BP(VCBP) and BPPM do in bulk, when a log is full. Our default (home words "
          "under the next commit's wait) is not in the paper.",
          settings.blurred.live));
  section.missing += " Its KVStore is Tokyo Cabinet.";
  std::vector<std::vector<std::optional<Spread>>> values(systems.size());
  for (std::size_t i = 0; i < kAllWork.size(); ++i) {
    section.x.push_back(static_cast<double>(i + 1));
    tell_progress("figure 9: " + std::string(work_name(kAllWork[i])), i, kAllWork.size());
    const std::vector<JobResult> results =
        race_jobs(systems, kAllWork[i], job_options(settings), settings.rules);
    for (std::size_t j = 0; j < systems.size(); ++j)
      values[j].emplace_back(results[j].transactions_per_s);
  }
  for (std::size_t j = 0; j < systems.size(); ++j)
    section.add(std::string(systems[j].name), "tx/s", Origin::kPerdure).values =
        std::move(values[j]);
  for (const PaperSystem& system : systems) {
    if (system.name == kBaseSystem.name) continue;
    const std::string name(system.name);
    section.add_ratio(name + " / BASE", name, "BASE");
  }
  std::string costs = "SPS, microseconds for a transaction:";
  for (const PaperSystem& system : systems)
    costs += fmt::format(" {} {:.2f}{}", system.name,
                         1e6 / section.find(std::string(system.name))->at(0),
                         system.name == systems.back().name ? "." : ",");
  judge_gain(section, "BPPM", "BASE", paper_blurred::kOverBase, costs);
  judge_gain(section, "BPPM", "MNE", paper_blurred::kOverMnemosyne, costs);
  judge_gain(section, "BP(XIL)", "BASE", paper_blurred::kInLog, costs);
  judge_gain(section, "BP(VCBP)", "BASE", paper_blurred::kVolatileCheckpoint,
             "A bulk persist here writes back the lines that the log names, each once; the paper's "
             "writes back the whole cache. " +
                 costs);
  std::vector<double> degradations;
  std::vector<double> removed;
  for (std::size_t i = 0; i < section.x.size(); ++i) {
    const double np = section.find("NP")->at(i);
    const double base = section.find("BASE")->at(i);
    degradations.push_back((1 - base / np) * 100);
    const double overhead = 1 / base - 1 / np;
    removed.push_back((1 / base - 1 / section.find("BPPM")->at(i)) / overhead * 100);
  }
  const double degradation = mean(degradations);
  const bool agrees = degradation >= paper_blurred::kDegradation / kTolerance && mean(removed) > 25;
  section.judgements.push_back(
      {std::string(paper_blurred::kDegradationText),
       fmt::format("{:.0f} %; BPPM removes {:.0f} % of it", degradation, mean(removed)), agrees,
       agrees ? "" : costs});
  return section;
}

std::vector<Section> measure_threads(const Settings& settings) {
  const std::vector<PaperSystem> systems = {kBaseSystem, kMne, kBppm, kNp};
  Section section =
      begin_section("figure10", "Figure 10: transaction throughput in multithread mode", "threads",
                    "As Figure 9; all threads in one structure, each with keys of its own.");
  section.missing +=
      " Its machine has 4 cores; what more threads than cores do is the scheduler's.";
  for (const unsigned threads : settings.blurred.threads)
    section.x.push_back(static_cast<double>(threads));
  for (const Work work : {Work::kHash, Work::kRbTree}) {
    std::vector<std::vector<std::optional<Spread>>> rates(systems.size());
    std::vector<std::vector<std::optional<double>>> aborts(systems.size());
    for (std::size_t place = 0; place < section.x.size(); ++place) {
      tell_progress("figure 10: " + std::string(work_name(work)), place, section.x.size());
      JobOptions options = job_options(settings);
      options.threads = settings.blurred.threads[place];
      const std::vector<JobResult> results = race_jobs(systems, work, options, settings.rules);
      for (std::size_t i = 0; i < systems.size(); ++i) {
        rates[i].emplace_back(results[i].transactions_per_s);
        aborts[i].emplace_back(results[i].abort_part * 100);
      }
    }
    for (std::size_t i = 0; i < systems.size(); ++i) {
      const std::string name = fmt::format("{}: {}", work_name(work), systems[i].name);
      section.add(name, "tx/s", Origin::kPerdure).values = std::move(rates[i]);
      section.add_values(name + ", aborts", "%", Origin::kPerdure, aborts[i]).charted = false;
    }
  }
  std::string found;
  bool agrees = true;
  for (const Work work : {Work::kHash, Work::kRbTree}) {
    const std::string name = fmt::format("{}: BPPM", work_name(work));
    const Series* rate = section.find(name);
    const Series* aborts = section.find(name + ", aborts");
    const std::size_t last = section.x.size() - 1;
    agrees = agrees && rate->at(1) > rate->at(0);
    found += fmt::format(
        "{}{} {:.0f}k tx/s with 1 thread, {:.0f}k with 2, {:.0f}k with {:.0f} ({:.0f} % aborts)",
        found.empty() ? "" : "; ", name, rate->at(0) / 1e3, rate->at(1) / 1e3, rate->at(last) / 1e3,
        section.x[last], aborts->at(last));
  }
  section.judgements.push_back(
      {std::string(paper_blurred::kThreads), found, agrees,
       agrees ? ""
              : "The second thread's gain is lost to what both share: the commit clock, the "
                "structure's lines, this machine's two cores."});
  return {section};
}

Section measure_mixes(const Settings& settings) {
  const std::vector<unsigned>& shares = settings.blurred.look_up_percent;
  Section section = begin_section(
      "mixes", "Beyond the paper: look-ups among the updates", "look-ups (% of the transactions)",
      "As Figure 9, one thread; a part of the transactions reads a key and changes nothing.");
  section.missing = "The paper has no such mixes.";
  for (const unsigned share : shares) section.x.push_back(share);
  for (const Work work : {Work::kHash, Work::kRbTree, Work::kBTree, Work::kStore})
    race_along(section, {kBaseSystem, kMne, kBppm, kNp, kOurDefault}, work, settings,
               std::string(work_name(work)) + ": ", "tx/s",
               [&](std::size_t place, JobOptions& options) {
                 options.look_up_part = shares[place] / 100.0;
               });
  return section;
}

}  // namespace perdure::bench::reproduce
