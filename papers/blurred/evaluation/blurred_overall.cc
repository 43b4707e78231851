// SPDX-License-Identifier: BSD-3-Clause
// Figures 9 and 10: every system on every workload, one thread and several.
#include <thread>

#include <fmt/format.h>

#include "papers/blurred/evaluation/blurred.h"
#include "papers/blurred/evaluation/claims.h"

namespace perdure::bench::reproduce {
Section measure_one_thread(const Settings& settings) {
  const std::vector<PaperSystem> systems = {kBaseSystem, kBaseStream, kMne, kXil,
                                            kVcbp,       kBppm,       kNp,  kOurDefault};
  Section section = begin_section(
      "figure9", "Figure 9: transaction throughput in single-thread mode",
      "1 SPS, 2 Hash, 3 RBTree, 4 B+Tree, 5 KVStore",
      fmt::format(
          "One thread, values of 8 bytes, {} entries, a log of 1 MiB. SPS swaps entries of an "
          "array; Hash, RBTree and B+Tree (nodes of 4 KiB, four operations in a transaction) "
          "insert and delete; KVStore does so in a B+ tree with keys of 16 bytes, whose nodes hold "
          "as "
          "many records as Tokyo Cabinet's. BASE writes its log through the cache, flushes each "
          "line, and waits for its body and again for its commit word; MNE and BP(VCBP) write "
          "theirs past the cache and have torn bits in place of the commit word; both, BASE and "
          "BP(XIL) force home words at each commit; BP(VCBP) and BPPM do in bulk, when a log is "
          "full. BASE+stream (BASE with its log past the cache) and our default (home words under "
          "the next commit's wait) are not in the paper.",
          settings.blurred.live));
  section.missing += " Its KVStore is Tokyo Cabinet.";
  std::vector<std::vector<std::optional<Spread>>> values(systems.size());
  for (std::size_t i = 0; i < kAllWork.size(); ++i) {
    section.x.push_back(static_cast<double>(i + 1));
    section.places.emplace_back(work_name(kAllWork[i]));
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
  add_effects(section, "");
  paper_blurred::judge_one_thread(section);
  return section;
}

std::vector<Section> measure_threads(const Settings& settings) {
  const std::vector<PaperSystem> systems = {kBaseSystem, kMne, kBppm, kNp};
  Section section = begin_section(
      "figure10", "Figure 10: transaction throughput in multithread mode", "threads",
      "As Figure 9; all threads in one structure, and with the same keys: one that is found "
      "is deleted, any other inserted.");
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
      options.shared_keys = true;
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
    add_effects(section, fmt::format("{}: ", work_name(work)));
  }
  paper_blurred::judge_threads(section, std::thread::hardware_concurrency());
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
