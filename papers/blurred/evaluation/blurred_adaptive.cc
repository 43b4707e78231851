// SPDX-License-Identifier: BSD-3-Clause
// Figures 16 and 17, Table II: slower memory, and the adaptive choice.
#include <fmt/format.h>

#include "papers/blurred/evaluation/blurred.h"
#include "papers/blurred/evaluation/claims.h"

namespace perdure::bench::reproduce {

Section measure_memory_latencies(const Settings& settings) {
  const std::vector<double>& latencies = settings.blurred.latencies_ns;
  Section section = begin_section(
      "figure16", "Figure 16: sensitivity to the memory latency", "latency (ns)",
      "The hash table of Figure 9, one thread. The latency is added to each flushed line, each run "
      "written through and each wait, as in the paper (\"we add the latency to each memory flush "
      "operation\").");
  section.x = latencies;
  race_along(section, {kBaseSystem, kBaseStream, kMne, kXil, kVcbp, kBppm}, Work::kHash, settings,
             "", "tx/s", [&](std::size_t place, JobOptions& options) {
               options.memory.latency_ns = latencies[place];
             });
  paper_blurred::judge_memory_latencies(section);
  return section;
}

std::vector<Section> measure_adaptive(const Settings& settings) {
  const std::vector<PaperSystem> systems = {kVcbp, kBppm, kBppmA};
  const std::vector<double>& latencies = settings.blurred.latencies_ns;
  Section choice = begin_section(
      "figure17", "Figure 17: performance of adaptive BPPM", "latency (ns)",
      fmt::format(
          "As Figure 16, every workload. BPPM-A tries both modes by turns for {} "
          "transactions, then keeps the quicker one; measured is what follows. Its ring of 4 MiB "
          "has a log of 1 MiB for its buffered mode beside the other's. Static is "
          "the strategy with a threshold: BPPM below {:g} ns, BP(VCBP) from there on.",
          settings.blurred.warm_up, paper_blurred::kThresholdNs));
  choice.x = latencies;
  Section warm_up =
      begin_section("table2", "Table II: warm-up time", "latency (ns)",
                    fmt::format("The first {} transactions of Figure 17 under BPPM-A.",
                                settings.blurred.warm_up));
  warm_up.missing.clear();
  warm_up.x = latencies;
  for (std::size_t w = 0; w < kAllWork.size(); ++w) {
    const std::string work(work_name(kAllWork[w]));
    std::vector<std::vector<std::optional<Spread>>> rates(systems.size());
    std::vector<std::optional<double>> ms;
    std::vector<std::optional<double>> paper_ms(latencies.size());
    for (std::size_t place = 0; place < latencies.size(); ++place) {
      tell_progress("figure 17: " + work, place, latencies.size());
      JobOptions options = job_options(settings);
      options.memory.latency_ns = latencies[place];
      // A round more: until the first look at the clock.
      const std::vector<JobResult> results = race_jobs(
          systems, kAllWork[w], options, settings.rules, settings.blurred.warm_up * 21 / 20);
      for (std::size_t i = 0; i < systems.size(); ++i)
        rates[i].emplace_back(results[i].transactions_per_s);
      ms.emplace_back(results.back().warm_up_ms);
      for (std::size_t i = 0; i < paper_blurred::kLatenciesNs.size(); ++i) {
        if (paper_blurred::kLatenciesNs[i] == latencies[place])
          paper_ms[place] = paper_blurred::kTable2[w].ms[i];
      }
    }
    for (std::size_t i = 0; i < systems.size(); ++i)
      choice.add(work + ": " + std::string(systems[i].name), "tx/s", Origin::kPerdure).values =
          std::move(rates[i]);
    std::vector<std::optional<Spread>> by_threshold;
    for (std::size_t place = 0; place < latencies.size(); ++place) {
      const bool is_quick = latencies[place] < paper_blurred::kThresholdNs;
      const Series* mode = choice.find(work + (is_quick ? ": BPPM" : ": BP(VCBP)"));
      by_threshold.push_back(mode->values[place]);
    }
    choice.add(work + ": static", "tx/s", Origin::kDerived).values = std::move(by_threshold);
    warm_up.add_values(work, "ms", Origin::kPerdure, ms);
    warm_up.add_values("paper: " + work, "ms", Origin::kPaper, paper_ms);
  }
  paper_blurred::judge_adaptive(choice);
  paper_blurred::judge_warm_up(warm_up);
  return {choice, warm_up};
}

}  // namespace perdure::bench::reproduce
